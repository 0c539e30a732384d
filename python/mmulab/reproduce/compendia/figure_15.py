"""Random updates of tables of 16 MiB to 256 GiB (paper 5, figure 15), natively and in a virtual machine.

Pages are of 4 KiB or huge, and page tables are merged or not, in either dimension.
"""

from dataclasses import dataclass
from typing import Any

from mmulab import engine
from mmulab.reproduce.compendia import closed_form
from mmulab.reproduce.compendia.closed_form import FAN_OUT, GIB, MIB, PMD
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.cells import Cell, Figures, Stopped, Store
from mmulab.reproduce.shared.kinds import Whole

SIZES = tuple(16 * MIB << n for n in range(15))
UPDATES = 60_000
QUICK_SIZES = tuple(16 * MIB << n for n in range(0, 7, 2))
QUICK_UPDATES = 10_000
# Room for the largest footprint and its tables, in the guest and in the host.
NATIVE_ROOM = ("memory.size=320G",)
NESTED_ROOM = ("memory.size=360G", "virtual.memory.size=320G")
# Children from which a table is merged: an eighth of them.
MERGED_FROM = FAN_OUT // 8
GUEST = "virtual.table.kind=compendia"
HOST = "table.kind=compendia"
SMALL, HUGE, ADVISED = "linux-4k", "linux-thp", "linux-thp-madvise"


@dataclass(frozen=True)
class Way:
    """A way to have pages and tables."""

    key: str
    title: str
    nested: bool = False
    huge: bool = False
    guest: bool = False
    host: bool = False
    # The host is told of the guest's nodes, and keeps each in one page.
    told: bool = False

    @property
    def table(self) -> str:
        """The table it is in."""
        return f"{'nested' if self.nested else 'native'}-{'thp' if self.huge else '4k'}"

    def job(self) -> engine.Job:
        """The machine."""
        policy = HUGE if self.huge else SMALL
        if not self.nested:
            return engine.Job("compendia-baseline", policy, NATIVE_ROOM + ((HOST,) if self.guest else ()))
        sets = (GUEST,) * self.guest + (HOST,) * self.host + ("virtual.advise_nodes=true",) * self.told
        return engine.Job("compendia-nested", policy, NESTED_ROOM + sets, ADVISED if self.told else policy)

    def expected(self, footprint: int) -> float:
        """Entries a walk should read."""
        page = PMD * (FAN_OUT if self.huge else 1)
        # Below an eighth of a table's entries nothing is merged.
        merged = page * (FAN_OUT if footprint >= MERGED_FROM * page else 1)
        guest = merged if self.guest else page
        if not self.nested:
            return closed_form.native(footprint, guest)
        host = merged if self.host else page
        return closed_form.nested(footprint, guest, host, None if self.told or self.huge else PMD)


WAYS = (
    Way("4k", "4 KiB"),
    Way("4k-merged", "Compendia", guest=True),
    Way("thp", "THP", huge=True),
    Way("thp-merged", "Compendia on THP", huge=True, guest=True),
    Way("nested-4k", "neither", nested=True),
    Way("nested-4k-guest", "guest", nested=True, guest=True),
    Way("nested-4k-host", "host", nested=True, host=True),
    Way("nested-4k-both", "both", nested=True, guest=True, host=True),
    Way("nested-4k-told", "both, nodes told", nested=True, guest=True, host=True, told=True),
    Way("nested-thp", "neither", nested=True, huge=True),
    Way("nested-thp-guest", "guest", nested=True, huge=True, guest=True),
    Way("nested-thp-host", "host", nested=True, huge=True, host=True),
    Way("nested-thp-both", "both", nested=True, huge=True, guest=True, host=True),
)


def label(footprint: int) -> str:
    """A size in words."""
    return f"{footprint // GIB} GiB" if footprint >= GIB else f"{footprint // MIB} MiB"


def trace(footprint: int, updates: int) -> str:
    """Random updates."""
    return f"gen:gups?footprint={footprint}&updates={updates}"


def cell(way: Way, footprint: int, updates: int) -> Cell:
    """A way at a size, all pages mapped beforehand: a page touched first is walked for twice."""
    name = f"{way.table}, {way.title}, {label(footprint)}"
    return Cell(name, trace(footprint, updates), way.job(), engine.Options(reshape=engine.POPULATED))


@dataclass(frozen=True)
class Plan:
    """Entries that a walk reads for random updates of 16 MiB to 256 GiB (paper 5, figure 15). Pages are of 4 KiB or
    huge, with tables merged and not. Runs are on the machine itself, and in a virtual one whose guest, host or both
    merge. Beside each figure stands the closed form of docs/results/gups-curve.md. It takes some ten minutes, and 3 GB
    of memory.

    Each run is kept: one that was stopped goes on where it was. DIR gets compendia-figure-15.md, .json and .svg.

    Example: mmulab reproduce compendia-figure-15 --quick
    """

    # None: as many as `quick` says.
    sizes: tuple[int, ...] | None = None
    updates: int | None = declare.option(
        None, Whole(1, 10**12), f"Updates of each run. Default: {UPDATES}; with --quick {QUICK_UPDATES}."
    )
    ways: tuple[Way, ...] = WAYS
    quick: bool = declare.quick()

    @property
    def footprints(self) -> tuple[int, ...]:
        """The sizes that are run."""
        return self.sizes or (QUICK_SIZES if self.quick else SIZES)

    @property
    def length(self) -> int:
        """The updates of each run."""
        return self.updates or (QUICK_UPDATES if self.quick else UPDATES)


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    plan: Plan
    found: dict[tuple[str, int], Figures]
    complete: bool

    def at(self, way: Way, footprint: int) -> Figures | None:
        """A way at a size, if it was run."""
        return self.found.get((way.key, footprint))

    def data(self) -> dict[str, Any]:
        """As JSON."""
        rows = []
        for way in self.plan.ways:
            for size in self.plan.footprints:
                if figures := self.at(way, size):
                    more = {"accesses_per_walk": figures.per_walk, "expected": way.expected(size)}
                    rows.append({"way": way.key, "footprint": size, **more, **figures.data})
        return {
            "experiment": "compendia-figure-15",
            "version": engine.version(),
            "updates": self.plan.length,
            "complete": self.complete,
            "ways": [vars(way) for way in self.plan.ways],
            "rows": rows,
        }

    def tables(self) -> dict[str, str]:
        """Markdown tables by their names: accesses a walk of each kind of page, and what tables take."""
        names = dict.fromkeys(way.table for way in self.plan.ways)
        return {**{name: self._accesses(name) for name in names}, "memory": self._memory()}

    def _accesses(self, name: str) -> str:
        ways = [way for way in self.plan.ways if way.table == name]
        lines = [
            "| footprint | " + " | ".join(f"{way.title} | form" for way in ways) + " |",
            "|--:|" + "--:|--:|" * len(ways),
        ]
        for size in self.plan.footprints:
            cells = []
            for way in ways:
                figures = self.at(way, size)
                cells += [f"**{figures.per_walk:.3f}**" if figures else "", f"{way.expected(size):.3f}"]
            lines.append(f"| {label(size)} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def _memory(self) -> str:
        shown = [w for w in self.plan.ways if w.key in ("4k", "4k-merged", "nested-4k", "nested-4k-both")]
        titles = {"4k": "4 KiB", "4k-merged": "Compendia", "nested-4k": "guest + host", "nested-4k-both": "both merged"}
        lines = [
            "| footprint | " + " | ".join(titles[way.key] for way in shown) + " | merges, native | guest + host |",
            "|--:|" + "--:|" * (len(shown) + 2),
        ]
        for size in self.plan.footprints:
            cells = [_table_bytes(self.at(way, size)) for way in shown]
            cells += [_merges(self.found.get((key, size))) for key in ("4k-merged", "nested-4k-both")]
            lines.append(f"| {label(size)} | {' | '.join(cells)} |")
        return "\n".join(lines)


def _table_bytes(figures: Figures | None) -> str:
    if figures is None:
        return ""
    tables = [figures.tables] + ([figures.host_tables] if figures.host_tables else [])
    return " + ".join(f"{t['bytes'] / MIB:.2f}" for t in tables) + " MiB"


def _merges(figures: Figures | None) -> str:
    if figures is None:
        return ""
    return " + ".join(str(t["merges"]) for t in [figures.tables, figures.host_tables] if t)


def run(plan: Plan, store: Store) -> Outcome:
    """Runs every way at every size, small ones first."""
    found: dict[tuple[str, int], Figures] = {}
    cells = {(way.key, size): cell(way, size, plan.length) for size in plan.footprints for way in plan.ways}
    kept: dict[str, Figures] = {}
    complete = True
    try:
        store.run(cells.values(), into=kept)
    except Stopped:
        complete = False
    for key, made in cells.items():
        if made.name in kept:
            found[key] = kept[made.name]
    return Outcome(plan, found, complete)
