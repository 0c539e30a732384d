"""Every design under every regime for every program.

Each is run twice by a core in time, between which the truth lies (`mmulab.reproduce.shared.bounds`). Latencies added
up, as the paper's analytical model has them, are the quick model's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mmulab import engine
from mmulab.contiguity import memhog
from mmulab.reproduce.mix import outcome
from mmulab.reproduce.mix.designs import (
    BASELINE,
    MEMHOG,
    PAPER,
    SPLIT,
    TENTH,
    VMS,
    Regime,
    Scale,
    at_once,
    fitted_tlb,
    regimes,
)
from mmulab.reproduce.mix.outcome import SERIAL
from mmulab.reproduce.mix.programs import PROGRAMS, Program
from mmulab.reproduce.shared.bounds import BOUNDS, DEPENDENT, bound
from mmulab.reproduce.shared.cells import Cell, Figures, Stopped, Store, user

# The split TLBs, whose arrays for several sizes look for all of them at once: what a second probe costs in turn.
ONE_PROBE = "split-parallel"
# By name: as `machines fit` knows it, and the bundle limits of MIX. "16-128" superpages offset mirrors (section 4.2).
# 512 is the largest length in the nine tag bits that a superpage does not need (section 4.1: "it could use more bits").
DESIGNS: dict[str, tuple[str, tuple[int, int]]] = {
    SPLIT: (SPLIT, engine.MIX_GROUPS),
    ONE_PROBE: (SPLIT, engine.MIX_GROUPS),
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

    programs: tuple[Program, ...] = PROGRAMS
    designs: tuple[str, ...] = tuple(DESIGNS)
    memhog: tuple[int, ...] = MEMHOG
    vms: tuple[int, ...] = VMS
    scale: Scale = PAPER
    instructions: int = INSTRUCTIONS
    machine: str = BASELINE
    sets: tuple[str, ...] = ()
    options: engine.Options = field(default_factory=engine.Options)

    @classmethod
    def quick(cls, programs: Iterable[Program] = PROGRAMS) -> "Plan":
        """A tenth of the paper's memory, small programs."""
        small = tuple(replace(p, large=p.quick, beside=p.quick, guest=p.quick, start=p.start // 32) for p in programs)
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


def added_up(figures: Figures) -> float:
    """User time by the quick model, with the latencies of translation added up."""
    return float(figures.base) + float(figures.translation[SERIAL])


@dataclass(frozen=True)
class Row(outcome.Row[Program, Figures]):
    """All designs for a program under a regime. In `of` no load waits for another."""

    # Each load waits for the one before. All that is not time is the same.
    dependent: dict[str, Figures]

    def cycles(self, design: str, how: str = SERIAL) -> float:
        """User time, for what kernels and hosts do is the page policy's: latencies added up, or one of the bounds."""
        if how == SERIAL:
            return added_up(self.of[design])
        return user((self.dependent if how == DEPENDENT else self.of)[design])

    def without_misses(self, design: str) -> float:
        """A cycle for each instruction, or what the machine takes of one."""
        return float(self.of[design].base)

    def energy(self, design: str) -> float:
        """All that translation takes, in nJ."""
        return self.of[design].energy_nj

    def part(self, design: str, part: str) -> float:
        """A part of the dynamic energy, beside all of that of split TLBs (Figure 17)."""
        before: float = self.of[SPLIT].energy["dynamic_nj"]["total"]
        return float(self.of[design].energy["dynamic_nj"][part]) / before

    def runs(self) -> dict[str, Any]:
        """Runs of pages by page size; in virtual machines of the guest's."""
        found: dict[str, Any] = self.of[SPLIT].contiguity
        return found

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "program": self.program.name,
            "regime": self.regime.name,
            "designs": {
                name: {
                    "gain_serial": self.gain(name),
                    **{f"gain_{how}": self.gain(name, how) for how in BOUNDS},
                    "overhead_serial": self.overhead(name),
                    "energy_saved": self.saved(name),
                    "figures": figures.data,
                }
                for name, figures in self.of.items()
            },
        }


Outcome = outcome.Outcome[Plan, Row]


def trace_of(program: Program, regime: Regime, instructions: int, store: Store) -> str:
    """The size of a program that a regime has room for, from where it is at work."""
    size = program.guest if regime.vms else program.large if regime.superpages_only else program.beside
    return str(store.slice(size, program.start, instructions)) if program.start else size


def tlbs(plan: Plan) -> dict[str, tuple[str, ...]]:
    """What is set for each design, the split one first."""
    names = (SPLIT, *(name for name in plan.designs if name != SPLIT))
    return {name: _tlb(plan, name) for name in names}


def _tlb(plan: Plan, name: str) -> tuple[str, ...]:
    if name == SPLIT:
        return ()
    if name == ONE_PROBE:
        return at_once(plan.machine, plan.common())
    design, groups = DESIGNS[name]
    return (fitted_tlb(plan.machine, design, groups, plan.common()),)


def row_of(program: Program, regime: Regime, plan: Plan, tlbs: Mapping[str, tuple[str, ...]], store: Store) -> Row:
    """Runs a program with each of the designs, which share its decoding. `tlbs`: what is set for each."""
    trace = trace_of(program, regime, plan.instructions, store)
    options = replace(program.options(plan.options, plan.instructions, trace, regime.vms), timing=True)
    cells = {
        (how, name): Cell(
            f"{program.name}, {regime.name}, {name}, {how}",
            trace,
            bound(regime.job(plan.machine, (*plan.common(), *tlb)), how),
            options,
        )
        for name, tlb in tlbs.items()
        for how in BOUNDS
    }
    kept: dict[str, Figures] = {}
    store.run(cells.values(), kept, together=True)
    independent, dependent = ({name: kept[cells[how, name].name] for name in tlbs} for how in BOUNDS)
    return Row(program, regime, independent, dependent)


def run(plan: Plan, store: Store) -> Outcome:
    """Runs every program under every regime."""
    rows: list[Row] = []
    fitted = tlbs(plan)
    try:
        for program in plan.programs:
            for regime in plan.regimes:
                rows.append(row_of(program, regime, plan, fitted, store))
    except Stopped:
        return Outcome("mix-tlbs", plan, rows, complete=False)
    return Outcome("mix-tlbs", plan, rows)
