"""Every design under every regime for every program."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from mmulab import engine
from mmulab.contiguity import memhog
from mmulab.reproduce.all_page_sizes import (
    BASELINE,
    MEMHOG,
    PAPER,
    SPLIT,
    TENTH,
    VMS,
    Regime,
    Scale,
    fitted_tlb,
    regimes,
)
from mmulab.reproduce.cells import Cell, Figures, Stopped, Store
from mmulab.reproduce.mix.programs import GENERATED, Program

# By name: as `machines fit` knows it, and the bundle limits of MIX. "16-128" superpages offset mirrors (section 4.2);
# 512 are what the nine tag bits that a superpage spares can tell as a length (section 4.1: "it could use more bits").
DESIGNS: dict[str, tuple[str, tuple[int, int]]] = {
    SPLIT: (SPLIT, engine.MIX_GROUPS),
    "mix": ("mix", engine.MIX_GROUPS),
    "mix-512": ("mix", (16, 512)),
    "mix-merged": ("mix-merged", engine.MIX_GROUPS),
    "mix+colt": ("mix+colt", engine.MIX_GROUPS),
    "colt": ("colt", engine.MIX_GROUPS),
    "colt++": ("colt++", engine.MIX_GROUPS),
    "hash-rehash": ("hash-rehash", engine.MIX_GROUPS),
    "skew": ("skew", engine.MIX_GROUPS),
    "ideal": ("ideal", engine.MIX_GROUPS),
}
# Data compete with page-table lines for the caches, as in the paper's simulator (section 6.2).
SHARED_CACHES = "cache_rules.data=true"
# Memory that is taken in large pieces leaves large ones.
COARSE = ("in 256 MB", "memory.fragment.chunk=256M")
INSTRUCTIONS, QUICK_INSTRUCTIONS = 1_000_000, 200_000


@dataclass(frozen=True)
class Plan:
    """What is run."""

    programs: tuple[Program, ...] = GENERATED
    designs: tuple[str, ...] = tuple(DESIGNS)
    memhog: tuple[int, ...] = MEMHOG
    vms: tuple[int, ...] = VMS
    scale: Scale = PAPER
    instructions: int = INSTRUCTIONS
    machine: str = BASELINE
    sets: tuple[str, ...] = ()
    options: engine.Options = field(default_factory=engine.Options)

    @classmethod
    def quick(cls, programs: Iterable[Program] = GENERATED) -> "Plan":
        """A tenth of the paper's memory, small programs."""
        small = tuple(replace(p, large=p.quick, beside=p.quick, guest=p.quick) for p in programs)
        return cls(small, scale=TENTH, instructions=QUICK_INSTRUCTIONS)

    @property
    def regimes(self) -> list[Regime]:
        """The ways to have pages."""
        found = regimes(self.memhog, self.vms, self.scale)
        # Beside the last of those that are native.
        at = sum(not regime.vms for regime in found)
        large = [Regime(f"THP, memhog {p} % {COARSE[0]}", "linux-thp", (*memhog(p), COARSE[1])) for p in (20, 60)]
        return [*found[:at], *large, *found[at:]]

    def common(self) -> tuple[str, ...]:
        """What is set for all."""
        return (self.scale.memory, SHARED_CACHES, *self.sets)


@dataclass(frozen=True)
class Row:
    """All designs for a program under a regime."""

    program: Program
    regime: Regime
    of: dict[str, Figures]

    def gain(self, design: str, how: str = "serial") -> float:
        """How much faster than the split TLBs: with latencies added up, or with what a `window` hides hidden."""
        return cycles(self.of[SPLIT], how) / cycles(self.of[design], how) - 1

    def overhead(self, design: str, how: str = "serial") -> float:
        """How much slower than TLBs that never miss."""
        figures = self.of[design]
        return cycles(figures, how) / float(figures.cycles["base"]) - 1

    def saved(self, design: str) -> float:
        """Of the split TLBs' translation energy, what is saved."""
        before: float = self.of[SPLIT].energy["total_nj"]
        return 1 - float(self.of[design].energy["total_nj"]) / before

    def part(self, design: str, part: str) -> float:
        """A part of the dynamic energy, beside all of that of split TLBs (Figure 17)."""
        before: float = self.of[SPLIT].energy["dynamic_nj"]["total"]
        return float(self.of[design].energy["dynamic_nj"][part]) / before

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "program": self.program.name,
            "regime": self.regime.name,
            "designs": {
                name: {
                    "gain_serial": self.gain(name),
                    "gain_window": self.gain(name, "window"),
                    "overhead_serial": self.overhead(name),
                    "overhead_window": self.overhead(name, "window"),
                    "energy_saved": self.saved(name),
                    "figures": figures.data,
                }
                for name, figures in self.of.items()
            },
        }


def cycles(figures: Figures, how: str) -> float:
    """User time: what kernels and hosts do is the page policy's."""
    return float(figures.cycles["base"]) + float(figures.translation[how])


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    plan: Plan
    rows: list[Row]
    complete: bool = True

    def under(self, regime: str) -> list[Row]:
        """The rows of a regime."""
        return [row for row in self.rows if row.regime.name == regime]

    def mean(self, regime: str, value: Callable[[Row], float]) -> float:
        """A share averaged as the paper does, over programs."""
        rows = self.under(regime)
        return sum(map(value, rows)) / len(rows) if rows else 0.0

    def geomean(self, regime: str, gain: Callable[[Row], float]) -> float:
        """A gain averaged over programs."""
        rows = self.under(regime)
        return math.exp(sum(math.log1p(gain(row)) for row in rows) / len(rows)) - 1 if rows else 0.0

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "experiment": "mix-tlbs",
            "version": engine.version(),
            "instructions": self.plan.instructions,
            "complete": self.complete,
            "rows": [row.data() for row in self.rows],
        }


def trace_of(program: Program, regime: Regime) -> str:
    """The size of a program that a regime has room for."""
    if regime.vms:
        return program.guest
    return program.large if regime.superpages_only else program.beside


def tlbs(plan: Plan) -> dict[str, tuple[str, ...]]:
    """What is set for each design, the split one first."""
    names = (SPLIT, *(name for name in plan.designs if name != SPLIT))
    return {
        name: () if name == SPLIT else (fitted_tlb(plan.machine, DESIGNS[name][0], DESIGNS[name][1], plan.common()),)
        for name in names
    }


def run(plan: Plan, store: Store) -> Outcome:
    """Runs every program; machines of one trace share its decoding."""
    rows: list[Row] = []
    fitted = tlbs(plan)
    try:
        for program in plan.programs:
            for regime in plan.regimes:
                trace = trace_of(program, regime)
                options = program.options(plan.options, plan.instructions, trace, regime.vms)
                named = {f"{program.name}, {regime.name}, {design}": design for design in fitted}
                cells = [
                    Cell(name, trace, regime.job(plan.machine, (*plan.common(), *fitted[design])), options)
                    for name, design in named.items()
                ]
                kept: dict[str, Figures] = {}
                store.run(cells, kept, together=True)
                rows.append(Row(program, regime, {design: kept[name] for name, design in named.items()}))
    except Stopped:
        return Outcome(plan, rows, complete=False)
    return Outcome(plan, rows)
