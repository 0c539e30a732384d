"""Runs cases, one after the other: timed, modelled, kept."""

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from mmulab import Failure, engine, probe, stopwatch
from mmulab.forecast import modelled, timed
from mmulab.forecast.case import Case
from mmulab.forecast.modelled import Model
from mmulab.probe import frames, system
from mmulab.result import json_text, read_kept, write_text

Json = dict[str, Any]
SCHEMA = 1
# Pairs after which a run is looked at for its frames again, beside looks before and after all pairs. Each run gets
# other frames. In a guest that has just started these follow each other, and after some runs of a program none do.
FRAMES_EACH = 8
# Told before each case: the share that is done.
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Plan:
    """What is run, and how thoroughly."""

    cases: tuple[Case, ...]
    model: Model
    limits: stopwatch.Limits
    # What `mmulab probe` found: then neighbours are measured anew before and after each program is timed.
    probe: Json | None
    # Where recordings and finished cases are kept: a case that is there is not timed again.
    work: Path
    # Whether the system's settings may be changed for a setting of the stopwatch.
    system: bool = False


def run(plan: Plan, on_progress: Progress) -> Json:
    """Every case, with what this computer is. Interrupted, it returns what is done (`complete` is false then)."""
    plan.work.mkdir(parents=True, exist_ok=True)
    done: list[Json] = []
    complete = True
    try:
        for at, case in enumerate(plan.cases):
            on_progress(at / len(plan.cases))
            done.append(_row(plan, case))
    except KeyboardInterrupt:
        complete = False
    machine = engine.resolve(engine.Job(plan.model.machine, "linux-4k", plan.model.sets))["machine"]
    return {
        "schema": SCHEMA,
        "version": engine.version(),
        "when": time.strftime("%Y-%m-%d"),
        "processor": system.processor(),
        "machine": machine,
        "complete": complete,
        "cases": done,
    }


def _row(plan: Plan, case: Case) -> Json:
    """The case, or why it was left out (`left_out`): one that fails does not end the others."""
    about: Json = {"name": case.name, "bound": case.bound, "command": list(case.command)}
    if (why := case.why_not()) is not None:
        return {**about, "left_out": why}
    try:
        return {**about, **_case(plan, case)}
    except Failure as failed:
        return {**about, "left_out": str(failed).removeprefix(f"{case.name}: ").splitlines()[0]}


def _case(plan: Plan, case: Case) -> Json:
    """Time and model of a case. The stopwatch's figures are kept in `work`; the model is asked again each time."""
    timed.prepare(case, plan.work)
    names = timed.settings(case, plan.system)
    kept = plan.work / f"{case.file_name}.json"
    seconds = read_kept(kept) or {"runs": {}}
    if not set(names) <= set(seconds["runs"]):
        looks = [timed.frames(case, plan.work)]
        before = _neighbours(plan)
        seen: list[list[Json]] = []

        def look() -> None:
            if plan.probe is not None:
                seen.append(probe.glance(probe.Effort()))
                if len(seen) % FRAMES_EACH == 0:
                    looks.append(timed.frames(case, plan.work))

        runs = timed.run(case, plan.work, names, replace(plan.limits, time=case.time_key), plan.system, look)
        looks.append(timed.frames(case, plan.work))
        curves = reduce(probe.joined, [_neighbours(plan), *seen], before)
        got = [one for one in looks if one is not None]
        mean = asdict(frames.mean(got)) if got else None
        seconds = {"runs": runs, "load": os.getloadavg()[0], "curves": curves, "frames": mean}
        write_text(kept, json_text(seconds))
    model = plan.model
    if plan.probe is not None:
        model = replace(model, machine=str(_machine(plan, plan.probe, case, seconds)))
    return {
        "load": seconds["load"],
        "timed": seconds["runs"],
        "told": modelled.run(case, plan.work, model, tuple(seconds["runs"])),
        "neighbours": _left(model) if plan.probe is not None else None,
    }


def _neighbours(plan: Plan) -> list[Json]:
    """What neighbours leave of the computer now: curves."""
    return [] if plan.probe is None else probe.again(plan.probe["curves"], probe.Effort())


def _machine(plan: Plan, found: Json, case: Case, seconds: Json) -> Path:
    """The machine as it was while the case was timed: what neighbours left, and the frames that the program got."""
    anew = {curve["name"]: curve for curve in seconds["curves"]}
    all_curves = [anew.get(curve["name"], curve) for curve in found["curves"]]
    path = plan.work / f"{case.file_name}.toml"
    here = {**found["system"], "frames": seconds.get("frames") or found["system"].get("frames")}
    write_text(path, probe.described({**found, "system": here, "curves": all_curves, **probe.figures(all_curves)}).toml)
    return path


def _left(model: Model) -> Json:
    """What neighbours left: clock, window, units, and how long the third level keeps a line."""
    machine = engine.resolve(engine.Job(model.machine, "linux-4k", model.sets))["machine"]
    timing = machine["core"]["timing"]
    return {
        "frequency_mhz": machine["core"]["frequency_mhz"],
        "window": timing["window"],
        "int_units": timing["units"]["int"],
        "retention_cycles": machine["cache"][-1].get("retention_cycles"),
    }
