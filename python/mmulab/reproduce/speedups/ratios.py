"""Times that others measured on hardware, held against modelled ones: which page size is faster, and by how much.

The data are published ratios of two times (`data/speedups.csv`, each with its source). Programs are generators of the
same algorithms, most of them with smaller inputs. If a generator does not say how its loads depend on each other, two
times are modelled, and the truth lies between them. In one no load waits for another; in the other each waits for the
one before.
"""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from mmulab import engine, sampling
from mmulab.markdown import grid
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.bounds import BOUNDS, between, bound
from mmulab.reproduce.shared.kinds import Among

Json = dict[str, Any]
# Called before each program: the share that is done.
Progress = Callable[[float], None]

# Instructions of a program: before they are counted, and those that are.
SKIP, INSTRUCTIONS = 10_000_000, 40_000_000
QUICK_SKIP, QUICK_INSTRUCTIONS = 200_000, 1_000_000
# Sampling error of a time.
ERROR = 0.02
# A change smaller than this is none: repeats on hardware differ by as much.
LITTLE = 0.02


def _pool(size: str) -> tuple[str, tuple[str, ...]]:
    return "hugetlb-2m", (f"policy.hugetlb.size={size}", "policy.hugetlb.pool=64G")


# What the data name, as a policy and what is set in it.
SIZES: dict[str, tuple[str, tuple[str, ...]]] = {
    "4K": ("linux-4k", ()),
    "64K": _pool("64K"),
    "2M": _pool("2M"),
    "32M": _pool("32M"),
    "THP": ("linux-thp", ()),
    "noresv": ("freebsd-noresv", ()),
    "reserv": ("freebsd-reserv", ()),
    "super": ("freebsd-super", ()),
}


@dataclass(frozen=True)
class Program:
    """A generator in the published program's place: its input beside the published one, and a small one."""

    trace: str
    published: str
    ours: str
    quick: str


PROGRAMS = {
    "svm": Program(
        "gen:svm?instances=16000000&features=54000000&nonzeros=11&blocks=1",
        "kdd2012, 150 M instances",
        "16 M instances",
        "gen:svm?instances=100k&features=500k&nonzeros=11",
    ),
    "svm-kdd2010": Program(
        "gen:svm?instances=8000000&features=29000000&nonzeros=30&blocks=4",
        "kdd2010, 2.3 GB in blocks",
        "8 M instances in 4 blocks",
        "gen:svm?instances=100k&features=500k",
    ),
    "hashjoin": Program(
        "gen:hashjoin?build=0&inner=268435456&outer=16M",
        "10^9 keys, 41 GB with hints",
        "2^28 keys, 11 GB",
        "gen:hashjoin?build=0&inner=4194304&outer=1M",
    ),
    "btree": Program(
        "gen:btree?elements=100M&lookups=10M",
        "367 M keys",
        "100 M keys, 7 GB",
        "gen:btree?elements=3M&lookups=100k",
    ),
    "gups": Program("gen:gups?footprint=16G&updates=64M", "32 GB", "16 GB", "gen:gups?footprint=512M&updates=1M"),
    "canneal": Program(
        "gen:canneal?elements=4194304&swaps=15000&temperatures=100",
        "15000 2000, 14 GB with hints",
        "4 M elements, 0.7 GB",
        "gen:canneal?elements=262144&swaps=15000",
    ),
    "astar": Program("gen:astar?width=2048", "SPEC's, 0.3 GB with hints", "0.3 GB", "gen:astar?width=512"),
    "omnetpp": Program(
        "gen:events?modules=200000&messages=500000&events=10M",
        "SPEC's, 0.16 GB with hints",
        "0.15 GB",
        "gen:events?modules=20000&messages=50000&events=100k",
    ),
    "streamcluster": Program(
        "gen:streamcluster?points=1000000",
        "10^6 points of 128 coordinates",
        "the same",
        "gen:streamcluster?points=20000",
    ),
    "graphchi": Program(
        "gen:graphchi?scale=21", "Twitter-2010, 3 passes, 1 GB", "2^21 vertices", "gen:graphchi?scale=14"
    ),
    "xsbench": Program(
        "gen:xsbench?size=large&particles=20k", "large, 5.6 GB", "the same", "gen:xsbench?size=small&particles=2000"
    ),
}


@dataclass(frozen=True)
class Published:
    """One published ratio."""

    source: str
    machine: str
    program: str
    base: str
    other: str
    ratio: float


def published() -> tuple[Published, ...]:
    """All of them, in the file's order."""
    text = (resources.files("mmulab.reproduce.speedups") / "data" / "speedups.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return tuple(
        Published(r["source"], r["machine"], r["program"], r["from"], r["to"], float(r["ratio"]))
        for r in csv.DictReader(lines)
    )


@dataclass(frozen=True)
class Plan:
    """Times that others measured on a Neoverse N1, a Ryzen 5900X and a 2700X under several page sizes, beside times of
    mmulab's cores.

    Each program is a generator of the same algorithm, mostly with a smaller input. 40 M instructions of it
    (--max-instructions) run by samples, after its memory is there. Takes about ten minutes of one core. DIR gets
    speedups.json and .md.

    Example: mmulab reproduce speedups --programs gups,btree
    """

    # What is published of these programs is modelled, in the order of `published`.
    programs: tuple[str, ...] = declare.option(
        tuple(PROGRAMS), Among({name: name for name in PROGRAMS}), "Only these programs. Default: all."
    )
    quick: bool = declare.quick("Small inputs, in seconds: to see what it does.")
    sets: tuple[str, ...] = declare.sets()
    options: engine.Options = declare.engine_options()

    @property
    def rows(self) -> tuple[Published, ...]:
        """The published ratios of the programs."""
        return tuple(row for row in published() if row.program in self.programs)


@dataclass(frozen=True)
class Row:
    """A published ratio, and the modelled ones: the lowest and the highest."""

    published: Published
    low: float
    high: float

    @property
    def agrees(self) -> bool:
        """Whether the same side is faster; for a published ratio near 1, whether a modelled one is as near."""
        ratio = self.published.ratio
        if abs(math.log(ratio)) <= LITTLE:
            return self.low <= math.exp(LITTLE) and self.high >= math.exp(-LITTLE)
        return self.low > 1 if ratio > 1 else self.high < 1

    def data(self) -> Json:
        """For a file."""
        return {**vars(self.published), "modelled": [self.low, self.high], "agrees": self.agrees}


@dataclass(frozen=True)
class Outcome:
    """All rows, or what there was when it was stopped."""

    rows: list[Row]
    quick: bool
    complete: bool = True

    def data(self) -> Json:
        """As JSON."""
        rows = [row.data() for row in self.rows]
        return {"experiment": "speedups", "quick": self.quick, "complete": self.complete, "rows": rows}

    def tables(self) -> dict[str, str]:
        """As Markdown, by their names on a page."""
        lines = []
        for row in self.rows:
            p = row.published
            modelled = between((row.low, row.high), ".2f")
            lines.append(
                [
                    p.machine,
                    p.program,
                    f"{p.base} to {p.other}",
                    f"{p.ratio:.2f}",
                    modelled,
                    "yes" if row.agrees else "no",
                ]
            )
        head = ("machine", "program", "pages", "timed", "modelled", "same direction")
        inputs = [[name, p.published, p.ours, f"`{p.trace}`"] for name, p in PROGRAMS.items()]
        agree = sum(row.agrees for row in self.rows)
        return {
            "speedups": grid(head, lines, text=3) + f"\n\nThe direction is the same in {agree} of {len(self.rows)}.",
            "inputs": grid(("program", "timed with", "modelled with", "as"), inputs, text=4),
        }


def run(plan: Plan, on_progress: Progress) -> Outcome:
    """Each program once for each machine, under all the policies that rows ask for."""
    groups = list(dict.fromkeys((row.machine, row.program) for row in plan.rows))
    found: list[Row] = []
    for at, (machine, program) in enumerate(groups):
        on_progress(at / len(groups))
        rows = [row for row in plan.rows if (row.machine, row.program) == (machine, program)]
        try:
            found += _rows(plan, machine, PROGRAMS[program], rows)
        except KeyboardInterrupt:
            return Outcome(found, plan.quick, complete=False)
    return Outcome(found, plan.quick)


def _rows(plan: Plan, machine: str, program: Program, rows: Sequence[Published]) -> list[Row]:
    sizes = list(dict.fromkeys(size for row in rows for size in (row.base, row.other)))
    trace = program.quick if plan.quick else program.trace
    skip, count = (QUICK_SKIP, QUICK_INSTRUCTIONS) if plan.quick else (SKIP, INSTRUCTIONS)
    options = replace(
        plan.options,
        skip=skip if plan.options.skip is None else plan.options.skip,
        max_instructions=plan.options.max_instructions or count,
        reshape={**(plan.options.reshape or {}), **engine.POPULATED},
    )
    wanted = [(size, of) for size in sizes for of in BOUNDS]
    jobs = [bound(engine.Job(machine, SIZES[size][0], (*SIZES[size][1], *plan.sets)), of) for size, of in wanted]
    results = sampling.run_to_end(trace, jobs, options, ERROR).results
    cycles = {one: float(result.data["timing"]["cycles"]) for one, result in zip(wanted, results, strict=True)}

    def ratio(row: Published, of: str) -> float:
        return cycles[row.base, of] / cycles[row.other, of]

    both = [(row, sorted(ratio(row, of) for of in BOUNDS)) for row in rows]
    return [Row(row, low, high) for row, (low, high) in both]
