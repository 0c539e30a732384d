"""The stopwatch's side of a case: runs under each page setting in alternation."""

import statistics
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mmulab import Failure, stopwatch
from mmulab.forecast.cases import SETTINGS, Case
from mmulab.probe.frames import Seen
from mmulab.stopwatch.process import Program, watched

Json = dict[str, Any]


def prepare(case: Case, directory: Path) -> None:
    """Makes the files that the program reads."""
    if case.prepare:
        command = case.prepare.replace("{dir}", str(directory))
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"{case.name}: its files cannot be made: {done.stderr.strip()[-200:]}")


def frames(case: Case, directory: Path) -> Json | None:
    """The frames that the kernel gives the program's memory on base pages, seen in a run that does not count.

    None where they cannot be seen: without root, or of a program that is over too soon.
    """
    seen = Seen()
    (setting,) = (s for s in stopwatch.SETTINGS if s.name == "4k")
    with tempfile.TemporaryDirectory(prefix="mmulab-try-") as reports:
        watched(Program(case.argv(directory), time=case.time_in), setting, Path(reports), seen.look)
    return asdict(seen.most) if seen.most is not None else None


def run(case: Case, directory: Path, limits: stopwatch.Limits) -> Json:
    """By setting: `seconds` (the median), `spread` (the middle half, as a share) and what it `saves` beside 4k.

    Of a kernel the time counts that it prints, of other programs their time in user mode: page faults and the start of
    a process are no part of the model's cycles.
    """
    found = stopwatch.measure(
        Program(case.argv(directory), time=case.time_in),
        stopwatch.find(tuple(SETTINGS), system=False),
        limits,
    )
    if found["ended"] == "interrupted":
        raise KeyboardInterrupt
    if found["ended"] != "complete":
        raise Failure(f"{case.name}: {found['ended']}")
    key = "wall_s" if case.kernel else "user_s"
    saved = {c["setting"]: c[key] for c in found["comparisons"]}
    out: Json = {}
    for one in found["settings"]:
        times = [run[key] for run in one["runs"]]
        middle = statistics.median(times)
        low, _, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else [middle] * 3
        out[one["name"]] = {
            "seconds": middle,
            "spread": (high - low) / middle if middle else 0.0,
            "pairs": len(times),
            "saves": saved.get(one["name"]),
        }
    return out
