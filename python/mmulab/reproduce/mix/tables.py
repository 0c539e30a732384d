"""What came of it, as Markdown tables."""

from collections.abc import Callable, Sequence
from typing import Any

from mmulab.markdown import grid, percent
from mmulab.reproduce.mix import runs
from mmulab.reproduce.mix.designs import SPLIT
from mmulab.reproduce.mix.outcome import SERIAL
from mmulab.reproduce.mix.suite import Outcome, Row
from mmulab.reproduce.shared.bounds import BOUNDS, DEPENDENT, INDEPENDENT, between
from mmulab.reproduce.shared.cells import Figures
from mmulab.units import show_bytes

MIB = 1 << 20
# Where Figure 17's breakdown is read off, and Figure 16's programs.
BROKEN_DOWN = ("4 KB", "2 MB", "1 GB", "THP, memhog 20 %", "1 VM, memhog 20 %")
PARTS = ("lookup", "predictor", "walk", "fill", "other")
LOOKED_AT = "THP, memhog 20 %"


def tables(outcome: Outcome) -> dict[str, str]:
    """All, by their names on the page."""
    return {
        "programs": _programs(outcome),
        "gain": _gains(outcome, INDEPENDENT),
        "gain-dependent": _gains(outcome, DEPENDENT),
        "gain-serial": _gains(outcome, SERIAL),
        "gain-of-mix": _by_program(outcome, "mix"),
        "gain-of-colt": _by_program(outcome, "colt++"),
        "overhead": _overheads(outcome),
        "energy": _energy(outcome),
        "parts": _parts(outcome),
        "walks": _walks(outcome),
        "contiguity": runs.averages(outcome),
        "contiguity-of-programs": runs.by_program(outcome),
    }


def _designs(outcome: Outcome) -> list[str]:
    return [name for name in outcome.plan.designs if name != SPLIT]


def _programs(outcome: Outcome) -> str:
    def size(program: str, superpages_only: bool, vms: int) -> str:
        for row in outcome.rows:
            regime = row.regime
            if (row.program.name, regime.superpages_only, min(regime.vms, 1)) == (program, superpages_only, vms):
                return show_bytes(row.of[SPLIT].tables["resident"] // MIB * MIB)
        return "–"

    rows = [
        [p.name, p.paper, size(p.name, True, 0), size(p.name, False, 0), size(p.name, False, 1)]
        for p in outcome.plan.programs
    ]
    return grid(("here", "in paper 4", "superpages only", "4 KB, and beside memhog", "in a VM"), rows)


def _by_regime(outcome: Outcome, designs: Sequence[str], value: Callable[[str, str], str]) -> str:
    rows = [[regime, *(value(regime, design) for design in designs)] for regime in outcome.regimes]
    return grid(("pages", *designs), rows)


def _gains(outcome: Outcome, how: str) -> str:
    def gain(regime: str, design: str) -> str:
        return percent(outcome.geomean(regime, lambda row: row.gain(design, how)))

    return _by_regime(outcome, _designs(outcome), gain)


def _by_program(outcome: Outcome, design: str) -> str:
    if design not in outcome.plan.designs:
        return ""
    names = [program.name for program in outcome.plan.programs]
    rows = []
    for regime in outcome.regimes:
        of = {row.program.name: row for row in outcome.under(regime)}
        gains = (between(of[name].gain(design, how) for how in BOUNDS) if name in of else "–" for name in names)
        rows.append([regime, *gains])
    return grid((f"{design}, pages", *names), rows)


def _overheads(outcome: Outcome) -> str:
    def overhead(regime: str, design: str) -> str:
        least_most = sorted(row.overhead(design) for row in outcome.under(regime))
        mean = sum(least_most) / len(least_most)
        return f"{mean:.0%} ({least_most[0]:.0%}–{least_most[-1]:.0%})"

    return _by_regime(outcome, (SPLIT, *_designs(outcome)), overhead)


def _energy(outcome: Outcome) -> str:
    return _by_regime(
        outcome, _designs(outcome), lambda regime, design: percent(outcome.mean(regime, lambda row: row.saved(design)))
    )


def _parts(outcome: Outcome) -> str:
    rows = []
    for regime in (name for name in BROKEN_DOWN if outcome.under(name)):
        for design in (SPLIT, *_designs(outcome)):

            def part(name: str, design: str = design, regime: str = regime) -> str:
                return f"{outcome.mean(regime, lambda row: row.part(design, name)):.1%}"

            rows.append([regime, design, *map(part, PARTS), part("total")])
    return grid(("pages", "design", *PARTS, "all"), rows, text=2)


def _per_kilo(figures: Figures) -> float:
    return float(figures.walks) * 1000 / max(int(figures.instructions), 1)


def _walks(outcome: Outcome) -> str:
    shown = [name for name in (SPLIT, "mix", "mix-merged", "colt++", "skew", "ideal") if name in outcome.plan.designs]
    head = [f"walks, {name}" for name in shown]
    rows = []
    for row in outcome.under(LOOKED_AT):
        figures = [row.of[name] for name in shown]
        hits = [f"{1 - rate(f, 'l1d'):.1%}" for f in (row.of[SPLIT], row.of["mix"])] if "mix" in row.of else []
        rows.append([row.program.name, *(f"{_per_kilo(f):.1f}" for f in figures), *hits, *_second_level(row)])
    return grid(("program", *head, "L1 hits, split", "mix", "L2: entries written a fill", "fills that grew one"), rows)


def rate(figures: Figures, level: str) -> float:
    """Misses of a level's accesses for data."""
    counted = figures.data_tlb[level]
    return float(counted["misses"]) / counted["accesses"] if counted["accesses"] else 0.0


def _second_level(row: Row) -> list[str]:
    array: dict[str, Any] = row.of["mix"].mirroring.get("STLB", {}) if "mix" in row.of else {}
    fills = array.get("fills", 0)
    return [f"{array['writes'] / fills:.0f}", f"{array['extended'] / fills:.2%}"] if fills else ["–", "–"]
