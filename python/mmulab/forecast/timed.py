"""The stopwatch's side of a case: runs under each page setting in alternation."""

import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmulab import Failure, stopwatch
from mmulab.forecast.case import BASE, Case
from mmulab.probe.frames import Frames, Seen
from mmulab.stopwatch.process import watched

Json = dict[str, Any]
KNOWN = {setting.name: setting for setting in stopwatch.SETTINGS}


def prepare(case: Case, directory: Path) -> None:
    """Makes the files that the program reads."""
    if case.prepare:
        command = case.prepare.replace("{dir}", str(directory))
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"{case.name}: its files cannot be made: {done.stderr.strip()[-200:]}")


def settings(case: Case, system: bool) -> tuple[str, ...]:
    """The case's settings that can be had here. `system`: also those for which the system's settings are changed."""
    return tuple(
        name
        for name in case.settings
        if name not in case.more or KNOWN[name].missing() is None or (system and _can_be_set(name))
    )


def _can_be_set(name: str) -> bool:
    paths = KNOWN[name].sysfs()
    return bool(paths) and all(path.exists() for path in paths)


def frames(case: Case, directory: Path) -> Frames | None:
    """The frames that the kernel gives the program's memory on base pages, seen in a run that does not count.

    None where they cannot be seen: without root, or of a program that is over too soon.
    """
    seen = Seen()
    with tempfile.TemporaryDirectory(prefix="mmulab-try-") as reports:
        watched(case.program(directory), KNOWN[BASE], Path(reports), seen.look)
    return seen.most


def run(
    case: Case,
    directory: Path,
    names: tuple[str, ...],
    limits: stopwatch.Limits,
    system: bool,
    between: Callable[[], None] = lambda: None,
) -> Json:
    """By setting: `seconds` (the median), `spread` (the middle half, as a share), and what it `saves` beside `BASE`.
    `stopped` is the limit that ended the alternation. Which time counts: `Case.time_key`. `between` is called after
    each pair.
    """
    program = case.program(directory)
    found = stopwatch.measure(
        program, stopwatch.find(names, system), limits, system, progress=lambda _done, _state: between()
    )
    if found["ended"] == "interrupted":
        raise KeyboardInterrupt
    if found["ended"] != "complete":
        raise Failure(f"{case.name}: {found['ended']}")
    saved = {c["setting"]: c[case.time_key] for c in found["comparisons"]}
    out: Json = {}
    for one in found["settings"]:
        times = [run[case.time_key] for run in one["runs"]]
        middle = statistics.median(times)
        low, _, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else [middle] * 3
        out[one["name"]] = {
            "seconds": middle,
            "spread": (high - low) / middle if middle else 0.0,
            "pairs": len(times),
            "stopped": found["stopped"],
            "saves": saved.get(one["name"]),
        }
    return out
