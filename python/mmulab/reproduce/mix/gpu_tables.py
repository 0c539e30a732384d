"""What came of designs on shader cores, as Markdown tables and plots."""

from collections.abc import Callable, Sequence

from mmulab.markdown import grid, percent
from mmulab.reproduce.mix import runs, tlb_plots
from mmulab.reproduce.mix.designs import SPLIT
from mmulab.reproduce.mix.gpu import MIX, NEVER, TWO_MB, Outcome, Row, reshaped


def tables(outcome: Outcome) -> dict[str, str]:
    """All, by their names on the page."""
    if not outcome.rows:
        return {}
    designs = [d for d in outcome.rows[0].of if d not in (SPLIT, NEVER) and d not in reshaped()]
    made = {"programs": _programs(outcome), "contiguity-of-4-kb": _small(outcome)}
    made |= {"contiguity": runs.averages(outcome), "contiguity-of-programs": runs.by_program(outcome)}
    for regime in outcome.regimes:
        name = regime.lower().replace(", ", "-").replace(" %", "").replace(" ", "-")
        made[f"gain-{name}"] = _gains(outcome, regime, [*designs, NEVER])
    made["overhead"] = _means(outcome, [SPLIT, *designs], Row.overhead)
    made["misses"] = _means(outcome, [SPLIT, *designs], Row.misses, "{:.2%}")
    made["energy"] = _means(outcome, designs, Row.saved, "{:+.0%}")
    if MIX in designs:
        made["ways"] = _ways(outcome)
    made["breakdown"] = _breakdown(outcome, [SPLIT, *designs])
    return made


def plots(outcome: Outcome) -> dict[str, str]:
    """Figure 16, and Figures 12 and 13, by what their files' names end with."""
    if not outcome.rows:
        return {}
    kinds = {"small pages": lambda row: row.regime.name == "4 KB", "superpages": lambda row: row.regime.name != "4 KB"}
    lines = [(name, runs.size_of(name)) for name in outcome.regimes if name != "4 KB"]
    drawn = {"-energy": tlb_plots.tradeoffs(outcome, kinds)}
    return drawn | ({"-contiguity": tlb_plots.distributions(outcome, {"2 MB pages": lines})} if lines else {})


def _programs(outcome: Outcome) -> str:
    rows = []
    for row in outcome.under(outcome.regimes[0]):
        split = row.of[SPLIT]
        memory = sum(split["mapped"].values()) / 2**30
        # An instruction in four is a load or store.
        accesses = split["instructions"] / 4
        each = (f"{split['lanes'] / accesses:.1f}", f"{split['lookups'] / accesses:.2f}")
        rows.append([row.program.name, f"`{row.program.keys}`", f"{memory:.2f} GiB", *each])
    return grid(("program", "keys", "memory", "lanes a load or store", "pages a load or store"), rows, text=2)


def _small(outcome: Outcome) -> str:
    rows = []
    for regime in outcome.regimes:
        found = [one.average for one in runs.of_size(outcome, regime, "4K").values()]
        rows.append([regime, f"{sum(found) / len(found):,.1f}" if found else runs.NONE])
    return grid(("pages", "average contiguity of 4 KB pages"), rows)


def _gain(outcome: Outcome, regime: str, design: str) -> str:
    return percent(outcome.geomean(regime, lambda row: row.gain(design)))


def _gains(outcome: Outcome, regime: str, designs: Sequence[str]) -> str:
    rows = [
        [row.program.name, f"{row.misses(SPLIT):.2%}", *(percent(row.gain(design)) for design in designs)]
        for row in outcome.under(regime)
    ]
    rows.append(["**mean**", "", *(_gain(outcome, regime, design) for design in designs)])
    return grid(("program", "misses, split", *designs), rows)


def _means(outcome: Outcome, designs: Sequence[str], figure: Callable[[Row, str], float], form: str = "{:.1%}") -> str:
    def mean(regime: str, design: str) -> str:
        return form.format(outcome.mean(regime, lambda row: figure(row, design)))

    rows = [[regime, *(mean(regime, design) for design in designs)] for regime in outcome.regimes]
    return grid(("pages", *designs), rows)


def _ways(outcome: Outcome) -> str:
    columns = [MIX, *reshaped()]
    rows = []
    for regime in outcome.regimes:
        for row in outcome.under(regime) if regime == TWO_MB else []:
            rows.append([regime, row.program.name, *(percent(row.gain(c)) for c in columns)])
        rows.append([regime, "**mean**", *(_gain(outcome, regime, c) for c in columns)])
    return grid(("pages", "program", *columns), rows, text=2)


def _breakdown(outcome: Outcome, designs: Sequence[str]) -> str:
    parts = [part for part in outcome.rows[0].of[SPLIT]["dynamic_nj"] if part != "total"]
    rows = []
    for design in designs:
        # Each program as much as any other: in parts of its split design's energy.
        shares = [
            [
                *(row.of[design]["dynamic_nj"][part] / row.energy(SPLIT) for part in parts),
                row.of[design]["leakage_nj"] / row.energy(SPLIT),
            ]
            for row in outcome.rows
        ]
        means = [sum(share) / len(shares) for share in zip(*shares, strict=True)]
        rows.append([design, *(f"{mean:.1%}" for mean in [*means, sum(means)])])
    return grid(("design", *parts, "leakage", "all"), rows)
