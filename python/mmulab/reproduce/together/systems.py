"""What no paper shows: coalescing TLBs, merged page tables, and kernels that keep memory together, each with each.

Each is run twice by a core in time, between which the truth lies (`shared.bounds`); latencies added up are the quick
model's.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmulab import engine
from mmulab.contiguity import memhog
from mmulab.markdown import grid, percent
from mmulab.reproduce.mix.designs import BASELINE, SPLIT, at_once, fitted_tlb
from mmulab.reproduce.mix.outcome import SERIAL
from mmulab.reproduce.mix.programs import GENERATED, Program, only_without_trace, recorded
from mmulab.reproduce.mix.suite import INSTRUCTIONS, QUICK_INSTRUCTIONS, added_up
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.bounds import BOUNDS, DEPENDENT, INDEPENDENT, bound
from mmulab.reproduce.shared.cells import Cell, Figures, Stopped, Store, user
from mmulab.units import toml_value

DESIGNS = (SPLIT, "zen", "mix", "mix-merged", "mix+colt")
# The format as the machine has it, and with levels merged; and RISC-V's. Entries of the last say which sixteen base
# pages make one of 64 KiB (Svnapot). RISC-V's is for the kernels of Elastic Translations, and for TLBs that hold that
# size beside base pages.
RADIX, SVNAPOT = "radix", "svnapot"
TABLES = {
    RADIX: (),
    "compendia": ("table.kind=compendia",),
    SVNAPOT: ("table.kind=riscv-sv", "policy.contiguous.bit=transparent"),
}
# Elastic Translations on a machine without contiguous bits: its blocks of 32 MiB, and its daemon for every process, for
# nobody gives hints here.
ELASTIC = (
    "memory.max_order=13",
    "policy.contiguous.bit=none",
    "policy.promotion.serves=all",
    "policy.hints.from=madvise",
)
# For each kernel, its policy and assignments. What lies together: nothing by design; 64 KiB a fault; 2 MiB set aside.
# Then 2 MiB mapped, and the same beside a program that holds most of memory. Then 64 KiB by faults of base pages; and
# 32 MiB by faults of 2 MiB and a daemon, alone and beside such a program.
KERNELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "linux-4k": ("linux-4k", ()),
    "linux-mthp-64k": ("linux-mthp", ("policy.thp.sizes.2M=never",)),
    "freebsd-reserv": ("freebsd-reserv", ()),
    "linux-thp": ("linux-thp", ()),
    "linux-thp, memhog 60 %": ("linux-thp", memhog(60)),
    "coalapaging, 64K": ("coalapaging", ("policy.fault.sizes=[]",)),
    "elastic": ("elastic", ELASTIC),
    "elastic, memhog 60 %": ("elastic", (*ELASTIC, *memhog(60))),
}
# Those that put base pages and pages of 2 MiB together to sixteen.
COALESCED = frozenset(kernel for kernel, (policy, _) in KERNELS.items() if policy in ("coalapaging", "elastic"))
# Two fifths of it hold the programs of a virtual machine of paper 4, of at most 4 GB.
MEMORY = "memory.size=16G"


@dataclass(frozen=True)
class Plan:
    """Coalescing TLBs in the area of split ones, on one machine, over several page tables and kernels. The tables have
    levels merged, not merged, or RISC-V's contiguous bit. The kernels keep memory together in different ways. No paper
    shows these combinations.

    Without --trace, programs stand for paper 4's, 1 M instructions of each (--max-instructions) after their memory is
    there: some minutes. All is against the split TLBs over the radix table under the same kernel; memory is 16 GB
    unless --set memory.size=... says otherwise. DIR gets together.json and .md.

    Example: mmulab reproduce together --trace 'gen:gups?footprint=2G&init=true'
    """

    trace: str | None = declare.trace(
        "A trace of any format, or gen:NAME?key=value. Default: what stands for paper 4's programs."
    )
    recorded: tuple[str, ...] = declare.recorded()
    quick: bool = declare.quick("Paper 4's programs small, in seconds: to see what it does.")
    machine: str = declare.machine(BASELINE, "Whose TLBs, and whose area.")
    sets: tuple[str, ...] = declare.sets()
    options: engine.Options = declare.engine_options()

    @property
    def programs(self) -> tuple[Program, ...]:
        """The trace, or paper 4's programs and the recordings."""
        if self.trace is None:
            return (*GENERATED, *(recorded(Path(file)) for file in self.recorded))
        only_without_trace(recorded=self.recorded, quick=self.quick)
        return (Program(self.trace, "", self.trace, self.trace, self.trace, populated=False),)

    def of(self, program: Program) -> tuple[str, engine.Options]:
        """What is run of a program, and how: a trace whole."""
        if self.trace is not None:
            return self.trace, self.options
        size = program.quick if self.quick else program.guest
        most = self.options.max_instructions or (QUICK_INSTRUCTIONS if self.quick else INSTRUCTIONS)
        return size, program.options(self.options, most, size, 0)


@dataclass(frozen=True)
class Row:
    """All designs for a program over one table under one kernel."""

    program: str
    kernel: str
    table: str
    # No load waits for another. All that is not time is the same in `dependent`.
    of: dict[str, Figures]
    # Each load waits for the one before.
    dependent: dict[str, Figures]
    # The split design over the radix table, likewise.
    base: Figures
    dependent_base: Figures

    def gain(self, design: str, how: str) -> float:
        """How much faster than split TLBs over the radix table: by a core in time, or with latencies added up."""
        if how == SERIAL:
            return added_up(self.base) / added_up(self.of[design]) - 1
        base, of = (self.base, self.of) if how == INDEPENDENT else (self.dependent_base, self.dependent)
        return user(base) / user(of[design]) - 1

    def saved(self, design: str) -> float:
        """Of their translation energy, what is saved."""
        return 1 - self.of[design].energy_nj / self.base.energy_nj

    def walks(self, design: str) -> float:
        """Walks per 1000 instructions."""
        figures = self.of[design]
        return float(figures.walks * 1000 / max(figures.instructions, 1))

    def data(self) -> dict[str, Any]:
        """For a file."""
        designs = [
            {
                "design": name,
                "gain_serial": self.gain(name, SERIAL),
                **{f"gain_{how}": self.gain(name, how) for how in BOUNDS},
                "energy_saved": self.saved(name),
                "walks": figures.walks,
                "walks_per_kilo_instruction": self.walks(name),
                "accesses_per_walk": figures.per_walk,
            }
            for name, figures in self.of.items()
        ]
        return {"program": self.program, "kernel": self.kernel, "table": self.table, "designs": designs}


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    rows: list[Row]
    complete: bool = True

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {"experiment": "together", "complete": self.complete, "rows": [row.data() for row in self.rows]}

    def tables(self) -> dict[str, str]:
        """As Markdown, by their names on a page: means over the programs."""

        def gains(how: str) -> Callable[[list[Row], str], str]:
            def mean(rows: list[Row], design: str) -> str:
                return percent(math.exp(sum(math.log1p(row.gain(design, how)) for row in rows) / len(rows)) - 1)

            return mean

        def average(of: Callable[[Row, str], float], show: Callable[[float], str]) -> Callable[[list[Row], str], str]:
            return lambda rows, design: show(sum(of(row, design) for row in rows) / len(rows))

        return {
            "gain": self._grid(gains(INDEPENDENT)),
            "gain-dependent": self._grid(gains(DEPENDENT)),
            "gain-serial": self._grid(gains(SERIAL)),
            "walks": self._grid(average(Row.walks, lambda n: f"{n:.2f}")),
            "per-walk": self._grid(average(lambda row, design: row.of[design].per_walk, lambda n: f"{n:.3f}")),
            "energy": self._grid(average(Row.saved, percent)),
            "best": self._best(),
        }

    def _places(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((row.kernel, row.table) for row in self.rows))

    def _grid(self, value: Callable[[list[Row], str], str]) -> str:
        lines = []
        for place in self._places():
            rows = [row for row in self.rows if (row.kernel, row.table) == place]
            lines.append([*place, *(value(rows, design) if design in rows[0].of else "–" for design in DESIGNS)])
        return grid(("kernel", "table", *DESIGNS), lines, text=2)

    def _best(self) -> str:
        """The fastest of all systems under a kernel, by program, if no load waits for another; the first of equals."""
        programs = list(dict.fromkeys(row.program for row in self.rows))
        lines = []
        for kernel in dict.fromkeys(row.kernel for row in self.rows):
            line = [kernel]
            for program in programs:
                rows = [row for row in self.rows if (row.kernel, row.program) == (kernel, program)]
                of = [(row.gain(design, INDEPENDENT), design, row.table) for row in rows for design in row.of]
                gain, design, table = max(of, key=lambda one: round(one[0], 3), default=(0.0, "–", "–"))
                line.append(f"{design}, {table} {percent(gain)}")
            lines.append(line)
        return grid(("kernel", *programs), lines)


def places() -> list[tuple[str, str, tuple[str, ...]]]:
    """Kernels, tables and the designs that are run there."""
    every: list[tuple[str, str, tuple[str, ...]]]
    every = [(kernel, table, DESIGNS) for kernel in KERNELS for table in TABLES if table != SVNAPOT]
    # Sixteen base pages with the bit are one entry of a TLB that knows the size: nothing is left to coalesce.
    napot: list[tuple[str, str, tuple[str, ...]]]
    napot = [(kernel, SVNAPOT, (SPLIT,)) for kernel in KERNELS if kernel in COALESCED]
    return sorted(every + napot, key=lambda place: list(KERNELS).index(place[0]))


def napot_tlb(machine: str, sets: tuple[str, ...]) -> tuple[str, ...]:
    """What is set for the arrays that hold base pages to hold pages of 64 KiB, too."""
    arrays = engine.resolve(engine.Job(machine, "linux-4k", sets))["machine"]["tlb"]
    small = [array for array in arrays if "4K" in array["sizes"] and "64K" not in array["sizes"]]
    return tuple(f"tlb.{array['name']}.sizes={toml_value(['4K', '64K', *array['sizes'][1:]])}" for array in small)


def _name(program: Program, kernel: str, table: str, design: str, how: str) -> str:
    return f"{program.name}, {kernel}, {table}, {design}, {how}"


def run(plan: Plan, store: Store) -> Outcome:
    """Every design over every table under every kernel, for every program; machines of a program share its decoding."""
    common = (MEMORY, *plan.sets)
    common = (*common, *at_once(plan.machine, common))
    napot = napot_tlb(plan.machine, common)
    fitted = {d: () if d == SPLIT else (fitted_tlb(plan.machine, d, engine.MIX_GROUPS, common),) for d in DESIGNS}
    rows: list[Row] = []
    try:
        for program in plan.programs:
            trace, options = plan.of(program)
            options = replace(options, timing=True)
            named = {
                _name(program, kernel, table, design, how): bound(
                    engine.Job(
                        plan.machine,
                        KERNELS[kernel][0],
                        (
                            *common,
                            *KERNELS[kernel][1],
                            *TABLES[table],
                            *fitted[design],
                            *(napot if table == SVNAPOT else ()),
                        ),
                    ),
                    how,
                )
                for kernel, table, designs in places()
                for design in designs
                for how in BOUNDS
            }
            kept: dict[str, Figures] = {}
            store.run([Cell(name, trace, job, options) for name, job in named.items()], kept, together=True)
            for kernel, table, designs in places():
                bases = [kept[_name(program, kernel, RADIX, SPLIT, how)] for how in BOUNDS]
                of, dependent = (
                    {design: kept[_name(program, kernel, table, design, how)] for design in designs} for how in BOUNDS
                )
                rows.append(Row(program.name, kernel, table, of, dependent, *bases))
    except Stopped:
        return Outcome(rows, complete=False)
    return Outcome(rows)
