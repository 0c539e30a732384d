"""Programs timed under mosaics, and how far a model that is fitted to some of them is off for the others.

The model is `mmulab.mosmodel`'s; the programs are those of the page of forecasts. What a program took is kept in a
directory, so that a run that was stopped goes on.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmulab import Failure, engine, mosmodel, stopwatch
from mmulab.forecast import timed
from mmulab.forecast.cases import Case
from mmulab.forecast.told import from_gate
from mmulab.mosmodel import Fitted, Recorded, Times
from mmulab.probe import system
from mmulab.reproduce.cells import POPULATED
from mmulab.reproduce.grids import grid
from mmulab.result import json_text, write_text
from mmulab.stopwatch.mosaics import Pool
from mmulab.stopwatch.process import Program

Json = dict[str, Any]
# The model's error that is aimed at, as a share of the time.
WANTED = 0.05
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Plan:
    """What is run."""

    cases: tuple[Case, ...]
    machine: str
    sets: tuple[str, ...]
    mosaics: int
    pairs: int
    # Instructions of a program that are simulated at most: its hits and walks are taken to go on in proportion.
    instructions: int
    work: Path


@dataclass(frozen=True)
class Row:
    """A program."""

    name: str
    times: Times
    fitted: Fitted

    @property
    def spread(self) -> float:
        """How much longer the slowest mosaic takes than the fastest, as a share."""
        return max(self.times.seconds) / min(self.times.seconds) - 1

    def data(self) -> Json:
        """For a file."""
        return {"program": self.name, "seconds": self.times.seconds, "noise": self.times.noise, **self.fitted.data()}


@dataclass(frozen=True)
class Outcome:
    """All of them, or those that were done when it was stopped."""

    rows: Sequence[Row]
    plan: Plan
    complete: bool = True

    def tables(self) -> dict[str, str]:
        """As Markdown."""
        lines = [
            [
                row.name,
                f"{row.times.seconds[0]:.3g} s",
                f"{row.spread:.0%}",
                f"{row.times.worst_noise:.1%}",
                f"{row.fitted.worst:.1%}",
                f"{row.fitted.mean:.1%}",
                f"{row.fitted.worst_line:.1%}",
            ]
            for row in self.rows
        ]
        head = ("program", "4 KB pages", "slowest over fastest", "noise", "largest error", "mean error", "line")
        good = sum(row.fitted.worst <= WANTED for row in self.rows)
        within = sum(row.fitted.worst <= max(WANTED, row.times.worst_noise) for row in self.rows)
        cpu = system.processor()["name"]
        said = (
            f"On {cpu}, {self.plan.mosaics} mosaics, {self.plan.pairs} runs of each. The largest error is at most "
            f"{WANTED:.0%} for {good} of {len(self.rows)} programs, and at most that or the noise for {within}."
        )
        return {"mosaics": grid(head, lines) + f"\n\n{said}"}

    def data(self) -> Json:
        """As JSON."""
        return {
            "experiment": "mosaics",
            "version": engine.version(),
            "processor": system.processor(),
            "mosaics": self.plan.mosaics,
            "pairs": self.plan.pairs,
            "complete": self.complete,
            "rows": [row.data() for row in self.rows],
        }


def run(plan: Plan, hear: Progress) -> Outcome:
    """Each program: timed under the mosaics, recorded, simulated under the same, and fitted."""
    plan.work.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    try:
        for at, case in enumerate(plan.cases):
            hear(at / len(plan.cases))
            rows.append(_row(plan, case))
    except KeyboardInterrupt:
        return Outcome(rows, plan, complete=False)
    return Outcome(rows, plan)


def _row(plan: Plan, case: Case) -> Row:
    timed.prepare(case, plan.work)
    program = Program(case.argv(plan.work), time=case.time_in)
    pool, settings = _timed(plan, case, program)
    times = mosmodel.times(settings, "wall_s" if case.kernel else "user_s")
    recorded, options = _recorded(plan, case, program, pool)
    layouts = [setting["huge_parts"] for setting in settings]
    counts = mosmodel.counted(recorded, layouts, engine.Job(plan.machine, "", plan.sets), options)
    return Row(case.name, times, mosmodel.fit([one.features for one in counts], times.seconds))


def _timed(plan: Plan, case: Case, program: Program) -> tuple[Pool, list[Json]]:
    """The stopwatch's settings, each with its runs: those that are kept, or new ones."""
    kept = plan.work / f"{case.file_name}.mosaics.json"
    if kept.exists():
        found = json.loads(kept.read_text(encoding="utf-8"))
        return Pool(**found["pool"]), found["settings"]
    pool = stopwatch.mosaics.pool(program)
    found = stopwatch.measure(program, stopwatch.mosaics.settings(pool, plan.mosaics), stopwatch.Limits(plan.pairs))
    if found["ended"] == "interrupted":
        raise KeyboardInterrupt
    if found["ended"] != "complete":
        raise Failure(f"{case.name}: {found['ended']}")
    write_text(kept, json_text({"pool": vars(pool), "settings": found["settings"]}))
    return pool, found["settings"]


def _recorded(plan: Plan, case: Case, program: Program, pool: Pool) -> tuple[Recorded, engine.Options]:
    target, about = (plan.work / f"{case.file_name}.pool{end}" for end in (".mmt", ".json"))
    options = engine.Options(max_instructions=plan.instructions)
    if about.exists():
        recorded = Recorded.read(about)
    else:
        recorded = mosmodel.record(program, pool, target)
        recorded.write(about)
    if not case.kernel:
        return recorded, options
    # Its arrays were filled before its time begins: they are there when the cut begins.
    return replace(recorded, trace=str(from_gate(target))), replace(options, reshape=POPULATED)
