"""How near the heuristics of Elastic Translations (paper 3, section IV-D) come to the best selection of page sizes.

Each program is profiled on a machine. From the profile, three methods select page sizes, with the entries of the
machine's TLB. They are the published artifact's heuristic, the paper's Algorithm 1 and integer programming.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import UserError
from mmulab.engine import Job, Options
from mmulab.leshy.optimum import optimum
from mmulab.leshy.profile import MACHINE, POLICY, Selection, profiled, sampling, select
from mmulab.markdown import grid
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.experiment import Session
from mmulab.reproduce.shared.kinds import Whole
from mmulab.units import show_bytes

# The share of the misses to cover, in 1/100000.
TARGET = 99_990
METHODS = ("artifact", "paper", "optimum")
SIZES = ("4K", "64K", "2M", "32M")


@dataclass(frozen=True)
class Program:
    """A program to profile."""

    name: str
    trace: str
    period: int
    # The same, small.
    quick: str
    # Hints that the paper's artifact contains for the program: of 64K, 2M and 32M.
    shipped: tuple[int, int, int] | None = None


# Of the paper's sizes where a generator needs no memory for its contents: a few million
# operations are run. Smaller ones beside them, for which integer programming has a chance.
PROGRAMS = (
    Program(
        "gups, 32 GB", "gen:gups?footprint=32G&updates=8M", 512, "gen:gups?footprint=256M&updates=4k", (4, 268, 1008)
    ),
    Program(
        "btree, 25 GB",
        "gen:btree?elements=367M&lookups=1M",
        256,
        "gen:btree?elements=400k&lookups=1k",
        (110, 16, 316),
    ),
    Program(
        "hashjoin, 40 GB",
        "gen:hashjoin?inner=1073741824&outer=8000000&build=0",
        256,
        "gen:hashjoin?inner=262144&outer=10000&build=0",
        (0, 96, 1290),
    ),
    Program(
        "xsbench, 119 GB",
        "gen:xsbench?size=XL&particles=1000",
        128,
        "gen:xsbench?particles=20",
        (193, 110, 279),
    ),
    Program("bfs, 2^19 vertices", "gen:bfs?scale=19", 1, "gen:bfs?scale=14"),
    Program("gups, 1 GB", "gen:gups?footprint=1G&updates=1M", 256, "gen:gups?footprint=32M&updates=4k"),
    Program("xsbench, 5.6 GB", "gen:xsbench?size=large&particles=300", 128, "gen:xsbench?particles=10"),
)


@dataclass(frozen=True)
class Plan:
    """Page sizes selected from sampled TLB misses (paper 3, section IV-D). The methods are the heuristic of the paper's
    published artifact, Algorithm 1, and integer programming. The goal is 99.99 % of the misses in the entries of the
    TLB.

    DIR gets leshy.json and .md.

    Example: mmulab reproduce leshy --quick
    """

    recorded: tuple[str, ...] = declare.recorded()
    quick: bool = declare.quick()
    machine: str = declare.machine(MACHINE, "Whose TLB.")
    sets: tuple[str, ...] = declare.sets()
    seconds: int = declare.option(60, Whole(1, 100_000), "Seconds that the optimum is searched for, of each program.")
    options: Options = declare.engine_options()

    @property
    def programs(self) -> tuple[Program, ...]:
        """All that are profiled."""
        return (*PROGRAMS, *(Program(Path(file).stem, file, 1, file) for file in self.recorded))


@dataclass(frozen=True)
class Row:
    """The selections for a program."""

    program: Program
    walked: int
    samples: int
    entries: int
    made: dict[str, Selection]

    def data(self) -> dict[str, Any]:
        """For a file."""
        optimal = self.made["optimum"]
        return {
            "program": self.program.name,
            "trace": self.program.trace,
            "period": self.program.period,
            "walked": self.walked,
            "samples": self.samples,
            "entries": self.entries,
            "bound": optimal.bound,
            "methods": {
                name: {
                    "by_size": made.by_size,
                    "bytes": made.bytes,
                    "covered": made.covered,
                    "raised": made.data["raised"],
                }
                for name, made in self.made.items()
            },
        }


@dataclass(frozen=True)
class Outcome:
    """All rows."""

    rows: list[Row]
    complete: bool

    def data(self) -> list[dict[str, Any]]:
        """For a file."""
        return [row.data() for row in self.rows]

    def tables(self) -> dict[str, str]:
        """Entries by size and method; and the artifact's hints beside ours."""
        names = {"artifact": "artifact", "paper": "Algorithm 1", "optimum": "best found"}
        cells = []
        for row in self.rows:
            bound = row.made["optimum"].bound or 0
            for method in METHODS:
                if (made := row.made.get(method)) is None:
                    cells.append([row.program.name, names[method], *("–" for _ in SIZES), "out of reach", "–", "–"])
                    continue
                raised = f" of {made.data['raised']:,}" if made.data["raised"] is not None else ""
                cells.append(
                    [
                        row.program.name,
                        names[method] + raised,
                        *(f"{made.by_size.get(size, 0):,}" for size in SIZES),
                        show_bytes(made.bytes),
                        f"{made.covered:.4%}",
                        f"{made.bytes / bound - 1:+.2%}" if bound else "–",
                    ]
                )
        head = ["program", "selected by", *SIZES, "together", "covered", "above the bound"]
        shipped = [
            [row.program.name, *(str(n) for n in row.program.shipped), *self._ours(row)]
            for row in self.rows
            if row.program.shipped
        ]
        beside = grid(
            ["program", *(f"{size}, shipped" for size in SIZES[1:]), *(f"{s}, here" for s in SIZES[1:])], shipped
        )
        return {"selections": grid(head, cells, text=2), "shipped": beside}

    @staticmethod
    def _ours(row: Row) -> list[str]:
        return [f"{row.made['artifact'].by_size.get(size, 0):,}" for size in SIZES[1:]]


def run(plan: Plan, session: Session) -> Outcome:
    """Profiles all programs."""
    rows: list[Row] = []
    asked = {"target": TARGET, "slack": 100}
    for done, program in enumerate(plan.programs):
        session.part(done / len(plan.programs))
        trace = program.quick if plan.quick else program.trace
        options = Options(**{**vars(plan.options), "sampling": sampling(1 if plan.quick else program.period)})
        try:
            with profiled(trace, Job(plan.machine, POLICY, plan.sets), options) as profile:
                assert profile.result is not None
                profile.result.check()
                if profile.result.ended == "interrupted":
                    raise KeyboardInterrupt
                head = profile.head()
                made = {"optimum": optimum(profile.misses, asked, float(plan.seconds))}
                for method in METHODS[:2]:
                    try:
                        made[method] = select(profile.misses, {**asked, "method": method})
                    except UserError:
                        # Algorithm 1 has no selection where no size alone reaches the target.
                        session.say(f"{program.name}: no selection by {method}")
        except KeyboardInterrupt:
            return Outcome(rows, complete=False)
        entries = sum(budget["entries"] for budget in head["tlb"])
        rows.append(Row(program, head["walked"], head["samples"], entries, made))
        session.say(f"{done + 1}/{len(plan.programs)} {program.name}: {head['samples']:,} samples")
    return Outcome(rows, complete=True)
