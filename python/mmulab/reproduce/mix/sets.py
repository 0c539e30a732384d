"""MIX with more and more sets in its second level, at one number of entries; bundles of up to 128, and of up to 512."""

from collections.abc import Callable
from dataclasses import dataclass

from mmulab import engine
from mmulab.markdown import grid
from mmulab.reproduce.mix.designs import MIRRORS, SETS, SPLIT, tlb_set, with_sets
from mmulab.reproduce.mix.suite import DESIGNS, Outcome, Plan, Row, row_of
from mmulab.reproduce.shared.bounds import BOUNDS, between
from mmulab.reproduce.shared.cells import Stopped, Store

# The paper's own: Linux, beside nothing that breaks memory up.
REGIME = "THP, memhog 0 %"
LIMITS = ("mix", "mix-512")
# "512-set TLBs achieve within 13 % of the performance of ideal TLBs which never miss" (section 7.2).
NEAR = 0.13


@dataclass(frozen=True)
class Shape:
    """A second level."""

    sets: int
    mirrors: str
    limit: str

    @property
    def name(self) -> str:
        """For a file."""
        return f"{self.sets} sets, {self.mirrors}, {self.limit}"


def shapes() -> list[Shape]:
    """All there are."""
    return [Shape(sets, mirrors, limit) for sets in SETS for limit in LIMITS for mirrors in MIRRORS]


def run(plan: Plan, store: Store) -> Outcome:
    """Runs every program under transparent huge pages; machines of a trace share its decoding."""
    regime = next(regime for regime in plan.regimes if regime.name == REGIME)
    common = plan.common()
    fitted = {
        limit: engine.fit(plan.machine, DESIGNS[limit][0], DESIGNS[limit][1], common)["fitted"]["tlb"]
        for limit in LIMITS
    }
    tlbs: dict[str, tuple[str, ...]] = {SPLIT: ()} | {
        s.name: (tlb_set(with_sets(fitted[s.limit], s.sets, s.mirrors)),) for s in shapes()
    }
    rows: list[Row] = []
    try:
        for program in plan.programs:
            rows.append(row_of(program, regime, plan, tlbs, store))
    except Stopped:
        return Outcome("mix-sets", plan, rows, complete=False)
    return Outcome("mix-sets", plan, rows)


def tables(outcome: Outcome) -> dict[str, str]:
    """All, by their names on the page."""
    return {"sets": _average(outcome), "programs": _by_program(outcome)}


def _average(outcome: Outcome) -> str:
    rows = []
    for sets in SETS:
        cells = []
        for limit in LIMITS:
            for mirrors in MIRRORS:
                name = Shape(sets, mirrors, limit).name
                gains = between(outcome.geomean(REGIME, _gain_of(name, how)) for how in BOUNDS)
                near = sum(row.overhead(name) <= NEAR for row in outcome.rows)
                cells.append(f"{gains} ({near} of {len(outcome.rows)})")
        rows.append([str(sets), *cells])
    longest = [f"up to {DESIGNS[limit][1][1]}, {mirrors}" for limit in LIMITS for mirrors in MIRRORS]
    return grid(("sets", *longest), rows)


def _gain_of(name: str, how: str) -> Callable[[Row], float]:
    return lambda row: row.gain(name, how)


def _by_program(outcome: Outcome) -> str:
    names = [Shape(sets, "blind", "mix").name for sets in SETS]
    rows = []
    for row in outcome.rows:
        cells = [f"{row.overhead(name):.0%}" for name in names]
        rows.append([row.program.name, f"{row.overhead(SPLIT):.0%}", *cells])
    return grid(("slower than without misses", SPLIT, *(f"{sets} sets" for sets in SETS)), rows)
