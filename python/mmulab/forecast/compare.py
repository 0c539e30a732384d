"""Runs cases, one after the other: timed, modelled, kept."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import engine, stopwatch
from mmulab.forecast import timed, told
from mmulab.forecast.cases import Case
from mmulab.forecast.told import Model
from mmulab.probe import system
from mmulab.result import json_text, write_text

Json = dict[str, Any]
SCHEMA = 1
# Told before each case: the share that is done.
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Settled:
    """What is run, and how thoroughly."""

    cases: tuple[Case, ...]
    model: Model
    limits: stopwatch.Limits
    # Where recordings and finished cases are kept: a case that is there is not timed again.
    work: Path


def run(plan: Settled, hear: Progress) -> Json:
    """Every case, with what this computer is. Interrupted, it returns what is done (`complete` is false then)."""
    plan.work.mkdir(parents=True, exist_ok=True)
    done: list[Json] = []
    complete = True
    try:
        for at, case in enumerate(plan.cases):
            hear(at / len(plan.cases))
            done.append(_case(plan, case))
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


def _case(plan: Settled, case: Case) -> Json:
    """Time and model of a case. The stopwatch's figures are kept in `work`; the model is asked again each time."""
    timed.prepare(case, plan.work)
    kept = plan.work / f"{case.file_name}.json"
    if kept.exists():
        seconds = json.loads(kept.read_text(encoding="utf-8"))
    else:
        seconds = {"runs": timed.run(case, plan.work, plan.limits), "load": os.getloadavg()[0]}
        write_text(kept, json_text(seconds))
    return {
        "name": case.name,
        "bound": case.bound,
        "command": list(case.command),
        "load": seconds["load"],
        "timed": seconds["runs"],
        "told": told.run(case, plan.work, plan.model),
    }
