"""Designs for all page sizes on shader cores: Rodinia's programs, for each way to have pages.

Paper 4, Figures 9, 11 and 14 to 17.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import _core, contiguity, engine
from mmulab.reproduce.all_page_sizes import DESIGNS, SPLIT, Regime, fitted_tlb, tlb_set
from mmulab.result import Result, json_text, write_text
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
# MIX once more, with as many entries in so many ways: what it costs, the area says.
WAYS = (10, 20, 40)
INSTRUCTIONS, QUICK_INSTRUCTIONS = 2_000_000, 400_000
Told = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Program:
    """One of Rodinia's, of a footprint far beyond what TLBs reach."""

    name: str
    keys: str
    # Instructions run, as a multiple of the others': how far what is worth seeing lies from the beginning.
    stretch: int = 1

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


def _reshaped() -> list[str]:
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
        mapped = {size: held["now"] for size, held in counts["memory"]["mapped"].items()}
        runs = {row.size: row.average for row in contiguity.rows(result)}
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
                "contiguity": runs,
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


@dataclass(frozen=True)
class Row:
    """A program under a regime: its designs."""

    program: Program
    regime: str
    cells: dict[str, Cell]

    def gain(self, design: str) -> float:
        """How much faster than the split design."""
        return float(self.cells[SPLIT]["cycles"] / self.cells[design]["cycles"] - 1)

    def overhead(self, design: str) -> float:
        """How much slower than TLBs that never miss."""
        return float(self.cells[design]["cycles"] / self.cells[NEVER]["cycles"] - 1)

    def saved(self, design: str) -> float:
        """Of the split design's translation energy, what is saved."""
        return 1 - self.cells[design].energy / self.cells[SPLIT].energy

    def misses(self, design: str) -> float:
        """Of all lookups."""
        return float(self.cells[design]["misses"] / max(self.cells[design]["lookups"], 1))


@dataclass(frozen=True)
class Plan:
    """What is run."""

    programs: tuple[Program, ...] = PROGRAMS
    designs: tuple[str, ...] = DESIGNS
    instructions: int = INSTRUCTIONS
    machine: str = MACHINE
    groups: tuple[int, int] = engine.MIX_GROUPS
    sets: tuple[str, ...] = ()
    # Where rows are kept as they are made, and found again.
    kept: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """All of it."""

    plan: Plan
    rows: list[Row]
    complete: bool = True

    def of(self, regime: str) -> list[Row]:
        """A regime's, by program."""
        return [row for row in self.rows if row.regime == regime]

    @property
    def regimes(self) -> list[str]:
        """In order."""
        return list(dict.fromkeys(row.regime for row in self.rows))

    def mean(self, regime: str, design: str) -> float:
        """The gain, averaged geometrically."""
        logs = [math.log1p(row.gain(design)) for row in self.of(regime)]
        return math.expm1(sum(logs) / len(logs)) if logs else 0.0

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "experiment": "gpu-tlbs",
            "version": engine.version(),
            "instructions": self.plan.instructions,
            "complete": self.complete,
            "rows": [
                {
                    "program": row.program.trace,
                    "regime": row.regime,
                    "designs": {design: cell.data for design, cell in row.cells.items()},
                }
                for row in self.rows
            ],
        }

    def tables(self) -> dict[str, str]:
        """Markdown tables by their names."""
        designs = (
            [d for d in self.rows[0].cells if d not in (SPLIT, NEVER) and d not in _reshaped()] if self.rows else []
        )
        made = {"programs": self._programs(), "pages": self._pages()}
        for regime in self.regimes:
            name = regime.lower().replace(", ", "-").replace(" %", "").replace(" ", "-")
            made[f"gain-{name}"] = self._each(regime, [*designs, NEVER], Row.gain, self.mean)
        made["overhead"] = self._means([SPLIT, *designs], Row.overhead)
        made["misses"] = self._means([SPLIT, *designs], Row.misses, "{:.2%}")
        made["energy"] = self._means(designs, Row.saved, "{:+.0%}")
        if MIX in designs:
            made["ways"] = self._ways()
        made["breakdown"] = self._breakdown([SPLIT, *designs])
        return made

    def _programs(self) -> str:
        lines = ["| program | keys | memory | lanes a load or store | pages a load or store |", "|---|---|--:|--:|--:|"]
        for row in self.of(self.regimes[0]) if self.rows else []:
            split = row.cells[SPLIT]
            memory = sum(split["mapped"].values()) / 2**30
            # An instruction in four is a load or store.
            accesses = split["instructions"] / 4
            each = f"{split['lanes'] / accesses:.1f} | {split['lookups'] / accesses:.2f}"
            lines.append(f"| {row.program.name} | `{row.program.keys}` | {memory:.2f} GiB | {each} |")
        return "\n".join(lines)

    def _pages(self) -> str:
        lines = ["| pages | in 2 MB pages | contiguity of 4 KB pages | of 2 MB pages |", "|---|--:|--:|--:|"]
        for regime in self.regimes:
            cells = [row.cells[SPLIT] for row in self.of(regime)]
            share = sum(cell.superpages for cell in cells) / len(cells)
            runs = []
            for size in ("4K", "2M"):
                found = [cell["contiguity"][size] for cell in cells if size in cell["contiguity"]]
                runs.append(f"{sum(found) / len(found):,.1f}" if found else "–")
            lines.append(f"| {regime} | {share:.0%} | {runs[0]} | {runs[1]} |")
        return "\n".join(lines)

    def _each(
        self,
        regime: str,
        designs: list[str],
        figure: Callable[[Row, str], float],
        mean: Callable[[str, str], float],
    ) -> str:
        lines = ["| program | misses, split | " + " | ".join(designs) + " |", "|---|--:|" + "--:|" * len(designs)]
        for row in self.of(regime):
            figures = " | ".join(f"{figure(row, design):+.1%}" for design in designs)
            lines.append(f"| {row.program.name} | {row.misses(SPLIT):.2%} | {figures} |")
        means = " | ".join(f"{mean(regime, design):+.1%}" for design in designs)
        lines.append(f"| **mean** | | {means} |")
        return "\n".join(lines)

    def _means(self, designs: list[str], figure: Callable[[Row, str], float], form: str = "{:.1%}") -> str:
        lines = ["| pages | " + " | ".join(designs) + " |", "|---|" + "--:|" * len(designs)]
        for regime in self.regimes:
            rows = self.of(regime)
            means = (sum(figure(row, design) for row in rows) / len(rows) for design in designs)
            lines.append(f"| {regime} | " + " | ".join(form.format(mean) for mean in means) + " |")
        return "\n".join(lines)

    def _ways(self) -> str:
        columns = [MIX, *_reshaped()]
        lines = ["| pages | program | " + " | ".join(columns) + " |", "|---|---|" + "--:|" * len(columns)]
        for regime in self.regimes:
            for row in self.of(regime) if regime == TWO_MB else []:
                figures = " | ".join(f"{row.gain(c):+.1%}" for c in columns)
                lines.append(f"| {regime} | {row.program.name} | {figures} |")
            means = " | ".join(f"{self.mean(regime, c):+.1%}" for c in columns)
            lines.append(f"| {regime} | **mean** | {means} |")
        return "\n".join(lines)

    def _breakdown(self, designs: list[str]) -> str:
        parts = [part for part in self.rows[0].cells[SPLIT]["dynamic_nj"] if part != "total"] if self.rows else []
        lines = ["| design | " + " | ".join(parts) + " | leakage | all |", "|---|" + "--:|" * (len(parts) + 2)]
        for design in designs:
            # Each program as much as any other: in parts of its split design's energy.
            shares = [
                [
                    *(row.cells[design]["dynamic_nj"][part] / row.cells[SPLIT].energy for part in parts),
                    row.cells[design]["leakage_nj"] / row.cells[SPLIT].energy,
                ]
                for row in self.rows
            ]
            means = [sum(share) / len(shares) for share in zip(*shares, strict=True)]
            lines.append(f"| {design} | " + " | ".join(f"{m:.1%}" for m in [*means, sum(means)]) + " |")
        return "\n".join(lines)


def run(plan: Plan, told: Told | None = None, hear: engine.ProgressCallback | None = None) -> Outcome:
    """Runs every design for every program under every regime; those of a program over one decoding of it."""
    designs = (SPLIT, *(d for d in plan.designs if d != SPLIT))
    common = (MEMORY, *plan.sets)
    fitted: dict[str, tuple[str, ...]] = {
        d: () if d == SPLIT else (fitted_tlb(plan.machine, d, plan.groups, common),) for d in designs
    }
    if MIX in designs:
        array = engine.fit(plan.machine, MIX, plan.groups, common)["fitted"]["tlb"][0]
        for name, ways in zip(_reshaped(), WAYS, strict=True):
            fitted[name] = (tlb_set([array | {"ways": ways}]),)
    fitted[NEVER] = NO_TIME
    rows: list[Row] = []
    for at, program in enumerate(plan.programs, 1):
        made = list(_program(plan, program, fitted, common, hear))
        if len(made) < len(regimes()):
            return Outcome(plan, rows, complete=False)
        rows += made
        if told:
            told(at, len(plan.programs), program.name)
    return Outcome(plan, rows)


def _program(
    plan: Plan,
    program: Program,
    fitted: Mapping[str, tuple[str, ...]],
    common: tuple[str, ...],
    hear: engine.ProgressCallback | None,
) -> Iterator[Row]:
    """A program's rows; none if it was interrupted."""
    wanted = regimes()
    jobs = [regime.job(plan.machine, (*common, *sets)) for regime in wanted for sets in fitted.values()]
    instructions = plan.instructions * program.stretch
    key = {
        "engine": sha256(Path(str(_core.__file__))),
        "trace": program.trace,
        "instructions": instructions,
        "descriptions": [engine.resolve(job) for job in jobs],
    }
    path = plan.kept / f"{program.name}.json" if plan.kept else None
    found = _kept(path, key)
    if found is None:
        results = engine.run(program.trace, jobs, engine.Options(max_instructions=instructions), hear).results
        if any(result.ended == "interrupted" for result in results):
            return
        for result in results:
            result.check()
        found = [Cell.of(result).data for result in results]
        if path:
            write_text(path, json_text({"key": key, "cells": found}))
    for at, regime in enumerate(wanted):
        cells = found[at * len(fitted) : (at + 1) * len(fitted)]
        yield Row(program, regime.name, {d: Cell(c) for d, c in zip(fitted, cells, strict=True)})


def _kept(path: Path | None, key: dict[str, Any]) -> list[dict[str, Any]] | None:
    """What was kept of an equal run."""
    if path is None or not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    cells: list[dict[str, Any]] | None = found["cells"] if found.get("key") == key else None
    return cells
