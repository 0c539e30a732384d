"""What stands for the programs of paper 4, at its sizes."""

from dataclasses import dataclass, replace
from pathlib import Path

from mmulab import UserError, engine


@dataclass(frozen=True)
class Program:
    """A program, in three sizes."""

    name: str
    # As paper 4 names what it stands for (sections 6.4 and 7).
    paper: str
    # Nearly all of 80 GB, as the paper has it: in superpages of one size.
    large: str
    # What fits beside a program that holds 80 % of 80 GB.
    beside: str
    # What fits a virtual machine of 10 GB beside one that holds 40 % of it.
    guest: str
    # Whether its memory is there before it runs: it is measured at work, not while it fills its memory.
    populated: bool = True
    # How many times as much of it is run as of a generated one, whose every load may miss.
    times: int = 1
    # Small enough for 8 GB, machines of 2 GB, and seconds.
    quick: str = ""
    # Instructions before it is at work, where these are many: it is brought there once.
    start: int = 0

    def options(self, given: engine.Options, instructions: int, trace: str, vms: int) -> engine.Options:
        """How it is run; each virtual machine runs the same."""
        return replace(
            given,
            max_instructions=instructions * self.times,
            reshape={**(given.reshape or {}), **engine.POPULATED} if self.populated else given.reshape,
            vms=(trace,) * max(vms - 1, 0),
        )


def _sizes(generator: str, *sizes: str) -> tuple[str, str, str]:
    large, beside, guest = (f"gen:{generator}&{size}" for size in sizes)
    return large, beside, guest


GENERATED = (
    Program(
        "random updates",
        "gups",
        *_sizes("gups?updates=100M", "footprint=64G", "footprint=8G", "footprint=4G"),
        quick="gen:gups?footprint=256M&updates=1M",
    ),
    Program(
        "YCSB",
        "memcached, Cloudsuite",
        *_sizes("ycsb?operations=10M", "records=40M", "records=7M", "records=3M"),
        quick="gen:ycsb?records=200k&operations=1M",
    ),
    Program(
        "hash join",
        "big memory",
        *_sizes(
            "hashjoin?build=0", "inner=1073741824&outer=1G", "inner=268435456&outer=64M", "inner=67108864&outer=64M"
        ),
        quick="gen:hashjoin?build=0&inner=4194304&outer=1M",
    ),
    Program(
        "B-tree",
        "big memory",
        *_sizes("btree?lookups=10M", "elements=900M", "elements=160M", "elements=60M"),
        quick="gen:btree?elements=3M&lookups=1M",
    ),
    Program(
        "XSBench",
        "big memory",
        *_sizes("xsbench?size=large&particles=100k", "gridpoints=120000", "gridpoints=22000", "gridpoints=9000"),
        quick="gen:xsbench?size=small&particles=10k",
    ),
    Program(
        "chip annealing",
        "canneal (Parsec)",
        *_sizes("canneal?swaps=10M", "elements=268435456", "elements=67108864", "elements=16777216"),
        quick="gen:canneal?elements=1048576&swaps=1M",
    ),
    Program(
        "network simplex",
        "mcf (Spec)",
        *_sizes("mcf?pivots=1M", "nodes=50M&arcs=800M", "nodes=15M&arcs=150M", "nodes=5M&arcs=60M"),
        quick="gen:mcf?nodes=100k&arcs=2M&pivots=100k",
    ),
)

# Its graph is built in memory, and is the same at every size. It is measured where a search's frontier is widest.
GRAPH_SEARCH = Program(
    "graph search",
    "graph500",
    *_sizes("bfs?searches=1000", *(["scale=21"] * 3)),
    quick="gen:bfs?scale=16&searches=1000",
    start=450_000_000,
)
PROGRAMS = (*GENERATED, GRAPH_SEARCH)

RECORDED = 5


def recorded(path: Path) -> Program:
    """A recorded program: the same at every size, its memory as it asks for it."""
    trace = str(path)
    return Program(f"{path.stem}, recorded", "", trace, trace, trace, populated=False, times=RECORDED, quick=trace)


def only_without_trace(**options: object) -> None:
    """Refuses options, by their names, that are for the paper's programs."""
    for name, given in options.items():
        if given:
            raise UserError(f"--{name} is for the paper's programs\nhint: leave out --trace, or --{name}")
