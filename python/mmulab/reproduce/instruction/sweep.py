"""More and more superpages of code (paper 2, Figures 5 and 6).

Regions are promoted one by one, in the order of how much of them is in memory, which is the order of thresholds. On an
ITLB with entries of its own for superpages the stall of fetches has a minimum at few superpages. On an ITLB for all
sizes it has none.
"""

from dataclasses import dataclass, field
from typing import Any

from mmulab.markdown import grid
from mmulab.reproduce.instruction.measured import Measured, left
from mmulab.reproduce.instruction.programs import CLANG, MYSQL
from mmulab.reproduce.instruction.setting import REAL, SMALL, STOCK, VARIANTS, Setting, Variant, promoting
from mmulab.reproduce.instruction.subjects import Shared, Subject, measure, missing, subjects
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.cells import Stopped, Store
from mmulab.reproduce.shared.experiment import Session
from mmulab.reproduce.shared.kinds import Among

PROGRAMS = (CLANG, MYSQL)
# Of the stall without superpages: what a rise must be to be one.
CLEARLY = 0.01
BY_NAME = {variant.name: variant for variant in VARIANTS}


@dataclass(frozen=True)
class Plan(Shared):
    """More and more superpages of code (paper 2, Figures 5 and 6), for Clang and MySQL. There is a threshold for each
    number of clusters that some 2 MB of code has in memory. Runs are on Skylake, also with the second levels of Haswell
    and Ivy Bridge, and on a Zen+, whose ITLB has one array for all sizes.

    Example: mmulab reproduce instruction-sweep --trace tests/data/cc1-small.mmt --no-timing
    """

    machines: tuple[Variant, ...] = declare.option(VARIANTS, Among(BY_NAME), "Only these machines.")


@dataclass(frozen=True)
class Point:
    """A number of superpages."""

    # None: code stays on base pages.
    threshold: int | None
    of: Measured

    @property
    def superpages(self) -> int:
        """Superpages of code."""
        return 0 if self.threshold is None else self.of.superpages


@dataclass(frozen=True)
class Line:
    """A program on a machine, with more and more superpages."""

    subject: Subject
    variant: Variant
    points: list[Point]

    @property
    def best(self) -> Point:
        """Where the stall of fetches is least; of equals, with the fewest superpages."""
        return min(self.points, key=lambda point: point.of.stall)

    @property
    def is_interior(self) -> bool:
        """Whether the minimum lies between the ends. The stall is higher with fewer superpages and with all of them, by
        more than a hundredth of the stall without any."""
        first, last, least = self.points[0].of.stall, self.points[-1].of.stall, self.best.of.stall
        return min(first, last) - least > CLEARLY * first

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "program": self.subject.name,
            "machine": self.variant.name,
            "points": [
                {
                    "threshold": point.threshold,
                    "superpages": point.superpages,
                    "itlb_stall": point.of.stall,
                    "itlb_misses": point.of.misses,
                    "instruction_walk_cycles": point.of.walk_cycles("instruction"),
                    "data_walk_cycles": point.of.walk_cycles("data"),
                    "cycles": point.of.cycles,
                }
                for point in self.points
            ],
        }


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    lines: list[Line]
    left_out: dict[str, str] = field(default_factory=dict)
    complete: bool = True

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "experiment": "instruction-sweep",
            "complete": self.complete,
            "lines": [line.data() for line in self.lines],
            **missing(self.left_out),
        }

    def tables(self) -> dict[str, str]:
        """As Markdown, by their names on a page."""
        return {"sweep": self._sweep(), "minima": self._minima()}

    def _sweep(self) -> str:
        """Figures 5 and 6 on Skylake."""
        rows = []
        for line in self.lines:
            if line.variant != REAL:
                continue
            for point in line.points:
                ratio = point.of.stall / max(1.0, point.of.walk_cycles("instruction"))
                rows.append(
                    [
                        line.subject.name,
                        "none" if point.threshold is None else str(point.threshold),
                        str(point.superpages),
                        f"{point.of.stall / 1e3:,.0f}",
                        f"{point.of.walk_cycles('instruction') / 1e3:,.0f}",
                        f"{point.of.walk_cycles('data') / 1e3:,.0f}",
                        f"{point.of.cycles / 1e3:,.0f}",
                        f"{ratio:.1f}",
                    ]
                )
        titles = ("threshold", "superpages", "ITLB stall", "instruction walks", "data walks", "cycles", "stall / walks")
        return grid(("thousands of cycles", *titles), rows)

    def _minima(self) -> str:
        rows = []
        for line in self.lines:
            first, last, best = line.points[0], line.points[-1], line.best
            rows.append(
                [
                    line.subject.name,
                    line.variant.name,
                    f"{best.superpages} of {last.superpages}",
                    "yes" if line.is_interior else "no",
                    f"{left(best.of.stall, first.of.stall):.0%}",
                    f"{left(last.of.stall, first.of.stall):.0%}",
                    *(
                        f"{left(last.of.walk_cycles(side), first.of.walk_cycles(side)):.0%}"
                        for side in ("instruction", "data")
                    ),
                    f"{left(last.of.cycles, first.of.cycles):.2%}",
                ]
            )
        titles = (
            "least stall at superpages",
            "inside",
            "stall there",
            "stall with all",
            "instruction walks with all",
            "data walks with all",
            "cycles with all",
        )
        return grid(("program", "machine", *titles), rows, text=2)


def run(plan: Plan, store: Store, session: Session) -> Outcome:
    """Every program on every machine, at every step of Figure 1."""
    lines: list[Line] = []
    found, left_out = subjects(plan, plan.programs or PROGRAMS, session)
    try:
        for subject in found:
            first = measure(plan, subject, [(variant, SMALL) for variant in plan.machines], store)
            steps = sorted({n for measured in first.values() for n in measured.steps}, reverse=True)
            settings: dict[int | None, Setting] = {None: SMALL, 32: STOCK, **{n: promoting(n) for n in steps}}
            pairs = [(variant, setting) for variant in plan.machines for setting in settings.values()]
            of = measure(plan, subject, pairs, store)
            for variant in plan.machines:
                points = [Point(n, of[variant, setting]) for n, setting in settings.items()]
                lines.append(Line(subject, variant, points))
    except Stopped:
        return Outcome(lines, left_out, complete=False)
    return Outcome(lines, left_out)
