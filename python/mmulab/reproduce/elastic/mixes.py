"""Programs that run at once on one machine (paper 3, Figure 14), and take frames in turns.

The result is the gain of each over base pages, by THP and by Elastic Translations.

Each program has a core of its own, and its memory comes by faults while all run: so CoalaPaging must keep their blocks
apart. A core's clock while a program acts is that program's time.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from mmulab import engine
from mmulab.markdown import grid
from mmulab.reproduce.elastic.fault_latency import BLOCKS_OF_32M
from mmulab.reproduce.elastic.programs import CLEARING, PROGRAMS, Program
from mmulab.reproduce.elastic.systems import NAMES, System
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.bounds import BOUNDS, between, bound
from mmulab.reproduce.shared.cells import Store
from mmulab.reproduce.shared.kinds import Among
from mmulab.result import Result

# Smaller than alone: they fault their memory in while the others of their mix run.
BFS = Program("bfs", "gen:friendster?scale=20", "Friendster, 88 GiB", "2^20 vertices", skip=CLEARING << 20)
SVM = Program("svm", "gen:svm?instances=2000000&features=4000000", "kdd12, 39 GiB", "the same algorithm, made-up data")
_KNOWN = {program.name: program for program in (*PROGRAMS, BFS, SVM)}
# The paper does not name the programs of its mixes; its published artifact does (scripts/run-fig14-multi.sh).
MIXES = {
    "mix 1": ("xsbench", "hashjoin"),
    "mix 2": ("astar", "btree", "gups"),
    "mix 3": ("omnetpp", "svm", "bfs", "gups"),
}
BASE = "4K"
SYSTEMS = ("THP", "CoalaPaging", "+Leshy, online")
# Instructions of a turn: short beside what a program does between two faults.
TURN = 200
# Instructions of each program.
INSTRUCTIONS, QUICK_INSTRUCTIONS = 5_000_000, 200_000
# What makes them small, for --quick.
SMALL = {
    "xsbench": "gen:xsbench?particles=2k",
    "hashjoin": "gen:hashjoin?build=0&inner=1048576&outer=1M",
    "astar": "gen:astar?width=512",
    "btree": "gen:btree?elements=400k&lookups=1M",
    "gups": "gen:gups?footprint=256M&updates=1M",
    "omnetpp": "gen:events?modules=20000&messages=50000&events=1M",
    "svm": "gen:svm",
    "bfs": "gen:friendster?scale=14",
}


@dataclass(frozen=True)
class Plan:
    """Programs that run at once (paper 3, Figure 14): three mixes, each program on a core of its own. Speed-up of each
    program over the same mix under 4K, and the sizes its memory is translated by. Time is each core's in time.

    DIR gets elastic-mixes.json and .md.

    Example: mmulab reproduce elastic-mixes --quick
    """

    machine: str = declare.machine("neoverse-n1", "The machine; its page table needs pages of 64K and 32M.")
    mixes: tuple[str, ...] = declare.option((), Among({name: name for name in MIXES}), "Only these mixes.")
    quick: bool = declare.quick()
    sets: tuple[str, ...] = declare.sets()
    options: engine.Options = declare.engine_options()


@dataclass(frozen=True)
class Row:
    """A program of a mix under a system: its members' figures for each bound."""

    mix: str
    program: str
    system: str
    of: tuple[dict[str, Any], ...]
    base: tuple[dict[str, Any], ...]

    @property
    def speedups(self) -> tuple[float, ...]:
        """Time of an instruction under 4K over that here, less 1, for each bound."""
        return tuple(_cpi(base) / _cpi(here) - 1 for base, here in zip(self.base, self.of, strict=True))

    @property
    def walks(self) -> float:
        """Walks of an instruction as a share of those under 4K."""
        here, base = (member["walks"] / max(1, member["instructions"]) for member in (self.of[0], self.base[0]))
        return float(here / base) if base else 1.0

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes at the end, by translation size."""
        return {size: int(mapped) for size, mapped in self.of[0]["mapped"].items() if mapped}

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "mix": self.mix,
            "program": self.program,
            "system": self.system,
            "speedup": dict(zip(BOUNDS, self.speedups, strict=True)),
            "walks_of_4k": self.walks,
            "bytes_by_size": self.sizes,
        }


def _cpi(member: dict[str, Any]) -> float:
    """User cycles of an instruction: what kernels do is the page policy's."""
    cycles = member["cycles"]
    return float((cycles["base"] + cycles["translation"]) / max(1, member["instructions"]))


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    rows: list[Row]
    complete: bool = True

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {"experiment": "elastic-mixes", "complete": self.complete, "rows": [row.data() for row in self.rows]}

    def tables(self) -> dict[str, str]:
        """As Markdown, by their names on a page."""
        lines = []
        for mix, program in dict.fromkeys((row.mix, row.program) for row in self.rows):
            rows = {row.system: row for row in self.rows if (row.mix, row.program) == (mix, program)}
            time = [between(rows[name].speedups) for name in SYSTEMS if name in rows]
            walks = [f"{rows[name].walks:.1%}" for name in SYSTEMS if name in rows]
            last = next(reversed(rows.values()))
            lines.append([mix, program, *time, *walks, _shares(last.sizes)])
        titles = (*(f"{name}, time" for name in SYSTEMS), *(f"{name}, walks" for name in SYSTEMS))
        return {"mixes": grid(("mix", "program", *titles, f"sizes, {SYSTEMS[-1]}"), lines, text=2)}


def _shares(sizes: dict[str, int]) -> str:
    whole = max(1, sum(sizes.values()))
    return ", ".join(f"{size} {100 * part / whole:.0f}" for size, part in sizes.items() if 200 * part >= whole)


def mix(name: str, programs: tuple[str, ...], instructions: int, quick: bool) -> str:
    """The mix as a trace: each program on its core, in short turns, as many instructions of each."""
    members = [
        {
            "name": program,
            "trace": SMALL[program] if quick else _KNOWN[program].trace,
            "skip": 0 if quick else _KNOWN[program].skip,
            "instructions": instructions,
            "after": 0,
            "core": core,
        }
        for core, program in enumerate(programs)
    ]
    schedule = {
        "as": "processes",
        "quantum": TURN,
        "unit": "instructions",
        "cores": len(programs),
        "migrate": False,
        "end": "all",
        "instructions": None,
    }
    return "mix:" + json.dumps({"name": name, "schedule": schedule, "members": members})


def _members(result: Result) -> dict[str, dict[str, Any]]:
    result.check()
    return {member["name"]: member for member in result.members}


def run(plan: Plan, store: Store) -> Outcome:
    """Every mix under every system. Mixes are not kept: a kept run has no members."""
    each = plan.options.max_instructions or (QUICK_INSTRUCTIONS if plan.quick else INSTRUCTIONS)
    options = replace(plan.options, max_instructions=None, timing=True, reshape=engine.POPULATED)
    rows: list[Row] = []
    for name in plan.mixes or MIXES:
        programs = MIXES[name]
        trace = mix(name, programs, each, plan.quick)
        found: dict[str, tuple[dict[str, dict[str, Any]], ...]] = {}
        for system in (NAMES[BASE], *(NAMES[one] for one in SYSTEMS)):
            jobs = [_job(plan, system, len(programs), how) for how in BOUNDS]
            results = engine.run(trace, jobs, options, store.on_progress).results
            if any(result.ended == "interrupted" for result in results):
                return Outcome(rows, complete=False)
            found[system.name] = tuple(_members(result) for result in results)
        for program in programs:
            of = {system: tuple(members[program] for members in found[system]) for system in found}
            rows += [Row(name, program, system, of[system], of[BASE]) for system in SYSTEMS]
    return Outcome(rows)


def _job(plan: Plan, system: System, cores: int, how: str) -> engine.Job:
    sets = (BLOCKS_OF_32M, f"core.count={cores}", *system.sets, *plan.sets)
    return bound(engine.Job(plan.machine, system.policy, sets), how)
