"""The table of paper 1's evaluation, for any trace: 23 counters under 13 configurations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mmulab import UserError, aged, engine
from mmulab.reproduce.pte_coalescing import counters, published
from mmulab.reproduce.pte_coalescing.columns import BASELINE, COLUMNS, GROUPS, Column
from mmulab.reproduce.pte_coalescing.counters import CYCLES, ROWS, Values
from mmulab.reproduce.pte_coalescing.directions import Difference, differences
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.kinds import Choice, Heap, Trace
from mmulab.result import Result

# Changes that make a recorded program one built for FreeBSD. It is linked by LLD with the maxpagesize paper 1 chose
# (section 4.1), and its heap is that of FreeBSD's malloc.
FREEBSD_IMAGE = {"linker": "lld", "max_page_size": "2M"}
FREEBSD_HEAP = {"kind": "jemalloc"}


# What memory is like, by `memory.aged`.
EMPTY = "empty, in an order no boot leaves it in"
AGED = {
    "off": f"{EMPTY}, when the program starts",
    "booted": f"under Linux with the free lists of guests that had booted; under FreeBSD {EMPTY}",
    "used": f"under Linux with the free lists of guests that had been used; under FreeBSD {EMPTY}",
}


@dataclass(frozen=True)
class Plan:
    """The evaluation tables of paper 1 for a trace. They have 23 counters of the DTLB, the ITLB and cycles, under Linux
    and FreeBSD, with and without reservations and superpages, on a 5900X and a 2700X.

    Memory is as a used Linux leaves it unless --set memory.aged=off or memory.fragment... says otherwise. DIR gets
    table.txt, table.csv, table.json, table.html and results/*.json.

    Example: mmulab reproduce pte-coalescing-table --trace clang.mmt --beside clang
    """

    # For the Linux binary's columns.
    trace: str = declare.trace("A trace of any format, or gen:NAME?key=value.", required=True)
    freebsd_trace: str | None = declare.option(
        None,
        Trace(),
        "The trace for the columns of FreeBSD binaries, such as one with FreeBSD's malloc. Default: the same.",
    )
    freebsd_heap: dict[str, Any] = declare.option(
        lambda: dict(FREEBSD_HEAP),
        Heap(),
        "The allocator of FreeBSD binaries, where the trace contains the heap's objects (`record --heap`).",
        shown=True,
    )
    # A workload of `published`.
    beside: str | None = declare.option(
        None,
        Choice(sorted(published.WORKLOADS)),
        "Print the paper's figures of this workload beside, and where the directions differ.",
    )
    sets: tuple[str, ...] = declare.sets()
    options: engine.Options = declare.engine_options()

    @property
    def as_run(self) -> tuple[str, ...]:
        """What is set on all machines: memory as used, and then what was asked for."""
        return aged.unless_said(self.sets)


@dataclass(frozen=True)
class Binary:
    """A trace as one of the two binaries: where it comes from, how it is changed, and what is to be said of it."""

    trace: str
    options: engine.Options
    note: str


def _binaries(plan: Plan) -> tuple[Binary, Binary]:
    """The Linux binary and the FreeBSD binary: as much of the latter as the recording allows."""
    linux = Binary(plan.trace, plan.options, "LL and LF run the trace as it is")
    trace = plan.freebsd_trace or plan.trace
    which = "it" if plan.freebsd_trace is None else trace
    linked = "as if its files were linked by LLD with a maxpagesize of 2 MB"
    heap = ", ".join(str(v) if k == "kind" else f"{k} {v}" for k, v in plan.freebsd_heap.items())
    # What it lacks shows when it is opened, or at its first mapping.
    for shape, note in (
        ({"image": FREEBSD_IMAGE, "heap": plan.freebsd_heap}, f"{linked}, its heap kept by {heap}"),
        ({"image": FREEBSD_IMAGE}, f"{linked}; its heap is as recorded, for the trace does not tell its objects"),
    ):
        options = replace(plan.options, reshape=shape)
        if _is_possible(trace, COLUMNS[-1].job(plan.as_run), options):
            return linux, Binary(trace, options, f"F5 and F2 run {which} {note}")
    note = f"F5 and F2 run {which} as it is too: it holds no program headers to lay out another binary by"
    return linux, Binary(trace, plan.options, note)


def _is_possible(trace: str, job: engine.Job, options: engine.Options) -> bool:
    try:
        return engine.run(trace, [job], replace(options, skip=None, max_instructions=1)).results[0].complete
    except UserError:
        return False


def run(plan: Plan, progress: engine.ProgressCallback | None = None) -> "Table":
    """Runs all columns: each trace is decoded once, and columns that ask for the same of the same one are run once."""
    linux, freebsd = _binaries(plan)
    passes: list[tuple[Binary, bool | None]] = [(linux, False), (freebsd, True)]
    if freebsd.trace == linux.trace and freebsd.options == linux.options:
        passes = [(linux, None)]
    results: dict[str, Result] = {}
    for binary, is_freebsd in passes:
        columns = [c for c in COLUMNS if is_freebsd is None or c.is_freebsd_binary == is_freebsd]
        jobs = list(dict.fromkeys(column.job(plan.as_run) for column in columns))
        by_job = dict(zip(jobs, engine.run(binary.trace, jobs, binary.options, progress).results, strict=True))
        results |= {column.key: by_job[column.job(plan.as_run)] for column in columns}
    return Table(plan, {column.key: results[column.key] for column in COLUMNS}, f"{linux.note}. {freebsd.note}.")


class Table:
    """The table: `values` by column and row, cycles as shares of the baseline's."""

    def __init__(self, plan: Plan, results: dict[str, Result], binaries: str) -> None:
        """Checks every identity first: a table that contradicts itself is not shown."""
        for result in results.values():
            counters.check(result)
        self.plan = plan
        self.binaries = binaries
        self.results = results
        self.values: dict[str, Values] = {key: counters.values(result) for key, result in results.items()}
        base = self.values[BASELINE][CYCLES]
        for column in self.values.values():
            cycles = column[CYCLES]
            column[CYCLES] = cycles / base if cycles is not None and base else None

    @property
    def trace(self) -> dict[str, Any]:
        """What was run, for the Linux binary's columns."""
        return self.results[COLUMNS[0].key].trace

    @property
    def program(self) -> str:
        """The program with its arguments, or the trace's name."""
        words = [str(self.trace.get("program") or ""), *map(str, self.trace.get("args") or [])]
        return " ".join(words).strip() or str(self.trace["name"])

    @property
    def partial(self) -> list[Result]:
        """Runs that did not come to their end."""
        return [r for r in self.results.values() if not r.complete]

    @property
    def warnings(self) -> list[str]:
        """What the traces and the runs warn of, each once."""
        return list(dict.fromkeys(w for result in self.results.values() for w in result.warnings))

    @cached_property
    def notes(self) -> list[str]:
        """What a reader must know to compare this with the paper's tables."""
        first, base = self.results[COLUMNS[0].key], self.results[BASELINE]
        notes = [
            "Per 1000 instructions; cycles as shares of F5:super's, modelled, without kernel work, at a base CPI of "
            f"{base.data['machine']['core']['base_cpi']}. One run a column: runs repeat exactly.",
            self.binaries,
            _memory_note(first),
            "1 GB rows: both processors have the counters; nothing maps 1 GB pages under these policies.",
        ]
        if self.plan.sets:
            notes.append(f"Everywhere: {', '.join(f'--set {s}' for s in self.plan.sets)}.")
        return notes

    def differences(self, workload: str) -> tuple[list[Difference], int]:
        """Where it goes another way than the paper's table, of how many comparisons."""
        return differences(self.values, published.table(workload), self.results)

    def data(self, workload: str | None = None) -> dict[str, Any]:
        """All of it as JSON."""
        paper = published.table(workload) if workload else None

        def row(name: str) -> dict[str, Any]:
            found: dict[str, Any] = {"counter": name, "values": {k: v[name] for k, v in self.values.items()}}
            return found | ({"paper": {k: v[name] for k, v in paper.items()}} if paper else {})

        told: dict[str, Any] = {
            "experiment": "pte-coalescing-table",
            "version": engine.version(),
            "trace": self.trace,
            "freebsd_trace": self.results[BASELINE].trace,
            "columns": [vars(c) | {"key": c.key, "about": GROUPS[c.group]} for c in COLUMNS],
            "rows": [row(name) for name in ROWS],
            "events": {key: result.perf for key, result in self.results.items()},
            "notes": self.notes,
        }
        if workload:
            found, made = self.differences(workload)
            told["beside"] = {"workload": workload, "source": published.WORKLOADS[workload]}
            told["comparisons"] = made
            told["differences"] = [vars(d) | {"opposite": d.is_opposite} for d in found]
        return told


def _memory_note(result: Result) -> str:
    memory = result.data["machine"]["memory"]
    fragment: dict[str, Any] = memory["fragment"]
    kind = str(fragment["kind"])
    if kind == "none":
        state = AGED[str(memory["aged"])]
    else:
        told = ", ".join(
            f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in fragment.items() if k != "kind"
        )
        state = f"{kind} before the program starts: {told}"
    return f"Memory: {memory['size']}, {state} (--set memory.aged=... or memory.fragment.kind=... changes that)."


def shown(value: float | None) -> str:
    """A cell, as the paper prints it; a dash where the processor has no such counter."""
    return "–" if value is None else f"{value:.3f}"


def blocks() -> list[tuple[str, Sequence[Column]]]:
    """The columns by binary, system and processor."""
    return [(about, [c for c in COLUMNS if c.group == group]) for group, about in GROUPS.items()]
