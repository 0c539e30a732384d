"""Programs timed under mosaics, and how far a model that is fitted to some of them is off for the others.

The model is `mmulab.mosmodel`'s; the programs are those of the page of forecasts, but for servers, which have no
mosaics. What a program took, its recording and its counts are kept in a directory, so that a run that was stopped goes
on.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmulab import Failure, engine, mosmodel, stopwatch
from mmulab.forecast import timed
from mmulab.forecast.case import Case
from mmulab.forecast.cases import CASES
from mmulab.forecast.recorded import counted
from mmulab.markdown import grid
from mmulab.mosmodel import Counted, Fitted, Recorded, Times
from mmulab.probe import system
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.kinds import Among, Whole
from mmulab.result import json_text, read_kept, write_text
from mmulab.stopwatch.mosaics import Pool
from mmulab.stopwatch.pairs import FEWEST as FEWEST_PAIRS
from mmulab.stopwatch.process import Program
from mmulab.study.here import machine_of

Json = dict[str, Any]
# The model's error that is aimed at, as a share of the time.
WANTED = 0.05
Progress = Callable[[float], None]
# Programs that end by themselves, by their names.
PROGRAMS = {case.name: case for case in CASES if not case.client}


@dataclass(frozen=True)
class Plan:
    """Time programs on this computer under mosaics of 2 MB and 4 KB pages, and fit a model to each program (Mosmodel).
    The table shows how far the model is off for mosaics that it was not fitted to.

    Stop other programs meanwhile. Recordings take some GB of disk. DIR gets mosaics.json and .md.

    Example: mmulab reproduce mosaics --cases 'gups 512M,B-tree'
    """

    machine: str | None = declare.this_machine("A description of this computer. Default: what `mmulab probe` wrote.")
    sets: tuple[str, ...] = declare.sets()
    cases: tuple[Case, ...] = declare.option(
        tuple(PROGRAMS.values()),
        Among(PROGRAMS),
        "Only these programs of `mmulab reproduce forecast`. Default: all but servers.",
    )
    mosaics: int = declare.option(12, Whole(mosmodel.FEWEST, 1000), "Of each program.", shown=True)
    pairs: int = declare.option(10, Whole(FEWEST_PAIRS, 1000), "Runs of each mosaic.", shown=True)
    seconds: int = declare.option(
        600, Whole(1, 100_000), "Seconds that timing a program may take, once each mosaic has 6 runs.", shown=True
    )
    # Hits and walks of the rest of a program are taken to go on in proportion.
    instructions: int = declare.at_most(200_000_000, "Simulate this many instructions of a program at most.")
    work: Path = declare.work("build/mosaics")

    @property
    def described(self) -> str:
        """The machine whose TLBs are simulated."""
        return machine_of(self.machine)


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
    # Why programs were left out, by their names.
    left_out: Mapping[str, str] = field(default_factory=dict)

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
        lines += [[name, f"left out: {why}", *[""] * 5] for name, why in self.left_out.items()]
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
            "left_out": dict(self.left_out),
        }


def run(plan: Plan, on_progress: Progress) -> Outcome:
    """Each program: timed under the mosaics, recorded, simulated under the same, and fitted."""
    engine.resolve(engine.Job(plan.described, "linux-thp", plan.sets))
    plan.work.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    left_out: dict[str, str] = {}
    try:
        for at, case in enumerate(plan.cases):
            on_progress(at / len(plan.cases))
            why = case.why_not()
            try:
                if why is None:
                    rows.append(_row(plan, case))
            except Failure as failed:
                # One that fails does not end the others.
                why = str(failed).removeprefix(f"{case.name}: ").splitlines()[0]
            if why is not None:
                left_out[case.name] = why
    except KeyboardInterrupt:
        return Outcome(rows, plan, complete=False, left_out=left_out)
    return Outcome(rows, plan, left_out=left_out)


def _row(plan: Plan, case: Case) -> Row:
    timed.prepare(case, plan.work)
    program = case.program(plan.work)
    pool, settings = _timed(plan, case, program)
    times = mosmodel.times(settings, case.time_key)
    counts = _counted(plan, case, program, pool, [setting["huge_parts"] for setting in settings])
    return Row(case.name, times, mosmodel.fit([one.features for one in counts], times.seconds))


def _timed(plan: Plan, case: Case, program: Program) -> tuple[Pool, list[Json]]:
    """The stopwatch's settings, each with its runs: those that are kept, or new ones."""
    kept = plan.work / f"{case.file_name}.mosaics.json"
    found = read_kept(kept)
    if found and len(found["settings"]) == plan.mosaics:
        return Pool(**found["pool"]), found["settings"]
    pool = stopwatch.mosaics.pool(program)
    limits = stopwatch.Limits(plan.pairs, seconds=plan.seconds)
    found = stopwatch.measure(program, stopwatch.mosaics.settings(pool, plan.mosaics), limits)
    if found["ended"] == "interrupted":
        raise KeyboardInterrupt
    if found["ended"] != "complete":
        raise Failure(f"{case.name}: {found['ended']}")
    write_text(kept, json_text({"pool": vars(pool), "settings": found["settings"]}))
    return pool, found["settings"]


def _counted(plan: Plan, case: Case, program: Program, pool: Pool, layouts: Sequence[Any]) -> list[Counted]:
    """Counts under each layout: those that are kept of the same runs, or new ones."""
    kept = plan.work / f"{case.file_name}.counts.json"
    machine = engine.Job(plan.described, "linux-thp", plan.sets)
    of = {
        "version": engine.version(),
        "machine": engine.resolve(machine)["machine"],
        "instructions": plan.instructions,
        "layouts": layouts,
    }
    # As a file has it: tuples are lists there.
    of = json.loads(json_text(of))
    found = read_kept(kept)
    if found and found["of"] == of:
        return [Counted(**one) for one in found["counts"]]
    recorded, options = _recorded(plan, case, program, pool)
    counts = mosmodel.counted(recorded, layouts, machine, options)
    write_text(kept, json_text({"of": of, "counts": [vars(one) for one in counts]}))
    return counts


def _recorded(plan: Plan, case: Case, program: Program, pool: Pool) -> tuple[Recorded, engine.Options]:
    target, about = (plan.work / f"{case.file_name}.pool{end}" for end in (".mmt", ".json"))
    if about.exists():
        recorded = Recorded.read(about)
    else:
        recorded = mosmodel.record(program, pool, target, gate=engine.gate() if case.kernel else None)
        recorded.write(about)
    return recorded, counted(case, target, engine.Options(max_instructions=plan.instructions))
