"""The number of children from which page tables should be merged (paper 5, section 6.1).

Each program's misses are taken once, and walked again under every threshold.
"""

from dataclasses import dataclass
from typing import Any

from mmulab import engine
from mmulab.reproduce.compendia.closed_form import MIB
from mmulab.reproduce.compendia.workloads import COMPILER, FEW_UPDATES, SPREAD, Workload, chosen, only
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.cells import Cell, Figures, Stopped, Store, identity
from mmulab.reproduce.shared.kinds import Flag
from mmulab.sweep.identity import digest

KIND = "table.kind=compendia"
MACHINE, POLICY = "compendia-baseline", "linux-4k"
# Section 6.1 tries 1/16, 7/8 and merging regardless; "never" is the tree without merging. A node is taken apart at half
# of what it was merged from, as 1/16 is of 1/8 (section 4.1).
THRESHOLDS: dict[str, tuple[str, ...]] = {
    "never": (),
    "always": (KIND, "table.compendia.merge=1/512", "table.compendia.unmerge=1/512"),
    "1/16": (KIND, "table.compendia.merge=1/16", "table.compendia.unmerge=1/32"),
    "1/8": (KIND,),
    "1/4": (KIND, "table.compendia.merge=1/4", "table.compendia.unmerge=1/8"),
    "1/2": (KIND, "table.compendia.merge=1/2", "table.compendia.unmerge=1/4"),
    "3/4": (KIND, "table.compendia.merge=3/4", "table.compendia.unmerge=3/8"),
    "7/8": (KIND, "table.compendia.merge=7/8", "table.compendia.unmerge=7/16"),
}
# Walk caches of 64 entries, the paper's, and of the 128 that one workload of its needs.
CACHES: dict[str, tuple[str, ...]] = {"64": (), "128": ("walker.cache.PWC.entries=128",)}
INSTRUCTIONS, QUICK_INSTRUCTIONS = 40_000_000, 2_000_000
WORKLOADS = (FEW_UPDATES, *only("random updates", "graph search", "hash join", "B-tree"), SPREAD)


@dataclass(frozen=True)
class Plan:
    """From how many children on page tables should be merged (paper 5, section 6.1). The thresholds are never, always,
    and 1/16 to 7/8. The programs are updates, graph search, a hash join, a B-tree and, if there is a recording, a
    compiler. Misses of a program are taken once, and walked again under every threshold.

    DIR gets compendia-thresholds.md, .json and .svg.

    Example: mmulab reproduce compendia-thresholds --trace tests/data/cc1-small.mmt
    """

    workloads: tuple[Workload, ...] = WORKLOADS
    # None: as many as `quick` says.
    instructions: int | None = None
    # Whether misses are taken first: the same figures, and faster.
    by_misses: bool = declare.option(
        True,
        Flag(gives=False),
        "Run the programs whole for each threshold, not their misses: much slower.",
        name="whole",
    )
    trace: str | None = declare.trace(COMPILER)
    quick: bool = declare.quick()

    @property
    def programs(self) -> tuple[Workload, ...]:
        """The workloads that are run, and the recorded compiler."""
        return chosen(self.workloads, self.trace, self.quick)

    @property
    def limit(self) -> int:
        """Instructions of each program."""
        return self.instructions or (QUICK_INSTRUCTIONS if self.quick else INSTRUCTIONS)


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    plan: Plan
    found: dict[tuple[str, str, str], Figures]
    complete: bool

    def data(self) -> dict[str, Any]:
        """As JSON."""
        rows = []
        for (workload, threshold, entries), figures in self.found.items():
            at = {"workload": workload, "threshold": threshold, "walk_cache_entries": int(entries)}
            rows.append({**at, "accesses_per_walk": figures.per_walk, **figures.data})
        return {
            "experiment": "compendia-thresholds",
            "version": engine.version(),
            "instructions": self.plan.limit,
            "complete": self.complete,
            "workloads": [vars(workload) for workload in self.plan.programs],
            "rows": rows,
        }

    def tables(self) -> dict[str, str]:
        """The Markdown table."""
        lines = [
            "| workload | merged from | entries a walk | cache of 128 | tables | of the mapped | merges | unmerges |",
            "|---|---|--:|--:|--:|--:|--:|--:|",
        ]
        for workload in self.plan.programs:
            for threshold in THRESHOLDS:
                small, large = (self.found.get((workload.name, threshold, entries)) for entries in CACHES)
                if small and large:
                    lines.append(f"| {workload.name} | {threshold} | {_cells(small, large)} |")
        return {"thresholds": "\n".join(lines)}


def _cells(small: Figures, large: Figures) -> str:
    tables = small.tables
    merges = "+".join(str(n) for n in reversed(tables["merges_by_level"].values())) or "0"
    share = tables["bytes"] / tables["mapped"]
    size = f"{tables['bytes'] / MIB:.2f} MiB"
    return f"{small.per_walk:.3f} | {large.per_walk:.3f} | {size} | {share:.2%} | {merges} | {tables['unmerges']}"


def run(plan: Plan, store: Store) -> Outcome:
    """Takes each program's misses, and walks them under every threshold and walk cache."""
    found: dict[tuple[str, str, str], Figures] = {}
    complete = True
    try:
        for workload in plan.programs:
            _run_one(plan, workload, store, found)
    except Stopped:
        complete = False
    return Outcome(plan, found, complete)


def _run_one(plan: Plan, workload: Workload, store: Store, found: dict[tuple[str, str, str], Figures]) -> None:
    options = workload.options(plan.limit)
    taken = Cell(f"{workload.name}, its misses", workload.trace, engine.Job(MACHINE, POLICY), options)
    made_from = digest([taken.key, identity(workload.trace)]) if plan.by_misses else ""
    keys = {
        f"{workload.name}, {threshold}, {entries} entries": (workload.name, threshold, entries)
        for threshold in THRESHOLDS
        for entries in CACHES
    }

    def cells(trace: str, options: engine.Options) -> list[Cell]:
        jobs = [engine.Job(MACHINE, POLICY, (*THRESHOLDS[t], *CACHES[e])) for _, t, e in keys.values()]
        return [Cell(name, trace, job, options, made_from) for name, job in zip(keys, jobs, strict=True)]

    kept: dict[str, Figures] = {}
    try:
        if not plan.by_misses:
            store.run(cells(workload.trace, options), kept, together=True)
        elif not store.has(cells(workload.trace, engine.Options())):
            trace = str(store.misses(taken))
            store.run(cells(trace, engine.Options()), kept, together=True)
        else:
            store.run(cells(workload.trace, engine.Options()), kept)
    finally:
        found.update({key: kept[name] for name, key in keys.items() if name in kept})
