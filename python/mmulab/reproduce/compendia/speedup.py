"""The gain of merged page tables for each program (paper 5, figures 14, 16 and 17).

It counts the entries that a walk reads, and projects the gain from them by the paper's method (section 5). Beside it
stands the gain of a core in time.

The core is run twice for each program, between which the truth lies (`mmulab.reproduce.shared.bounds`)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from mmulab import engine
from mmulab.reproduce.compendia.workloads import COMPILER, GENERATED, Workload, chosen
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.bounds import BOUNDS, between, bound
from mmulab.reproduce.shared.cells import Cell, Figures, Stopped, Store, user

# Room for the largest program, in the guest and in the host.
NATIVE_ROOM = ("memory.size=64G",)
NESTED_ROOM = ("memory.size=80G", "virtual.memory.size=64G")
GUEST, HOST, TOLD = "virtual.table.kind=compendia", "table.kind=compendia", "virtual.advise_nodes=true"
SMALL, ADVISED = "linux-4k", "linux-thp-madvise"
# The core that tells how much of the time walks take: of the generation that the paper measured.
CORE = "skylake-e3-1240v5"
# What that core's description does not say of virtual machines.
CORE_GUEST = (
    "virtual.cache=[{name='hPDE', levels=[2, 3, 4], entries=64, ways=8}]",
    "virtual.nested_tlb={entries=64, ways=8}",
)
INSTRUCTIONS, QUICK_INSTRUCTIONS = 40_000_000, 400_000


@dataclass(frozen=True)
class Published:
    """What paper 5 states over all its workloads."""

    before: float
    after: float
    gain: float
    most: float


# Abstract and section 6; the conclusion has 42 % for the most.
PAPER = {"native": Published(1.39, 1.01, 0.055, 0.41), "nested": Published(3.77, 2.04, 0.18, 0.70)}


def _nested(sets: Iterable[str], core: bool, told: bool = False) -> engine.Job:
    sets = (*NESTED_ROOM, *sets, *((TOLD,) if told else ()), *(CORE_GUEST if core else ()))
    return engine.Job(CORE if core else "compendia-nested", SMALL, sets, ADVISED if told else SMALL)


def _machines(core: bool) -> dict[str, engine.Job]:
    machine = CORE if core else "compendia-baseline"
    return {
        "native": engine.Job(machine, SMALL, NATIVE_ROOM),
        "native merged": engine.Job(machine, SMALL, (*NATIVE_ROOM, HOST)),
        "nested": _nested((), core),
        "nested merged": _nested((GUEST, HOST), core),
        "nested told": _nested((GUEST, HOST), core, told=True),
    }


def jobs() -> dict[str, engine.Job]:
    """The paper's simulator, by its tables."""
    half = {"nested guest": _nested((GUEST,), core=False), "nested host": _nested((HOST,), core=False)}
    return {**_machines(core=False), **half}


def timed_jobs() -> dict[str, engine.Job]:
    """A core in time, by how its loads depend on each other and by its tables."""
    return {f"{of} {name}": bound(job, of) for of in BOUNDS for name, job in _machines(core=True).items()}


def projected(share: float, before: float, after: float) -> float:
    """How much faster a program gets of whose time walks take a `share` that would be saved were they gone.

    Section 5: the time of walks, the share of it that would be saved were they gone, and the entries they read before
    and after.
    """
    return 1 / (1 - share * (1 - after / before)) - 1


@dataclass(frozen=True)
class Row:
    """A program."""

    workload: Workload
    of: dict[str, Figures]

    def share(self, dimension: str, of: str) -> float:
        """Of the core's user time, what it waits for walks. `of`: one of the bounds, here and below."""
        figures = self.of[f"{of} {dimension}"]
        return float(figures.cycles["walk"]) / user(figures)

    def gain(self, dimension: str, after: str, of: str) -> float:
        """Projected."""
        reads = (self.of[key].per_walk for key in (dimension, f"{dimension} {after}"))
        return projected(self.share(dimension, of), *reads)

    def simulated(self, dimension: str, after: str, of: str) -> float:
        """How much faster the core is when its tables are merged."""
        return user(self.of[f"{of} {dimension}"]) / user(self.of[f"{of} {dimension} {after}"]) - 1

    def growth(self) -> float:
        """What merging adds to the program's memory, natively."""
        before, after = (self.of[key].tables for key in ("native", "native merged"))
        return float((after["bytes"] - before["bytes"]) / (before["resident"] + before["bytes"]))


@dataclass(frozen=True)
class Plan:
    """What merging is worth (paper 5, figures 14, 16 and 17). Entries that a walk reads before and after, natively and
    in a virtual machine, over counterparts of the paper's programs. The gain by the paper's method, with walks' share
    of time from a simulated core, beside that core's own gain.

    DIR gets compendia-speedup.md, .json and .svg.

    Example: mmulab reproduce compendia-speedup --trace tests/data/cc1-small.mmt
    """

    workloads: tuple[Workload, ...] = GENERATED
    # None: as many as `quick` says.
    instructions: int | None = None
    trace: str | None = declare.trace(COMPILER)
    quick: bool = declare.quick()

    @property
    def programs(self) -> tuple[Workload, ...]:
        """The workloads that are run, and the recorded compiler."""
        return chosen(self.workloads, self.trace, self.quick)

    @property
    def limit(self) -> int:
        """Instructions of each program."""
        return self.instructions or (QUICK_INSTRUCTIONS if self.quick else INSTRUCTIONS)


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    plan: Plan
    rows: list[Row]
    complete: bool

    @property
    def counterparts(self) -> list[Row]:
        """Those that stand for workloads of the paper."""
        return [row for row in self.rows if row.workload.paper]

    def mean(self, key: str) -> float:
        """Entries a walk, averaged over the paper's workloads."""
        rows = self.counterparts
        return sum(row.of[key].per_walk for row in rows) / len(rows) if rows else 0.0

    def geomean(self, dimension: str, after: str, of: str, simulated: bool = False) -> float:
        """The gain, averaged as the paper does."""
        rows = self.counterparts
        gains = [(row.simulated if simulated else row.gain)(dimension, after, of) for row in rows]
        return math.exp(sum(map(math.log1p, gains)) / len(gains)) - 1 if gains else 0.0

    def _geomeans(self, dimension: str, after: str, simulated: bool = False) -> str:
        return between(self.geomean(dimension, after, of, simulated) for of in BOUNDS)

    def data(self) -> dict[str, Any]:
        """As JSON."""
        ways = [("native", "merged"), ("nested", "merged"), ("nested", "told")]
        averages = {
            f"{dimension} {after}": {
                "before": self.mean(dimension),
                "after": self.mean(f"{dimension} {after}"),
                "projected": {of: self.geomean(dimension, after, of) for of in BOUNDS},
                "simulated": {of: self.geomean(dimension, after, of, simulated=True) for of in BOUNDS},
                "paper": vars(PAPER[dimension]),
            }
            for dimension, after in ways
        }

        def one(row: Row) -> dict[str, Any]:
            gains = {
                f"{d} {a}": {
                    "share": {of: row.share(d, of) for of in BOUNDS},
                    "projected": {of: row.gain(d, a, of) for of in BOUNDS},
                    "simulated": {of: row.simulated(d, a, of) for of in BOUNDS},
                }
                for d, a in ways
            }
            accesses = {name: figures.per_walk for name, figures in row.of.items()}
            return {
                "workload": vars(row.workload),
                "accesses_per_walk": accesses,
                "gains": gains,
                "growth": row.growth(),
                "figures": {name: figures.data for name, figures in row.of.items()},
            }

        return {
            "experiment": "compendia-speedup",
            "version": engine.version(),
            "instructions": self.plan.limit,
            "complete": self.complete,
            "averages": averages,
            "rows": [one(row) for row in self.rows],
        }

    def tables(self) -> dict[str, str]:
        """Markdown tables by their names."""
        return {"workloads": self._workloads(), "native": self._native(), "nested": self._nested()}

    def _workloads(self) -> str:
        lines = ["| here | in paper 5 | how it stands | memory |", "|---|---|---|--:|"]
        for row in self.rows:
            size = row.of["native"].tables["resident"] / (1 << 20)
            standing = row.workload.standing
            lines.append(f"| {row.workload.name} | {row.workload.paper or '–'} | {standing} | {size:,.0f} MiB |")
        return "\n".join(lines)

    def _native(self) -> str:
        lines = [
            "| workload | entries a walk | merged | waits for walks | gain projected | gain simulated | memory |",
            "|---|--:|--:|--:|--:|--:|--:|",
        ]
        for row in self.rows:
            gains = f"{_gains(row, 'native', 'merged')} | {_gains(row, 'native', 'merged', simulated=True)}"
            entries = f"{row.of['native'].per_walk:.3f} | {row.of['native merged'].per_walk:.3f}"
            lines.append(
                f"| {row.workload.name} | {entries} | {_shares(row, 'native')} | {gains} | {row.growth():+.2%} |"
            )
        paper = PAPER["native"]
        if self.counterparts:
            gains = f"{self._geomeans('native', 'merged')} | {self._geomeans('native', 'merged', simulated=True)}"
            growth = sum(row.growth() for row in self.counterparts) / len(self.counterparts)
            means = f"{self.mean('native'):.3f} | {self.mean('native merged'):.3f}"
            lines.append(f"| **average of the paper's** | {means} | | {gains} | {growth:+.2%} |")
        lines.append(f"| *paper 5* | {paper.before} | {paper.after} | | {paper.gain:+.1%} | | +0.06% |")
        return "\n".join(lines)

    def _nested(self) -> str:
        keys = ("nested", "nested guest", "nested host", "nested merged", "nested told")
        titles = ("neither merged", "guest", "host", "both", "both, nodes told")
        lines = [
            f"| workload | {' | '.join(titles)} | waits for walks | gain projected, both | nodes told "
            "| gain simulated, both | nodes told |",
            "|---|" + "--:|" * (len(keys) + 5),
        ]
        for row in self.rows:
            entries = " | ".join(f"{row.of[key].per_walk:.3f}" for key in keys)
            told = " | ".join(
                _gains(row, "nested", after, sim) for sim in (False, True) for after in ("merged", "told")
            )
            lines.append(f"| {row.workload.name} | {entries} | {_shares(row, 'nested')} | {told} |")
        if self.counterparts:
            means = " | ".join(f"{self.mean(key):.3f}" for key in keys)
            told = " | ".join(
                self._geomeans("nested", after, sim) for sim in (False, True) for after in ("merged", "told")
            )
            lines.append(f"| **average of the paper's** | {means} | | {told} |")
        paper = PAPER["nested"]
        lines.append(f"| *paper 5* | {paper.before} | | | | {paper.after} | | | {paper.gain:+.0%} | | |")
        return "\n".join(lines)


def _shares(row: Row, dimension: str) -> str:
    return between((row.share(dimension, of) for of in BOUNDS), ".1%")


def _gains(row: Row, dimension: str, after: str, simulated: bool = False) -> str:
    return between((row.simulated if simulated else row.gain)(dimension, after, of) for of in BOUNDS)


def run(plan: Plan, store: Store) -> Outcome:
    """Runs every program on every machine; machines with and without time each share one decoding."""
    rows: list[Row] = []
    complete = True
    try:
        for workload in plan.programs:
            kept: dict[str, Figures] = {}
            given = workload.options(plan.limit)
            timed = replace(given, timing=True)
            cells = {name: Cell(f"{workload.name}, {name}", workload.trace, job, given) for name, job in jobs().items()}
            cells |= {
                name: Cell(f"{workload.name}, {name}", workload.trace, job, timed) for name, job in timed_jobs().items()
            }
            store.run(cells.values(), kept, together=True)
            rows.append(Row(workload, {name: kept[cell.name] for name, cell in cells.items()}))
    except Stopped:
        complete = False
    return Outcome(plan, rows, complete)
