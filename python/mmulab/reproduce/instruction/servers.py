"""Padding and shared page tables for a server of many processes (paper 2, Figures 8, 9 and 10, Table V).

The server is PostgreSQL, always with the most aggressive promotion of code. Beside it stands how much of the time
FreeBSD as it is waits for translations of code, by clients, cores and hyperthreads (section IV).
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from mmulab import engine
from mmulab.markdown import grid
from mmulab.reproduce.instruction import published
from mmulab.reproduce.instruction.measured import Measured, middle, ratios, remaining, saved, spread
from mmulab.reproduce.instruction.programs import PERSISTENT, RECONNECTING, Program
from mmulab.reproduce.instruction.setting import (
    ALL_LEVELS,
    BOTH,
    FIGURE_8,
    PADDED,
    REAL,
    SHARING,
    SKYLAKE,
    STOCK,
    Setting,
)
from mmulab.reproduce.instruction.subjects import Shared, Subject, cores, measure, missing, subjects
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.cells import Stopped, Store
from mmulab.reproduce.shared.experiment import Session
from mmulab.reproduce.shared.kinds import Wholes
from mmulab.units import show_bytes

# The paper's servers run on two cores, and on one to four (section IV and Figure 9).
CORES = 2
CLIENTS = (10,)
MOST_CORES, MOST_CLIENTS = 64, 200
SETTINGS = (STOCK, *FIGURE_8, ALL_LEVELS)
# Hardware threads side by side, as cores and hyperthreads of each.
PARALLEL = {"1 thread": (1, 1), "2 hyperthreads": (1, 2), "2 cores": (2, 1), "4 cores": (4, 1)}
# PostgreSQL as Table V has it: code, data behind it in the file, and in the address space 2 MB further on.
CODE, CODE_END, DATA, DATA_END = 0x400000, 0x9F4000, 0xBF4000, 0xC00000
PAGE, SUPERPAGE = 4096, 2 << 20


@dataclass(frozen=True)
class Plan(Shared):
    """Padding and shared page tables for code (paper 2, Figures 8, 9 and 10, Table V). PostgreSQL runs with and without
    either, in user space and in the kernel, beside FreeBSD as it is, and with tables of all levels shared. Reported are
    the cycles of an instruction page walk, and the share of time that fetches wait, by cores and clients. The addresses
    of Table V follow. With --no-timing also on one hardware thread, two hyperthreads, and two and four cores.

    Example: mmulab reproduce instruction-servers --trace tests/data/cc1-small.mmt --no-timing --cores 1,2
    """

    cores: tuple[int, ...] = declare.option((1, 2, 4), Wholes(MOST_CORES), "Numbers of cores for Figure 9.", shown=True)
    clients: tuple[int, ...] = declare.option(
        CLIENTS, Wholes(MOST_CLIENTS), "Numbers of clients: a recording and rows for each, in each mode.", shown=True
    )


@dataclass(frozen=True)
class Row:
    """A server, under each kernel."""

    subject: Subject
    of: Mapping[Setting, Measured]

    def left(self, setting: Setting, what: str) -> float:
        """What is left of a counter beside FreeBSD as it is."""
        return remaining(self.of[setting], self.of[STOCK], ALL[what])

    def runs(self, setting: Setting, what: str) -> list[float]:
        """The same for each recording alone, if there are several."""
        return ratios(self.of[setting], self.of[STOCK], ALL[what])

    def shown(self, setting: Setting, what: str) -> str:
        """The same for a table, with the least and the most of the recordings."""
        return f"{self.left(setting, what):.1%}{spread(self.runs(setting, what), '.1%')}"

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "program": self.subject.name,
            "kernels": {
                setting.name: {
                    **{name: count(found) for name, count in ALL.items()},
                    "runs": [{name: count(run) for name, count in ALL.items()} for run in found.runs],
                    "superpages": found.superpages,
                    "events": {key: count for key, count in found.of.events.items() if count},
                    "work": {key: count for key, count in found.of.kernel_work.items() if count},
                }
                for setting, found in self.of.items()
            },
        }


# Figure 8's counters.
COUNTERS: Mapping[str, Callable[[Measured], float]] = {
    "execution cycles": lambda m: m.cycles,
    "ITLB stall": lambda m: m.stall,
    "instruction walk cycles": lambda m: m.walk_cycles("instruction"),
    "data walk cycles": lambda m: m.walk_cycles("data"),
    "stalls for memory": lambda m: m.memory_stall,
    "cycles of an instruction walk": lambda m: m.cycles_per_walk,
}
# What the kernel works for: the parts of its cycles that the three techniques change.
CAUSES = ("faults", "promotions", "fork", "exec", "exit")
# Figure 10's, as far as they are modelled, and what they are made of.
KERNEL: Mapping[str, Callable[[Measured], float]] = {
    "kernel cycles": lambda m: m.kernel,
    **{f"kernel cycles, {name}": partial(Measured.kernel_for, cause=name) for name in CAUSES},
    "faults": lambda m: sum(m.of.faults.values()),
    "page-table entries written": lambda m: m.of.kernel_work.get("entry_write", 0),
    "page-table frames taken and given": lambda m: m.of.kernel_work.get("table_frame", 0),
    "bytes of page tables, most": lambda m: m.of.table_bytes,
}
ALL = {**COUNTERS, **KERNEL}
# Counters that sharing changes, in the table of levels.
LEVELS = (
    "execution cycles",
    "instruction walk cycles",
    "cycles of an instruction walk",
    "kernel cycles",
    "page-table frames taken and given",
    "bytes of page tables, most",
)


@dataclass(frozen=True)
class WalkRow:
    """Figure 9: cycles of an instruction page walk, padded and promoted, with shared tables and without. Beside it,
    FreeBSD as it is."""

    subject: Subject
    cores: int
    stock: Measured
    alone: Measured
    shared: Measured

    @property
    def change(self) -> float:
        """How much longer a walk is with shared tables."""
        return middle(self.changes, -saved(self.shared.cycles_per_walk, self.alone.cycles_per_walk))

    @property
    def changes(self) -> list[float]:
        """The same for each recording alone, if there are several."""
        each = zip(self.shared.runs, self.alone.runs, strict=True)
        return [-saved(shared.cycles_per_walk, alone.cycles_per_walk) for shared, alone in each]

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "program": self.subject.name,
            "clients": self.subject.clients,
            "cores": self.cores,
            "cycles_per_walk": {"alone": self.alone.cycles_per_walk, "shared": self.shared.cycles_per_walk},
            "changes": self.changes,
            "overhead": {
                "stock": self.stock.overhead,
                "alone": self.alone.overhead,
                "shared": self.shared.overhead,
            },
        }


@dataclass(frozen=True)
class ParallelRow:
    """FreeBSD as it is, by the hardware threads that run the server (section IV)."""

    subject: Subject
    of: Mapping[str, Measured]

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "program": self.subject.name,
            "clients": self.subject.clients,
            "overhead": {name: found.overhead for name, found in self.of.items()},
            "itlb_misses": {name: found.misses for name, found in self.of.items()},
        }


@dataclass(frozen=True)
class Layout:
    """Where PostgreSQL's code and data lie."""

    code_end: int
    data: tuple[int, int]
    superpages: int
    resident: int


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    rows: list[Row]
    walks: list[WalkRow]
    parallel: list[ParallelRow]
    layouts: dict[str, Layout]
    left_out: dict[str, str] = field(default_factory=dict)
    complete: bool = True

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "experiment": "instruction-servers",
            "complete": self.complete,
            "layouts": {name: vars(layout) for name, layout in self.layouts.items()},
            "programs": [row.data() for row in self.rows],
            "walks": [row.data() for row in self.walks],
            "parallel": [row.data() for row in self.parallel],
            **missing(self.left_out),
        }

    def tables(self) -> dict[str, str]:
        """As Markdown, by their names on a page."""
        return {
            "layout": self._layout(),
            "user": self._user(),
            "kernel": self._kernel(),
            "levels": self._levels(),
            "walk": self._walks(),
            "share": self._shares(),
            **({"parallel": self._parallel()} if self.parallel else {}),
        }

    def _layout(self) -> str:
        """Table V."""
        lines = [
            [
                name,
                f"{CODE:#x}",
                f"{layout.code_end:#x}",
                f"{layout.data[0]:#x}",
                f"{layout.data[1]:#x}",
                str(layout.superpages),
                show_bytes(layout.resident),
            ]
            for name, layout in self.layouts.items()
        ]
        return grid(("", "code", "end", "data", "end", "superpages", "memory"), lines)

    def _user(self) -> str:
        """Figure 8, and what the text says of it."""
        paper = {
            "execution cycles": [
                "–",
                f"to {published.PADDING:.0%} less",
                f"to {published.SHARING:.1%} less",
                f"{1 - published.ALL_THREE:.0%}",
            ]
        }
        lines = []
        for row in self.rows:
            for what in COUNTERS:
                if not COUNTERS[what](row.of[STOCK]):
                    continue
                ours = [row.shown(setting, what) for setting in FIGURE_8]
                theirs = paper.get(what) if row.subject.stated else None
                cells = ours if theirs is None else [f"{o} ({t})" for o, t in zip(ours, theirs, strict=True)]
                lines.append([row.subject.name, what, *cells])
        titles = (f"{setting.name}" for setting in FIGURE_8)
        return grid(("program", "stock = 100 % (paper)", *titles), lines, text=2)

    def _kernel(self) -> str:
        """Figure 10."""
        lines = []
        for row in self.rows:
            for what, count in KERNEL.items():
                before = float(count(row.of[STOCK]))
                found = {setting: float(count(row.of[setting])) for setting in FIGURE_8}
                if not before and not any(found.values()):
                    continue
                # What FreeBSD as it is does not do has no share of it.
                ours = [
                    row.shown(setting, what) if before else f"{after / 1e3:,.0f} k" for setting, after in found.items()
                ]
                if what == "kernel cycles" and row.subject.stated:
                    # The paper says it of sharing, in the reconnect mode.
                    ours[FIGURE_8.index(SHARING)] += f" ({1 - published.KERNEL_CYCLES:.1%})"
                lines.append([row.subject.name, what, *ours])
        return grid(("program", "stock = 100 % (paper)", *(s.name for s in FIGURE_8)), lines, text=2)

    def _levels(self) -> str:
        """Sharing of the lowest tables, as the paper built it, and of all levels."""
        sharing = (PADDED, BOTH, ALL_LEVELS)
        lines = [
            [row.subject.name, what, *(f"{row.left(setting, what):.1%}" for setting in sharing)]
            for row in self.rows
            for what in LEVELS
        ]
        titles = (PADDED.name, f"{BOTH.name} of the lowest", ALL_LEVELS.name)
        return grid(("program", "stock = 100 %", *titles), lines, text=2)

    def _walks(self) -> str:
        """Figure 9."""
        lines = [
            [
                row.subject.name,
                str(row.cores),
                f"{row.alone.cycles_per_walk:.1f}",
                f"{row.shared.cycles_per_walk:.1f}",
                f"{row.change:+.1%}{spread(row.changes, '+.1%')}",
                f"{row.alone.overhead:.2%}",
            ]
            for row in self.walks
        ]
        titles = ("cores", "cycles of a walk", "shared tables", "change", "ITLB stall / cycles")
        return grid(("program", *titles), lines)

    def _shares(self) -> str:
        """The share of time that fetches wait, by clients and cores (section IV)."""
        counts = sorted({row.cores for row in self.walks})
        lines = []
        for subject in dict.fromkeys(row.subject for row in self.walks):
            found = {row.cores: row.stock for row in self.walks if row.subject == subject}
            shares = [_overhead(found[count]) if count in found else "–" for count in counts]
            lines.append([subject.name, _clients(subject), *shares])
        titles = ("program", "clients", *(f"{n} core{'s' * (n > 1)}" for n in counts))
        return grid(titles, lines)

    def _parallel(self) -> str:
        """The same by hardware threads."""
        lines = [[row.subject.name, _clients(row.subject), *map(_overhead, row.of.values())] for row in self.parallel]
        return grid(("program", "clients", *PARALLEL), lines)


def _clients(subject: Subject) -> str:
    """How many clients a server had, if its recording is one of several that differ in that."""
    return "–" if subject.clients is None else str(subject.clients)


def _overhead(found: Measured) -> str:
    """The share of time that fetches wait."""
    runs = [run.overhead for run in found.runs]
    return f"{middle(runs, found.overhead):.1%}{spread(runs, '.1%')}"


def programs(plan: Plan) -> tuple[Program, ...]:
    """Both modes, with each number of clients."""
    chosen = plan.programs or (RECONNECTING, PERSISTENT)
    if plan.clients == CLIENTS:
        return chosen
    return tuple(program.with_clients(count) for program in chosen for count in plan.clients)


def layouts() -> dict[str, Layout]:
    """Table V: PostgreSQL's program file as the paper has it, all of whose code and data is used."""
    file = f"file:/bin/postgres+{CODE_END - CODE:#x}"
    lines = [
        f"mmap {CODE:#x} {CODE_END - CODE:#x} rx file:/bin/postgres+0",
        f"mmap {DATA:#x} {DATA_END - DATA:#x} rw {file}",
    ]
    lines += [f"f {at:#x}" for at in range(CODE, CODE_END, PAGE)] + [f"r {at:#x}" for at in range(DATA, DATA_END, PAGE)]
    with tempfile.TemporaryDirectory() as place:
        trace = Path(place) / "postgres.mmtx"
        trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
        jobs = {
            "default": engine.Job(SKYLAKE, "freebsd-code-1"),
            "with padding": engine.Job(SKYLAKE, "freebsd-code-padded"),
        }
        results = engine.run(str(trace), list(jobs.values()), engine.Options(code_residency=True)).whole()
    found = {}
    for name, result in zip(jobs, results, strict=True):
        result.check()
        mapped = {size: each["now"] for size, each in result.counts["memory"]["mapped"].items()}
        code, data = (next(r for r in result.regions if r["prot"] == rights) for rights in ("r-x", "rw-"))
        held = sum(row["now"] for row in code["mapped"].values())
        found[name] = Layout(
            CODE + held,
            (data["start"], data["end"]),
            mapped["2M"] // SUPERPAGE,
            result.counts["memory"]["resident_bytes"],
        )
    return found


def run(plan: Plan, store: Store, session: Session) -> Outcome:
    """Every server under every kernel, on two cores; then with shared tables and without, on others. In the quick model
    also on hyperthreads, which a core in time does not have."""
    rows: list[Row] = []
    walks: list[WalkRow] = []
    parallel: list[ParallelRow] = []
    found, left_out = subjects(plan, programs(plan), session)
    table = layouts()
    try:
        for subject in found:
            of = measure(cores(plan, CORES), subject, [(REAL, setting) for setting in SETTINGS], store)
            rows.append(Row(subject, {setting: measured for (_, setting), measured in of.items()}))
            for count in plan.cores:
                three = [(REAL, STOCK), (REAL, PADDED), (REAL, BOTH)]
                walks.append(WalkRow(subject, count, *measure(cores(plan, count), subject, three, store).values()))
            if not plan.timing:
                by_threads: dict[str, Measured] = {}
                for name, (count, threads) in PARALLEL.items():
                    [one] = measure(cores(plan, count, threads), subject, [(REAL, STOCK)], store).values()
                    by_threads[name] = one
                parallel.append(ParallelRow(subject, by_threads))
    except Stopped:
        return Outcome(rows, walks, parallel, table, left_out, complete=False)
    return Outcome(rows, walks, parallel, table, left_out)
