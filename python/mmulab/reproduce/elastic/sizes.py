"""What each page size is worth by itself (paper 3, Figure 2), natively and in a virtual machine.

Pools of 64K, 2M, 32M and 1G under all private memory are compared with base pages.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from mmulab import engine
from mmulab.markdown import grid
from mmulab.reproduce.elastic.compared import Compared
from mmulab.reproduce.elastic.fault_latency import BLOCKS_OF_32M
from mmulab.reproduce.elastic.programs import PROGRAMS, QUICK, Program
from mmulab.reproduce.elastic.systems import GUEST, INSTRUCTIONS, QUICK_INSTRUCTIONS
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.bounds import BOUNDS, between, bound
from mmulab.reproduce.shared.cells import Cell, Figures, Stopped, Store
from mmulab.reproduce.shared.kinds import Among, Flag

BASE = "4K"
SIZES = {"64K": 64 << 10, "2M": 2 << 20, "32M": 32 << 20, "1G": 1 << 30}
# The policy whose pool is made of other pages.
POOL = "hugetlb-2m"
# Mappings that are not whole pages of the pool: as many pages more than the program's memory has.
SPARE_PAGES = 8
# Paper 3's programs in Figure 2 (scripts/run-fig2-hugetlb.sh of its artifact), of those that there are here.
FIGURE_2 = ("astar", "omnetpp", "streamcluster", "canneal", "hashjoin")
# Cycles of the same figure as another group measured them with the paper's artifact
# (ejga2001/elastic-translations-MICRO2024, scripts/plots/fig2/cycles.csv), natively, in thousands of millions:
# 4K, 64K, 2M, 32M.
RERUN = {
    "astar": (698.4, 675.2, 667.0, 671.9),
    "omnetpp": (1334.0, 1383.6, 1348.0, 1366.7),
    "streamcluster": (3082.2, 3081.7, 3057.8, 3051.1),
    "canneal": (487.2, 468.8, 407.3, 408.5),
    "hashjoin": (33.40, 32.71, 25.90, 24.75),
}
MEASURED = ("64K", "2M", "32M")
# The same as gains over 4K, by program and size.
RERUN_GAINS = {
    (program, size): base / cycles - 1
    for program, (base, *rest) in RERUN.items()
    for size, cycles in zip(MEASURED, rest, strict=True)
}


@dataclass(frozen=True)
class Plan:
    """What each page size is worth by itself (paper 3, Figure 2). All private memory is in pages of 64K, 2M, 32M or 1G,
    out of a pool that is reserved at boot (hugetlb), or in base pages. Runs are native, and in a virtual machine. In
    that, guest and host have pools of the same size. Time is a core's in time.

    DIR gets elastic-sizes.json and .md.

    Example: mmulab reproduce elastic-sizes --quick
    """

    machine: str = declare.machine("neoverse-n1", "The machine; its page table needs pages of 64K, 32M and 1G.")
    programs: tuple[Program, ...] = declare.option((), Among({p.name: p for p in PROGRAMS}), "Only these programs.")
    native_only: bool = declare.option(False, Flag(), "Without virtual machines.")
    quick: bool = declare.quick()
    sets: tuple[str, ...] = declare.sets()
    options: engine.Options = declare.engine_options()


@dataclass(frozen=True)
class Row(Compared):
    """A program on pages of one size: a run for each bound."""

    program: str
    virtual: bool
    size: str

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "program": self.program,
            "virtualised": self.virtual,
            "size": self.size,
            "speedup": dict(zip(BOUNDS, self.speedups, strict=True)),
            "l2_data_misses_of_4k": self.misses,
            "bytes_by_size": {size: mapped["now"] for size, mapped in self.of[0].mapped.items() if mapped["now"]},
        }


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    rows: list[Row]
    complete: bool = True

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {"experiment": "elastic-sizes", "complete": self.complete, "rows": [row.data() for row in self.rows]}

    def tables(self) -> dict[str, str]:
        """As Markdown, by their names on a page."""
        return {"sizes": self._grid(), "rerun": self._rerun()}

    def _grid(self) -> str:
        lines = []
        for name, virtual in dict.fromkeys((row.program, row.virtual) for row in self.rows):
            rows = {row.size: row for row in self.rows if (row.program, row.virtual) == (name, virtual)}
            time = [between(rows[size].speedups) if size in rows else "–" for size in SIZES]
            misses = [f"{rows[size].misses:.1%}" if size in rows else "–" for size in SIZES]
            lines.append([name, "virtual machine" if virtual else "native", *time, *misses])
        titles = (*(f"{size}, time" for size in SIZES), *(f"{size}, misses" for size in SIZES))
        return grid(("program", "runs", *titles), lines, text=2)

    def _rerun(self) -> str:
        lines = []
        for name in RERUN:
            rows = {row.size: row for row in self.rows if row.program == name and not row.virtual}
            theirs = [f"{RERUN_GAINS[name, size]:+.1%}" for size in MEASURED]
            ours = [between(rows[size].speedups) if size in rows else "–" for size in MEASURED]
            lines.append([name, *(cell for pair in zip(theirs, ours, strict=True) for cell in pair)])
        titles = [f"{size}, {whose}" for size in MEASURED for whose in ("measured", "here")]
        return grid(("program", *titles), lines, text=1)


def _pool(size: int, footprint: int, at_least: int = 0) -> str:
    """A pool of pages of this size that the program fits into."""
    pages = math.ceil(footprint / size) + SPARE_PAGES
    return f"{max(pages, math.ceil(at_least / size)) * size >> 10}K"


def _job(plan: Plan, size: str, footprint: int, virtual: bool, how: str) -> engine.Job:
    sets = [BLOCKS_OF_32M, *(GUEST if virtual else ())]
    policy = "linux-4k" if size == BASE else POOL
    if size != BASE:
        pool = _pool(SIZES[size], footprint)
        sets += [f"policy.hugetlb.size={size}", f"policy.hugetlb.pool={pool}"]
        if virtual:
            # The host's pool is what the guest touches, wherever that lies: its pool, its kernel, its tables.
            below = _pool(SIZES[size], 2 * footprint, 4 << 30)
            sets += [f"host_policy.hugetlb.size={size}", f"host_policy.hugetlb.pool={below}"]
    return bound(engine.Job(plan.machine, policy, (*sets, *plan.sets), policy if virtual else None), how)


def run(plan: Plan, store: Store) -> Outcome:
    """Every program under every size."""
    known = {program.name: program for program in PROGRAMS}
    programs = plan.programs or (QUICK if plan.quick else tuple(known[name] for name in FIGURE_2))
    most = plan.options.max_instructions or (QUICK_INSTRUCTIONS if plan.quick else INSTRUCTIONS)
    options = replace(plan.options, max_instructions=most, timing=True, reshape=engine.POPULATED)
    rows: list[Row] = []
    try:
        for program in programs:
            for virtual in (False,) if plan.native_only else (False, True):
                footprint, kept = 0, dict[str, Figures]()
                base: tuple[Figures, ...] = ()
                for size in (BASE, *SIZES):
                    cells = [
                        Cell(
                            f"{program.name}, {size}, {how}",
                            program.trace,
                            _job(plan, size, footprint, virtual, how),
                            program.counted(options),
                        )
                        for how in BOUNDS
                    ]
                    store.run(cells, kept)
                    of = tuple(kept[cell.name] for cell in cells)
                    if size == BASE:
                        base, footprint = of, of[0].resident
                    else:
                        rows.append(Row(of, base, program.name, virtual, size))
    except Stopped:
        return Outcome(rows, complete=False)
    return Outcome(rows)
