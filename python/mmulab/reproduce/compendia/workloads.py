"""What stands for the workloads of paper 5, and for those that issue from it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from mmulab import engine

# What `--trace` of these experiments adds.
COMPILER = "A recorded compiler to have among the programs, such as tests/data/cc1-small.mmt."


@dataclass(frozen=True)
class Workload:
    """A program, and which of the paper's it stands for."""

    name: str
    trace: str
    # As paper 5, section 5 names it; empty for what it does not have.
    paper: str = ""
    standing: str = ""
    # Whether its memory is there before it runs: it is measured at work, not while it fills its memory.
    populated: bool = True
    quick: str = ""

    def options(self, instructions: int) -> engine.Options:
        """How it is run."""
        return engine.Options(max_instructions=instructions, reshape=engine.POPULATED if self.populated else None)


GENERATED = (
    Workload(
        "random updates",
        "gen:gups?footprint=8G&updates=2M",
        "RandAcc: RandomAccess of HPC Challenge, 8 GiB",
        "the same, 2 M updates",
        quick="gen:gups?footprint=256M&updates=20k",
    ),
    Workload(
        "graph search",
        "gen:bfs?scale=20&edgefactor=20",
        "Graph500: -s 24 -e 20",
        "scale 20; the search turns bottom-up where that is shorter, the paper's does not",
        quick="gen:bfs?scale=12&edgefactor=20",
    ),
    Workload(
        "PageRank",
        "gen:pagerank?scale=20&edgefactor=16&iterations=1",
        "GraphBIG (PR), 8 GiB synthetic graph",
        "compressed rows in place of its dynamic graph, 144 MiB",
        quick="gen:pagerank?scale=12&iterations=1",
    ),
    Workload(
        "XSBench",
        "gen:xsbench?size=large&particles=100k",
        "XSBench: large",
        "the same, its first histories",
        quick="gen:xsbench?size=small&particles=200",
    ),
    Workload(
        "TPC-C",
        "gen:tpcc?warehouses=32&transactions=1M",
        "Dbx1000: TPCC -n32",
        "the same, one thread",
        quick="gen:tpcc?warehouses=2&transactions=500",
    ),
    Workload(
        "YCSB",
        "gen:ycsb?records=20M&operations=10M",
        "Dbx1000: YCSB -s20000000",
        "the same number of rows, one thread",
        quick="gen:ycsb?records=200k&operations=2k",
    ),
    Workload(
        "network simplex",
        "gen:mcf?nodes=500k&arcs=6M&pivots=1M",
        "SPEC CPU2017: mcf, ref",
        "the same algorithm on a made network of 415 MiB",
        quick="gen:mcf?nodes=10k&arcs=100k&pivots=20",
    ),
    Workload(
        "event simulation",
        "gen:events?modules=500k&messages=500k&events=100M",
        "SPEC CPU2017: omnetpp, ref",
        "an event loop like it, 228 MiB",
        quick="gen:events?modules=10k&messages=10k&events=10k",
    ),
    Workload(
        "hash join",
        "gen:hashjoin?inner=16777216&outer=64M&build=0",
        standing="not in the paper; probing only, 1.7 GiB",
        quick="gen:hashjoin?inner=262144&outer=20k&build=0",
    ),
    Workload(
        "B-tree",
        "gen:btree?elements=60M&lookups=10M",
        standing="not in the paper; lookups, 4.3 GiB",
        quick="gen:btree?elements=1M&lookups=2k",
    ),
)
SPREAD = Workload(
    "a page in 4 MiB",
    "gen:stride?footprint=4G&stride=4M&references=600000",
    standing="not in the paper: what merging costs most for",
    populated=False,
    quick="gen:stride?footprint=4G&stride=4M&references=20000",
)
FEW_UPDATES = Workload(
    "random updates, 64 MiB",
    "gen:gups?footprint=64M&updates=600k",
    quick="gen:gups?footprint=64M&updates=20k",
)


def compiler(recording: Path) -> Workload:
    """A recorded compiler: what stands nearest to gcc and xalancbmk."""
    return Workload(
        "compiler, recorded",
        str(recording),
        "SPEC CPU2017: gcc and xalancbmk, ref",
        "cc1 compiling a small file, recorded; many small objects",
        populated=False,
        quick=str(recording),
    )


def only(*names: str) -> tuple[Workload, ...]:
    """The generated ones of these names, in this order."""
    by_name = {workload.name: workload for workload in GENERATED}
    return tuple(by_name[name] for name in names)


def chosen(workloads: Iterable[Workload], recording: str | None, quick: bool) -> tuple[Workload, ...]:
    """These and the recorded compiler, if there is one; small ones if it should be quick."""
    found = (*workloads, *((compiler(Path(recording)),) if recording is not None else ()))
    return tuple(replace(workload, trace=workload.quick) if quick else workload for workload in found)
