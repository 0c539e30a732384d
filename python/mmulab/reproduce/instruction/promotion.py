"""Promotion of code under several thresholds: paper 2's Figures 1, 2, 3, 4 and 7, and its Tables II, III and IV.

2 MB of code have 32 clusters of 64 KB. If at least a threshold of them is in memory at a fault that reads, the kernel
reads the others. It then maps the whole by one entry. FreeBSD itself reads nothing only to promote.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mmulab.markdown import grid
from mmulab.reproduce.instruction import published
from mmulab.reproduce.instruction.measured import WHOLE, Measured, left, ratios, remaining, saved, spread
from mmulab.reproduce.instruction.programs import PROGRAMS
from mmulab.reproduce.instruction.setting import (
    ALL_CLUSTERS,
    PADDED,
    REAL,
    SMALL,
    STOCK,
    Setting,
    promoting,
)
from mmulab.reproduce.instruction.subjects import Shared, Subject, measure, missing, subjects
from mmulab.reproduce.shared.cells import Stopped, Store
from mmulab.reproduce.shared.experiment import Session
from mmulab.units import show_bytes, show_percent

# Figure 3, and those of the text: 28 clusters are 448 pages (section I), 16 leave few regions (section V).
THRESHOLDS = (28, 27, 18, 16, 1)
FIGURE_3 = (27, 18, 1)
FIGURE_4 = 18
# The points of Figure 1 that the table shows.
POINTS = (32, 28, 24, 20, 16, 12, 8, 4, 1)
PAGE = 4096
BY_CLUSTERS: Mapping[int, Setting] = {ALL_CLUSTERS: STOCK, **{n: promoting(n) for n in THRESHOLDS}}
# Padding beside the lowest threshold alone: the residual region is promoted, too.
FILLED = Setting("threshold 1 and padding", PADDED.policy, with_grown_code=True)
SETTINGS = (SMALL, *BY_CLUSTERS.values(), FILLED)


@dataclass(frozen=True)
class Plan(Shared):
    """Superpages for code from several thresholds on (paper 2, Figures 1 to 4 and 7, Tables II to IV), on Skylake. How
    much of each 2 MB of code is in memory, and the share of time that fetches wait for translations. Cycles, walks,
    memory and kernel work with thresholds of 28, 27, 18, 16 and 1 of 32 clusters.

    Programs are recorded by their recipes, once, and kept in the directory of --work.

    Example: mmulab reproduce instruction-promotion --trace tests/data/cc1-small.mmt --no-timing
    """


@dataclass(frozen=True)
class Row:
    """A program, under each kernel."""

    subject: Subject
    of: Mapping[Setting, Measured]

    @property
    def stock(self) -> Measured:
        """Under FreeBSD as it is."""
        return self.of[STOCK]

    def cycles_left(self, clusters: int) -> float:
        """Figure 3: cycles with a threshold over those under FreeBSD as it is."""
        return left(self.of[BY_CLUSTERS[clusters]].cycles, self.stock.cycles)

    def gain_share(self, clusters: int) -> float | None:
        """Of what a threshold of 1 saves, what this one does; None if that saves nothing."""
        most = 1 - self.cycles_left(1)
        return (1 - self.cycles_left(clusters)) / most if most > 0 else None

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "program": self.subject.name,
            "kernels": {setting.name: _figures(found) for setting, found in self.of.items()},
            "residual_pages": residual_pages(self.stock),
            "windows": self.stock.of.code,
        }


def _figures(found: Measured) -> dict[str, Any]:
    return {
        "instructions": found.of.instructions,
        "cycles": found.cycles,
        "kernel_cycles": found.kernel,
        "itlb_misses": found.misses,
        "itlb_stall": found.stall,
        "walk_cycles": {side: found.walk_cycles(side) for side in ("instruction", "data")},
        "walks": {side: found.walks(side) for side in ("instruction", "data")},
        "memory_stall": found.memory_stall,
        "superpages": found.superpages,
        "code_pages": found.code_pages,
        "table_bytes_peak": found.of.table_bytes,
        "events": {key: count for key, count in found.of.events.items() if count},
    }


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    rows: list[Row]
    left_out: dict[str, str] = field(default_factory=dict)
    complete: bool = True

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "experiment": "instruction-promotion",
            "complete": self.complete,
            "programs": [row.data() for row in self.rows],
            **missing(self.left_out),
        }

    def tables(self) -> dict[str, str]:
        """As Markdown, by their names on a page."""
        return {
            "programs": self._programs(),
            "counters": self._counters(),
            "residency": self._residency(),
            "overhead": self._overhead(),
            "cycles": self._cycles(),
            "walks": self._walks(),
            "memory": self._memory(),
            "padding": self._padding(),
        }

    def _programs(self) -> str:
        """Tables III and IV."""
        lines = []
        for row in self.rows:
            sizes = code_sizes(row.stock)
            main, *libraries = sizes or [0]
            small = sum(size < 1 << 20 for size in libraries)
            kernel = row.stock.kernel / max(1.0, row.stock.kernel + row.stock.cycles)
            stated = row.subject.stated
            theirs = (
                ["–"] * 3
                if stated is None
                else [
                    f"{stated.main_mb:.1f} MB",
                    f"{stated.libraries} ({stated.small_libraries})",
                    f"{stated.kernel:.1%}",
                ]
            )
            ours = [f"{main / 2**20:.1f} MB", f"{len(libraries)} ({small})", f"{kernel:.1%}"]
            lines.append([row.subject.name, *(cell for pair in zip(theirs, ours, strict=True) for cell in pair)])
        titles = [
            f"{what}, {whose}"
            for what in ("largest code", "other files of code (below 1 MB)", "kernel")
            for whose in ("paper", "here")
        ]
        return grid(("program", *titles), lines)

    def _counters(self) -> str:
        """Table II: each counter or equation of the paper under FreeBSD as it is."""
        rows: Mapping[str, Callable[[Measured], str]] = {
            "instructions": lambda m: f"{m.of.instructions / 1e6:.1f} M",
            "execution cycles": lambda m: f"{m.cycles / 1e6:.1f} M",
            "ITLB stall, cycles": lambda m: f"{m.stall / 1e6:.2f} M",
            "ITLB stall / cycles": lambda m: show_percent(m.overhead),
            "of ITLB stall, walks": lambda m: show_percent(m.walk_share),
            "instruction walk cycles": lambda m: f"{m.walk_cycles('instruction') / 1e3:.0f} k",
            "instruction walks": lambda m: f"{m.walks('instruction'):,}",
            "cycles of an instruction walk": lambda m: f"{m.cycles_per_walk:.1f}",
            "data walk cycles": lambda m: f"{m.walk_cycles('data') / 1e3:.0f} k",
            "data walks": lambda m: f"{m.walks('data'):,}",
            "stalls for memory, cycles": lambda m: f"{m.memory_stall / 1e6:.2f} M",
        }
        lines = [[name, *(show(row.stock) for row in self.rows)] for name, show in rows.items()]
        return grid(("", *(row.subject.name for row in self.rows)), lines)

    def _residency(self) -> str:
        """Figure 1."""
        lines = []
        for row in self.rows:
            small = row.of[SMALL]
            stated = row.subject.stated
            stock = "–" if stated is None else str(stated.stock)
            lines.append(
                [row.subject.name, str(len(small.code)), str(residual_pages(small))]
                + [stock, str(small.at_least(ALL_CLUSTERS))]
                + [str(small.at_least(clusters)) for clusters in POINTS[1:]]
            )
        titles = ("2 MB of code", "residual pages", "32 clusters, paper", "32", *(f"{n} or more" for n in POINTS[1:]))
        return grid(("program", *titles), lines)

    def _overhead(self) -> str:
        """Figures 2 and 7."""
        lines = []
        for row in self.rows:
            stated = row.subject.stated
            lines.append(
                [
                    row.subject.name,
                    show_percent(row.of[SMALL].overhead),
                    show_percent(row.stock.overhead),
                    (stated.overhead if stated else "") or "–",
                    show_percent(row.stock.walk_share),
                    f"{row.stock.misses * published.HIT_CYCLES / max(1.0, row.stock.stall):.0%}",
                ]
            )
        titles = ("4 KB code", "stock", "stock, paper", "of it, walks", "7 cycles a miss explain")
        return grid(("ITLB stall / cycles", *titles), lines)

    def _cycles(self) -> str:
        """Figure 3."""
        lines = []
        for row in self.rows:
            shares = [row.gain_share(clusters) for clusters in FIGURE_3[:2]]
            lines.append(
                [row.subject.name]
                + [f"{row.cycles_left(n):.4f}" for n in (28, *FIGURE_3)]
                + ["–" if share is None else f"{share:.0%}" for share in shares]
            )
        titles = ("28 (448 pages)", *map(str, FIGURE_3), "of 1's gain: 27", "of 1's gain: 18")
        return grid(("cycles, stock = 1", *titles), lines)

    def _walks(self) -> str:
        """Figure 4."""
        after = BY_CLUSTERS[FIGURE_4]
        lines = []
        for row in self.rows:
            sides = [
                f"{left(row.of[after].walk_cycles(side), row.stock.walk_cycles(side)):.1%}"
                for side in ("instruction", "data")
            ]
            stall = f"{left(row.of[after].stall, row.stock.stall):.1%}"
            lines.append([row.subject.name, *sides, stall])
        paper = [f"down to {published.WALKS_LEFT[side]:.0%}" for side in ("instruction", "data")]
        return grid(
            ("threshold 18, stock = 100 %", "instruction walk cycles", "data walk cycles", "ITLB stall"),
            [["paper 2", *paper, "–"], *lines],
        )

    def _memory(self) -> str:
        """What promotion takes and saves (section V)."""
        lines = []
        for row in self.rows:
            for clusters in FIGURE_3:
                found = row.of[BY_CLUSTERS[clusters]]
                more = found.code_pages - row.stock.code_pages
                lines.append(
                    [
                        row.subject.name,
                        str(clusters),
                        f"{found.superpages} of {len(found.code)}",
                        f"{more:,} ({more / max(1, row.stock.code_pages):.1%})",
                        show_bytes(row.stock.of.table_bytes - found.of.table_bytes),
                        f"{-saved(found.kernel, row.stock.kernel):+.1%}",
                    ]
                )
        titles = ("threshold", "superpages", "pages of code read beside stock's", "page tables saved", "kernel cycles")
        return grid(("program", *titles), lines, text=1)

    def _padding(self) -> str:
        """Padding beside the lowest threshold alone (section VI-C)."""
        lines = []
        for row in self.rows:
            alone, filled = row.of[BY_CLUSTERS[1]], row.of[FILLED]
            used = sum(int(window["pages"]) for window in last_windows(row.stock))
            lines.append(
                [
                    row.subject.name,
                    f"{residual_pages(row.stock):,}",
                    f"{used:,}",
                    str(filled.of.events.get("code_padded", 0)),
                    f"{filled.code_pages - alone.code_pages:+,}",
                    _beside(filled, alone, lambda m: m.stall, ".1%"),
                    _beside(filled, alone, lambda m: m.cycles, ".2%"),
                ]
            )
        titles = (
            "residual pages",
            "in memory",
            "regions padded",
            "pages of code read",
            "ITLB stall",
            "execution cycles",
        )
        return grid(("threshold 1 = 100 %", *titles), lines)


def _beside(after: Measured, before: Measured, count: Callable[[Measured], float], form: str) -> str:
    """What is left of a counter, with the least and the most of several recordings."""
    return f"{remaining(after, before, count):{form}}{spread(ratios(after, before, count), form)}"


def code_sizes(found: Measured) -> list[int]:
    """Bytes of code that each file maps, the largest first."""
    sizes: dict[str, int] = {}
    for row in found.of.code:
        sizes[row["file"]] = sizes.get(row["file"], 0) + int(row["mapped_pages"]) * PAGE
    return sorted(sizes.values(), reverse=True)


def residual_pages(found: Measured) -> int:
    """Pages of code behind the last whole 2 MB of the largest file (its residual region)."""
    return sum(int(window["mapped_pages"]) for window in last_windows(found))


def last_windows(found: Measured) -> list[dict[str, Any]]:
    """The residual region of the largest file: a list of one, or of none where all of its code is whole."""
    files: dict[str, list[dict[str, Any]]] = {}
    for row in found.of.code:
        files.setdefault(row["file"], []).append(row)
    largest = max(files.values(), key=lambda rows: sum(int(row["mapped_pages"]) for row in rows), default=[])
    last = max(largest, key=lambda row: int(row["offset"]), default=None)
    return [last] if last and int(last["mapped_pages"]) < WHOLE else []


def run(plan: Plan, store: Store, session: Session) -> Outcome:
    """Every program under every kernel."""
    rows: list[Row] = []
    found, left_out = subjects(plan, plan.programs or PROGRAMS, session)
    try:
        for subject in found:
            of = measure(plan, subject, [(REAL, setting) for setting in SETTINGS], store)
            rows.append(Row(subject, {setting: measured for (_, setting), measured in of.items()}))
    except Stopped:
        return Outcome(rows, left_out, complete=False)
    return Outcome(rows, left_out)
