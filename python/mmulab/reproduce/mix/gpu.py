"""Designs for all page sizes on shader cores: Rodinia's programs, for each way to have pages.

Paper 4, Figures 9, 11 and 14 to 17.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import _core, contiguity, engine
from mmulab.reproduce.mix import outcome
from mmulab.reproduce.mix.designs import DESIGNS, SPLIT, Regime, fitted_tlb, tlb_set
from mmulab.reproduce.mix.outcome import SERIAL
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.kinds import Among, Names
from mmulab.result import Result, covered, json_text, read_kept, write_text
from mmulab.workloads.cache import sha256

MACHINE = "gpu-mix-baseline"
# The same TLBs, whose misses cost no time.
NEVER = "never"
MIX = "mix"
TWO_MB = "2 MB"
NO_TIME = ("cache_rules.memory_cycles=0", "cache.L2.cycles=0", "walker.cache.PWC.hit_cycles=0")
# The paper's machine has 80 GB, and programs of 24 GB; a tenth of both.
MEMORY = "memory.size=8G"
MEMHOG = (0, 20, 60)
# MIX once more, with as many entries in this number of ways. The area says what it costs.
WAYS = (10, 20, 40)
INSTRUCTIONS, QUICK_INSTRUCTIONS = 2_000_000, 400_000
# Called when a program is done: how many are, of how many, and its name.
Announce = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Program:
    """One of Rodinia's, of a footprint far beyond what TLBs reach."""

    name: str
    keys: str
    # Instructions run, as a multiple of the others': how far what is worth seeing lies from the beginning.
    times: int = 1

    @property
    def trace(self) -> str:
        """As a trace."""
        return f"gen:gpu-{self.name}?{self.keys}"


PROGRAMS: tuple[Program, ...] = (
    Program("backprop", "inputs=12582912"),
    Program("bfs", "nodes=4194304&edges=120", 4),
    Program("btree", "keys=128000000&queries=1000000"),
    Program("hotspot", "side=12288"),
    Program("kmeans", "points=6000000"),
    Program("lud", "side=20480"),
    Program("nw", "length=15360"),
    Program("pathfinder", "columns=1000000&rows=500"),
    Program("srad", "side=9216"),
    Program("streamcluster", "points=1572864"),
)


def regimes() -> list[Regime]:
    """One page size only (Figure 14), then whatever Linux finds beside memhog (Figure 15)."""
    hogs = [Regime(f"THP, memhog {p} %" if p else "THP", "linux-thp", contiguity.memhog(p)) for p in MEMHOG]
    return [Regime("4 KB", "linux-4k"), Regime(TWO_MB, "hugetlb-2m", ("policy.hugetlb.pool=4G",)), *hogs]


def reshaped() -> list[str]:
    """What MIX with other ways is called."""
    return [f"{MIX}, {ways} ways" for ways in WAYS]


@dataclass(frozen=True)
class Cell:
    """What is kept of a run."""

    data: dict[str, Any]

    @classmethod
    def of(cls, result: Result) -> "Cell":
        """Out of a whole result."""
        counts, model, energy = result.counts, result.model, result.data["energy"]
        frequency = result.data["machine"]["core"]["frequency_mhz"] * 1e6
        elapsed = model["seconds"] * frequency
        share = (elapsed - model["cycles"]["kernel"]) / elapsed
        mapped = covered(counts["memory"], "now")
        return cls(
            {
                # Until the last core is done; what the kernel does is the page policy's.
                "cycles": elapsed - model["cycles"]["kernel"],
                "instructions": result.instructions,
                "lookups": counts["warps"]["lookups"],
                "lanes": counts["warps"]["lanes"],
                "joined": counts["warps"]["joined"],
                "misses": counts["tlb"]["l1d"]["misses"],
                "walks": result.walk_count,
                "walk_queued": model["walk_queued"],
                "walk_pending": model["walk_pending"],
                "dynamic_nj": energy["dynamic_nj"],
                # While programs run, not while the kernel maps their memory.
                "leakage_nj": energy["leakage_nj"] * share,
                "mapped": mapped,
                "contiguity": counts["memory"]["contiguity"]["by_size"],
            }
        )

    def __getitem__(self, key: str) -> Any:
        """A figure by its name."""
        return self.data[key]

    @property
    def energy(self) -> float:
        """All that translation takes, in nJ."""
        return float(self.data["dynamic_nj"]["total"] + self.data["leakage_nj"])

    @property
    def superpages(self) -> float:
        """Of the memory mapped, what 2 MB pages map."""
        mapped = self.data["mapped"]
        return float(mapped.get("2M", 0) / max(sum(mapped.values()), 1))


class Row(outcome.Row[Program, Cell]):
    """A program under a regime: its designs."""

    def cycles(self, design: str, how: str = SERIAL) -> float:
        """Until the last core is done: what warps hide of each other's is simulated, and nothing else is."""
        return float(self.of[design]["cycles"])

    def without_misses(self, design: str) -> float:
        """With the split TLBs, whose misses take no time."""
        return float(self.of[NEVER]["cycles"])

    def energy(self, design: str) -> float:
        """All that translation takes, in nJ."""
        return self.of[design].energy

    def runs(self) -> dict[str, Any]:
        """Runs of pages by page size."""
        found: dict[str, Any] = self.of[SPLIT]["contiguity"]
        return found

    def misses(self, design: str) -> float:
        """Of all lookups."""
        return float(self.of[design]["misses"] / max(self.of[design]["lookups"], 1))

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "program": self.program.trace,
            "regime": self.regime.name,
            "designs": {design: cell.data for design, cell in self.of.items()},
        }


@dataclass(frozen=True)
class Plan:
    """Designs for all page sizes on shader cores, in the area of split TLBs (paper 4, Figures 9, 11 and 14 to 17).
    Rodinia's programs have pages of 4 KB, of 2 MB, or those that Linux finds beside a program that holds 0, 20 or 60 %
    of memory. Memory is 8 GB and programs are of 1 to 2 GB. It takes a quarter of an hour, and 4 GB of memory.

    DIR gets gpu-tlbs.json and .md, plots of Figures 13 and 16, and a file for each program.

    Example: mmulab reproduce gpu-tlbs --quick --programs srad
    """

    programs: tuple[Program, ...] = declare.option(
        PROGRAMS,
        Among({program.name: program for program in PROGRAMS}),
        "Of them only these, such as bfs,srad. Default: all.",
    )
    designs: tuple[str, ...] = declare.option(DESIGNS, Names(), shown=True)
    # None: as many as `quick` says.
    instructions_each: int | None = None
    machine: str = MACHINE
    groups: tuple[int, int] = engine.MIX_GROUPS
    quick: bool = declare.quick("Few instructions, in a minute: to see what it does.")
    sets: tuple[str, ...] = declare.sets()

    @property
    def instructions(self) -> int:
        """Instructions of each program."""
        return self.instructions_each or (QUICK_INSTRUCTIONS if self.quick else INSTRUCTIONS)


Outcome = outcome.Outcome[Plan, Row]


def run(
    plan: Plan,
    announce: Announce | None = None,
    on_progress: engine.ProgressCallback | None = None,
    kept: Path | None = None,
) -> Outcome:
    """Runs every design for every program under every regime; those of a program over one decoding of it.

    `kept`: the directory in which each program's rows are kept, and found again.
    """
    designs = (SPLIT, *(d for d in plan.designs if d != SPLIT))
    common = (MEMORY, *plan.sets)
    fitted: dict[str, tuple[str, ...]] = {
        d: () if d == SPLIT else (fitted_tlb(plan.machine, d, plan.groups, common),) for d in designs
    }
    if MIX in designs:
        array = engine.fit(plan.machine, MIX, plan.groups, common)["fitted"]["tlb"][0]
        for name, ways in zip(reshaped(), WAYS, strict=True):
            fitted[name] = (tlb_set([array | {"ways": ways}]),)
    fitted[NEVER] = NO_TIME
    rows: list[Row] = []
    for at, program in enumerate(plan.programs, 1):
        made = list(_program(plan, program, fitted, common, on_progress, kept))
        if len(made) < len(regimes()):
            return Outcome("gpu-tlbs", plan, rows, complete=False)
        rows += made
        if announce:
            announce(at, len(plan.programs), program.name)
    return Outcome("gpu-tlbs", plan, rows)


def _program(
    plan: Plan,
    program: Program,
    fitted: Mapping[str, tuple[str, ...]],
    common: tuple[str, ...],
    on_progress: engine.ProgressCallback | None,
    kept: Path | None,
) -> Iterator[Row]:
    """A program's rows; none if it was interrupted."""
    wanted = regimes()
    jobs = [regime.job(plan.machine, (*common, *sets)) for regime in wanted for sets in fitted.values()]
    instructions = plan.instructions * program.times
    key = {
        "engine": sha256(Path(str(_core.__file__))),
        "trace": program.trace,
        "instructions": instructions,
        "descriptions": [engine.resolve(job) for job in jobs],
    }
    path = kept / f"{program.name}.json" if kept else None
    found = _kept(path, key)
    if found is None:
        results = engine.run(program.trace, jobs, engine.Options(max_instructions=instructions), on_progress).results
        if any(result.ended == "interrupted" for result in results):
            return
        for result in results:
            result.check()
        found = [Cell.of(result).data for result in results]
        if path:
            write_text(path, json_text({"key": key, "cells": found}))
    for at, regime in enumerate(wanted):
        cells = found[at * len(fitted) : (at + 1) * len(fitted)]
        yield Row(program, regime, {d: Cell(c) for d, c in zip(fitted, cells, strict=True)})


def _kept(path: Path | None, key: dict[str, Any]) -> list[dict[str, Any]] | None:
    """What was kept of an equal run."""
    found = None if path is None else read_kept(path)
    cells: list[dict[str, Any]] | None = found["cells"] if found and found.get("key") == key else None
    return cells
