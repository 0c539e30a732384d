"""Groups of 4 pages against groups of 8, all else equal: one machine, one memory manager, one trace."""

from dataclasses import dataclass, replace
from typing import Any

from mmulab import UserError, engine
from mmulab.reproduce.pte_coalescing import sparsity
from mmulab.reproduce.pte_coalescing.columns import ZEN3
from mmulab.reproduce.pte_coalescing.sparsity import LARGE, SMALL
from mmulab.reproduce.shared import declare
from mmulab.result import Result

# Whose frames lie as pages do, so that what is touched alone decides (paper 1, section 5.4).
POLICY = "freebsd-reserv"
NAMES = {0: "none", SMALL: f"{4 * SMALL} KB", LARGE: f"{4 * LARGE} KB"}
# Every page of these is touched, as paper 1 says of anonymous memory; base pages exceed the reach of the L2 in both.
DENSE = ("gen:gups?footprint=16M&updates=2M", "gen:zipf?footprint=64M&references=4M")
SHARES = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.975, 1.0)
# The sweep's region over the reach of the L2 in base pages: so large that hits are few, as the closed form wants.
FOOTPRINT_MB = 64
REFERENCES = 2_000_000


@dataclass(frozen=True)
class Plan:
    """Groups of 16 KB against groups of 32 KB on one machine (paper 1, section 5.4). What sparsely used code and
    densely used data gain from each, and from which share of accessed pages on the larger ones win.

    DIR gets sizes.txt and sizes.json.

    Example: mmulab reproduce pte-coalescing-group-size --trace clang.mmt
    """

    trace: str | None = declare.trace("A recording whose code and data are looked at too.")
    machine: str = declare.machine(ZEN3, "A machine that coalesces.")
    policy: str = declare.policy(POLICY)
    sets: tuple[str, ...] = declare.sets()
    options: engine.Options = declare.engine_options()

    def job(self, group: int) -> engine.Job:
        """The machine with every group of that many pages; 0 turns coalescing off."""
        return engine.Job(self.machine, self.policy, (*self.sets, *_grouping(self.machine, self.policy, group)))


def _grouping(machine: str, policy: str, group: int) -> tuple[str, ...]:
    if not group:
        return ("tlb_rules.coalescing=none",)
    arrays = engine.resolve(engine.Job(machine, policy))["machine"]["tlb"]
    named = tuple(f"tlb.{array['name']}.group={group}" for array in arrays if array["design"] == "zen")
    if not named:
        raise UserError(f"{machine}: none of its TLBs coalesces groups\nhint: take zen3-5900x or zenplus-2700x")
    return named


@dataclass(frozen=True)
class Case:
    """A trace's results by group size, and the side of the TLBs that is looked at."""

    name: str
    side: str
    results: dict[int, Result]

    def rate(self, group: int, level: int) -> float:
        """Misses per 1000 instructions."""
        return self.results[group].mpki(f"l{level}{self.side}")

    def saved(self, group: int, level: int) -> float:
        """The share of misses that groups of this size save."""
        without = self.rate(0, level)
        return 1 - self.rate(group, level) / without if without else 0.0

    def coalesced(self, group: int) -> float:
        """The share of L2 hits that are on entries of several pages."""
        hits = self.results[group].reloads(f"l1{self.side}", "l2_hits")
        total = sum(hits.values())
        return hits.get("coalesced", 0) / total if total else 0.0


@dataclass(frozen=True)
class Point:
    """One share of pages touched: L2 misses of a reference, by group size, as counted and by the closed form."""

    share: float
    counted: dict[int, float]
    expected: dict[int, float]


@dataclass(frozen=True)
class Outcome:
    """All of it."""

    plan: Plan
    cases: list[Case]
    sweep: list[Point]

    @property
    def results(self) -> list[Result]:
        """The runs of the cases."""
        return [result for case in self.cases for result in case.results.values()]

    def crossovers(self) -> dict[str, float | None]:
        """The shares above which large groups win: counted, and by the three closed forms."""
        counted = [(p.share, p.counted[SMALL], p.counted[LARGE]) for p in self.sweep]
        expected = [(p.share, p.expected[SMALL], p.expected[LARGE]) for p in self.sweep]
        return {
            "counted": sparsity.crossover(counted),
            "expected": sparsity.crossover(expected),
            "small_tlb": sparsity.crossover_of_hits(),
            "entries": sparsity.crossover_of_entries(),
        }

    def data(self) -> dict[str, Any]:
        """As JSON."""

        def case(c: Case) -> dict[str, Any]:
            groups = {
                NAMES[g]: {
                    "l1_misses": c.rate(g, 1),
                    "l2_misses": c.rate(g, 2),
                    "l1_saved": c.saved(g, 1),
                    "l2_saved": c.saved(g, 2),
                    "coalesced_l2_hits": c.coalesced(g),
                }
                for g in c.results
            }
            return {"name": c.name, "side": "code" if c.side == "i" else "data", "groups": groups}

        def point(p: Point) -> dict[str, Any]:
            return {
                "share": p.share,
                "coalesced": {NAMES[g]: sparsity.coalesced(p.share, g) for g in (SMALL, LARGE)},
                "entries": {NAMES[g]: sparsity.entries(p.share, g) for g in (SMALL, LARGE)},
                "l2_misses": {NAMES[g]: p.counted[g] for g in p.counted},
                "l2_misses_expected": {NAMES[g]: p.expected[g] for g in p.expected},
            }

        return {
            "experiment": "pte-coalescing-group-size",
            "version": engine.version(),
            "machine": self.plan.machine,
            "policy": self.plan.policy,
            "set": list(self.plan.sets),
            "trace": self.cases[0].results[0].trace if self.plan.trace else None,
            "cases": [case(c) for c in self.cases],
            "sweep": [point(p) for p in self.sweep],
            "crossover": self.crossovers(),
        }


def run(plan: Plan, progress: engine.ProgressCallback | None = None) -> Outcome:
    """Runs the recording, the dense generators, and the sweep."""
    jobs = {group: plan.job(group) for group in NAMES}

    def results(trace: str, options: engine.Options) -> dict[int, Result]:
        found = dict(zip(jobs, engine.run(trace, list(jobs.values()), options, progress).results, strict=True))
        for result in found.values():
            result.check()
        return found

    cases = []
    if plan.trace:
        recorded = results(plan.trace, plan.options)
        name = str(recorded[0].trace["name"])
        cases += [Case(f"code of {name}", "i", recorded), Case(f"data of {name}", "d", recorded)]
    # What is made to a measure is run whole.
    whole = replace(plan.options, skip=None, max_instructions=None)
    cases += [Case(dense, "d", results(dense, whole)) for dense in DENSE]
    return Outcome(plan, cases, [_point(share, results(_sparse(share), whole)) for share in SHARES])


def _sparse(share: float) -> str:
    return f"gen:sparse?footprint={FOOTPRINT_MB}M&share={share}&references={REFERENCES}"


def _point(share: float, results: dict[int, Result]) -> Point:
    groups = (SMALL, LARGE)
    pages = FOOTPRINT_MB * 256
    counted = {g: results[g].tlb("l2d")["misses"] / results[g].counts["reads"] for g in groups}
    arrays = results[SMALL].data["machine"]["tlb"]
    capacity = sum(a["entries"] for a in arrays if a["level"] == 2 and a["side"] == "data" and "4K" in a["sizes"])
    return Point(share, counted, {g: sparsity.misses(share, g, pages, capacity) for g in groups})
