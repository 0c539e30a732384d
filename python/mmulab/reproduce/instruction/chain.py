"""The nine-superpage experiment (paper 2, section V-A): functions in superpages of their own call each other in turn.

It is what the wait for entries that instructions hold is calibrated on, and nothing else is.
"""

from dataclasses import dataclass, field
from typing import Any

from mmulab.markdown import grid
from mmulab.reproduce.instruction import native_chain, published
from mmulab.reproduce.instruction.measured import Measured
from mmulab.reproduce.instruction.setting import HASWELL, IVY_BRIDGE, REAL, SKYLAKE, ZEN, Setting, Variant
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.cells import Cell, Figures, Stopped, Store
from mmulab.reproduce.shared.kinds import Probe, Whole

# Where the paper looks: as many superpages as the ITLB of a thread has entries, and one more.
FITS, ONE_MORE = 8, 9
# Anonymous memory in pages of 2 MB.
SUPERPAGES = Setting("superpages", "linux-thp")
# What each part of the cost is, by what a machine is without it.
NOT_HELD = Variant(
    "Skylake, no entry held", SKYLAKE, ("tlb.ITLB-4K.hold.instructions=1", "tlb.ITLB-2M.hold.instructions=1")
)
VARIANTS = (REAL, NOT_HELD, HASWELL, IVY_BRIDGE, ZEN)
# The superpages of the sweep.
COUNTS = (1, 2, 4, 7, 8, 9, 10, 12, 16, 24, 32)


@dataclass(frozen=True)
class Plan:
    """Trivial functions, each in a superpage of its own, call each other in turn (paper 2, section V-A). With 8, the
    ITLB of a Skylake thread holds all. With 9, every call misses it and hits the STLB. Three cases stand beside it.
    They are a Skylake on which no instruction holds an entry, the second levels of Haswell and Ivy Bridge, and a Zen+
    with one ITLB for all sizes. With --here, the same functions are also timed on this computer, beside the core in
    time on its description.

    Example: mmulab reproduce instruction-chain
    """

    rounds: int = declare.option(10_000, Whole(10, 10**9), "Times that each function is called.", shown=True)
    here: dict[str, Any] | None = declare.option(
        None,
        Probe(),
        "probe.json of `mmulab probe`: also time the chain on this computer. Stop other programs meanwhile.",
    )
    sets: tuple[str, ...] = declare.sets()


@dataclass(frozen=True)
class Row:
    """A machine with a number of superpages."""

    variant: Variant
    superpages: int
    of: Measured

    @property
    def calls(self) -> int:
        """How many calls were made."""
        return int(self.of.of.tlb["l1i"]["accesses"])

    @property
    def per_miss(self) -> float:
        """Cycles of an ITLB miss."""
        return self.of.stall / max(1, self.of.misses)

    @property
    def hits(self) -> float:
        """Of the ITLB's misses, those that hit the second level."""
        return float(self.of.of.tlb["l2i"]["hits"] / max(1, self.of.misses))

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "machine": self.variant.name,
            "superpages": self.superpages,
            "misses_per_call": self.of.misses / self.calls,
            "second_level_hits": self.hits,
            "cycles_per_miss": self.per_miss,
            "stall_share": self.of.overhead,
            "cycles": self.of.cycles,
        }


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    rows: list[Row]
    here: list[native_chain.Here] = field(default_factory=list)
    complete: bool = True

    def row(self, variant: Variant, superpages: int) -> Row:
        """One of them."""
        return next(row for row in self.rows if (row.variant, row.superpages) == (variant, superpages))

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "experiment": "instruction-chain",
            "complete": self.complete,
            "rows": [row.data() for row in self.rows],
            "here": [vars(row) for row in self.here],
        }

    def tables(self) -> dict[str, str]:
        """As Markdown, by their names on a page."""
        here = {"here": self._here()} if self.here else {}
        return {"chain": self._sweep(), "nine": self._nine(), **here}

    def _sweep(self) -> str:
        counts = sorted({row.superpages for row in self.rows})
        lines = []
        for variant in dict.fromkeys(row.variant for row in self.rows):
            rows = {row.superpages: row for row in self.rows if row.variant == variant}
            lines.append([variant.name, *(f"{rows[n].of.misses / rows[n].calls:.2f}" for n in counts if n in rows)])
        return grid(("misses of a call, by superpages", *map(str, counts)), lines)

    def _here(self) -> str:
        """This computer: cycles of a call, by page size, timed and modelled."""
        lines = []
        for count in dict.fromkeys(row.superpages for row in self.here):
            cells = []
            for name in native_chain.SETTINGS:
                row = next(row for row in self.here if (row.superpages, row.setting) == (count, name))
                timed = f"{row.timed:.1f} ({row.fastest:.1f} to {row.slowest:.1f})"
                cells += [timed, f"{row.modelled:.1f}", f"{row.misses:.2f}"]
            lines.append([str(count), *cells])
        titles = [
            f"{name}: {what}"
            for name in native_chain.SETTINGS
            for what in ("timed here", "core in time", "misses of a call")
        ]
        return grid(("functions, cycles of a call", *titles), lines)

    def _nine(self) -> str:
        paper = [
            "paper 2",
            "100 %",
            f"{published.MISS_CYCLES}",
            f"> {published.MISS_SHARE:.0%}",
            f"{published.SLOWER:g} x",
        ]
        lines = [paper]
        for variant in dict.fromkeys(row.variant for row in self.rows):
            found = {row.superpages: row for row in self.rows if row.variant == variant}
            if FITS not in found or ONE_MORE not in found:
                continue
            eight, nine = found[FITS], found[ONE_MORE]
            if nine.of.misses <= ONE_MORE:
                lines.append([variant.name, "–", "no miss", f"{nine.of.overhead:.0%}", "1 x"])
                continue
            # The paper's two figures say what a call takes else: its misses take (slower - 1) times that.
            call = published.MISS_CYCLES / (published.SLOWER - 1)
            stall = (nine.of.stall - eight.of.stall) / nine.calls
            lines.append(
                [
                    variant.name,
                    f"{nine.hits:.1%}",
                    f"{nine.per_miss:.1f}",
                    f"{stall / (stall + call):.0%}",
                    f"{1 + stall / call:.1f} x",
                ]
            )
        titles = ("9 superpages", "misses that hit the STLB", "cycles of a miss", "share of time", "9 beside 8")
        return grid(titles, lines)


def run(plan: Plan, store: Store) -> Outcome:
    """Every machine with every number of superpages; this computer, if it is asked for."""
    rows: list[Row] = []
    here: list[native_chain.Here] = []
    try:
        for variant in VARIANTS:
            for count in COUNTS:
                trace = f"gen:code-chain?functions={count}&rounds={plan.rounds}"
                cell = Cell(f"{variant.name}, {count} superpages", trace, variant.job(SUPERPAGES, plan.sets))
                kept: dict[str, Figures] = {}
                store.run([cell], kept)
                rows.append(Row(variant, count, Measured(kept[cell.name])))
        if plan.here is not None:
            here = native_chain.run(plan.here, COUNTS, plan.rounds, store)
    except Stopped:
        return Outcome(rows, here, complete=False)
    return Outcome(rows, here)
