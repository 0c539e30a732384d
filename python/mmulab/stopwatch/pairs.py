"""Alternation: runs of all settings in turns, and what the others save beside the first, by paired differences."""

import math
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mmulab import Failure
from mmulab.stopwatch import mosaics, moved
from mmulab.stopwatch.counters import Counters
from mmulab.stopwatch.process import Program, Run, reported, run
from mmulab.stopwatch.settings import Setting, faulted_by_size
from mmulab.stopwatch.sysfs import Borrowed

Json = dict[str, Any]
# Fewest pairs of which something is said: six of six have one sign by chance in 3 % of cases, five of five in 6 %.
FEWEST = 6
# Fewest pairs after which a narrow interval ends the alternation. It was simulated, with log-normal noise of 1 to 8 %,
# with and without bursts of neighbours. Of the intervals of runs that may end after 6 pairs, 86 to 94 % hold the true
# saving; after 10 pairs, 91 to 94 %.
SETTLED = 10
RESAMPLES = 4000
# A run of less cannot be timed: starting a process alone takes a millisecond or more.
SHORT_S = 0.01
# Counters of /proc/vmstat that show the kernel at work on huge pages: khugepaged, or compaction for somebody.
VMSTAT = ("thp_collapse_alloc", "thp_collapse_alloc_failed", "thp_fault_alloc", "thp_fault_fallback", "thp_split_page")
TIMES = ("wall_s", "user_s", "kernel_s")


@dataclass(frozen=True)
class Limits:
    """When the alternation ends."""

    pairs: int = 20
    # Width of the 95 % interval of every saving, as a share; None runs all pairs.
    until: float | None = None
    # Seconds that the alternation may take, once there are `FEWEST` pairs; None: no limit.
    seconds: float | None = None
    # Which time's saving it is: one of `TIMES`.
    time: str = "wall_s"


def interval(values: list[float], seed: int = 1) -> tuple[float, float]:
    """95 % interval of the median by resampling (percentiles of the bootstrap)."""
    drawn = np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(np.median(np.asarray(values)[drawn], axis=1), [0.025, 0.975])
    return float(low), float(high)


def compare(base: list[Json], other: list[Json]) -> Json:
    """What `other` saves of each kind of time: the median over pairs of the share, with its interval."""
    found: Json = {}
    for key in TIMES:
        pairs = [(a[key], b[key]) for a, b in zip(base, other, strict=True)]
        # Of kernel time next to nothing no share can be said.
        shares = [(a - b) / a for a, b in pairs if a >= SHORT_S]
        if len(shares) < max(1, len(pairs) // 2):
            found[key] = None
            continue
        low, high = interval(shares)
        found[key] = {"saving": statistics.median(shares), "low": low, "high": high, "pairs": len(shares)}
    return found


def verdict(base: list[Json], comparison: Json) -> str:
    """One sentence about wall time, which claims no more than the interval shows."""
    wall = comparison["wall_s"]
    typical = statistics.median(run["wall_s"] for run in base)
    busy = statistics.median(run["user_s"] + run["kernel_s"] for run in base)
    # Page sizes change the time on a CPU; the rest of the wall time only adds noise to it.
    if wall is None or min(typical, busy) < SHORT_S:
        return (
            f"too short: a run takes {typical * 1000:.1f} ms, {busy * 1000:.1f} ms of it on a CPU. Below "
            f"{SHORT_S * 1000:.0f} ms the resolution is too low, for the start of a process takes as long. "
            "Give it more work"
        )
    low, high = (f"{100 * wall[key]:.1f}" for key in ("low", "high"))
    if wall["pairs"] < FEWEST:
        return f"too few pairs: {wall['pairs']} of at least {FEWEST}; nothing was shown"
    if wall["low"] <= 0 <= wall["high"]:
        return f"nothing was shown: the interval of the saving, {low} to {high} % of wall time, includes 0"
    word = "saves" if wall["low"] > 0 else "costs"
    # A loss reads better as a positive number.
    size, ends = wall["saving"], (low, high)
    if word == "costs":
        size, ends = -size, (f"{-100 * wall['high']:.1f}", f"{-100 * wall['low']:.1f}")
    return f"{word} {100 * size:.1f} % of wall time (95 % interval {ends[0]} to {ends[1]} %)"


def vmstat(path: Path = Path("/proc/vmstat")) -> dict[str, int]:
    """Counters of the whole system, and the transparent pages that faults got, by their size (`mthp_64k`)."""
    found = {f"mthp_{kb}k": count for kb, count in faulted_by_size().items()}
    try:
        words = (line.split() for line in path.read_text().splitlines())
        return {**{w[0]: int(w[1]) for w in words if w[0] in VMSTAT}, **found}
    except OSError:
        return found


def _in_force(samples: list[dict[str, int]], reports: list[Json]) -> Json:
    """The pages at the largest resident size that was sampled, and the code that was moved."""
    largest = max(samples, key=lambda s: s["Rss"], default={})
    main = max(reports, key=lambda r: int(r.get("code_moved", 0)), default={})
    code = {key: main.get(key, 0) for key in ("code_bytes", "code_moved", "code_huge")}
    pool = [[s.offset, s.start, s.end] for s in mosaics.largest(reports)]
    texts = moved.texts(main)
    sections = moved.coverage(texts) if code["code_moved"] else []
    code["code_whole"] = moved.whole(texts)
    return {"bytes": largest, "preloaded": bool(reports), **code, "code_sections": sections, "pool": pool}


def measure(
    program: Program,
    settings: list[Setting],
    limits: Limits,
    system: bool = False,
    progress: Callable[[int, Json], None] = lambda _done, _state: None,
    each: Callable[[Json], object] = lambda _report: None,
) -> Json:
    """Times the program. What was measured up to an interruption or the program's failure is returned, with `ended`.

    `stopped` says which of the limits ended it: `interval`, `pairs` or `seconds`. `each` gets what the preloaded
    library wrote of each process, when its run is over.
    """
    found: list[Json] = [_empty(setting) for setting in settings]
    result: Json = {"ended": "complete", "settings": found, "comparisons": []}
    changes = sorted({path for s in settings for path in s.sysfs()}) if system else []
    with ExitStack() as stack:
        reports = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mmulab-try-")))
        borrowed = stack.enter_context(Borrowed(changes)) if changes else None
        with Counters() as counters:
            result["counters"] = counters.why
        try:
            # A run of each that does not count: files come into memory, and its pages are looked at.
            for setting, one in zip(settings, found, strict=True):
                samples: list[dict[str, int]] = []
                before = vmstat()
                _once(program, setting, borrowed, reports, samples)
                one["in_force"] = _in_force(samples, _handed_on(reports, each))
                if setting.size_kb is not None:
                    key = f"mthp_{setting.size_kb}k"
                    one["in_force"]["pages_of_size"] = vmstat().get(key, 0) - before.get(key, 0)
            _alternate(program, settings, limits, found, borrowed, reports, progress, result, each)
        except KeyboardInterrupt:
            result["ended"] = "interrupted"
        except ProgramFailed as failed:
            result["ended"] = str(failed)
    _drop_incomplete(found)
    base = found[0]["runs"]
    for other in found[1:]:
        if base:
            comparison = compare(base, other["runs"])
            said = {"setting": other["name"], "baseline": found[0]["name"], "verdict": verdict(base, comparison)}
            result["comparisons"].append({**said, **comparison})
    return result


def _handed_on(reports: Path, each: Callable[[Json], object]) -> list[Json]:
    found = reported(reports)
    for report in found:
        each(report)
    return found


def _empty(setting: Setting) -> Json:
    about: Json = {"name": setting.name, "about": setting.about, "wants": list(setting.preload)}
    if setting.parts is not None:
        about["huge_parts"] = [list(part) for part in setting.parts]
    return {**about, "runs": [], "in_force": {}}


class ProgramFailed(Failure):
    """The program ended with another exit code than 0."""


def _once(
    program: Program,
    setting: Setting,
    borrowed: Borrowed | None,
    reports: Path,
    samples: list[dict[str, int]] | None = None,
) -> Run:
    if borrowed is not None:
        borrowed.set(setting.sysfs())
    done = run(program, setting, reports, samples)
    if done.exit_code != 0:
        what = "the client" if program.bench is not None else program.argv[0]
        said = f": {done.stderr}" if done.stderr else ""
        raise ProgramFailed(f"{what} failed under {setting.name} with exit code {done.exit_code}{said}")
    if math.isnan(done.wall_s):
        assert program.time is not None
        raise ProgramFailed(
            f"{program.argv[0]} printed no time under {setting.name}: nothing fits '{program.time.pattern}'"
        )
    return done


def _alternate(
    program: Program,
    settings: list[Setting],
    limits: Limits,
    found: list[Json],
    borrowed: Borrowed | None,
    reports: Path,
    progress: Callable[[int, Json], None],
    result: Json,
    each: Callable[[Json], object],
) -> None:
    begun = time.monotonic()
    result["stopped"] = "pairs"
    for pair in range(limits.pairs):
        # Forth and back, so that a drift meets the first and the last alike.
        order = list(range(len(settings)))
        for at in order if pair % 2 == 0 else reversed(order):
            before = vmstat()
            done = _once(program, settings[at], borrowed, reports)
            events = {key: count - before.get(key, 0) for key, count in vmstat().items()}
            _handed_on(reports, each)
            kept = {key: getattr(done, key) for key in (*TIMES, "minor_faults", "peak_bytes", "exit_code")}
            found[at]["runs"].append({**kept, "counts": done.counts, "vmstat": events})
        widths = _widths(found, limits.time)
        progress(pair + 1, {"widths": widths})
        if limits.until is not None and pair + 1 >= SETTLED and all(w <= limits.until for w in widths):
            result["stopped"] = "interval"
            break
        if limits.seconds is not None and pair + 1 >= FEWEST and time.monotonic() - begun >= limits.seconds:
            result["stopped"] = "seconds"
            break
    if limits.until is not None:
        result["reached"] = result["stopped"] == "interval"


def _widths(found: list[Json], key: str) -> list[float]:
    """Width of the interval of each saving."""
    widths = []
    for other in found[1:]:
        saved = compare(found[0]["runs"], other["runs"])[key]
        widths.append(float("inf") if saved is None else saved["high"] - saved["low"])
    return widths


def _drop_incomplete(found: list[Json]) -> None:
    """Of a pair that was cut short nothing counts."""
    whole = min(len(one["runs"]) for one in found)
    for one in found:
        del one["runs"][whole:]
