"""Which curves are measured, in which order, and how far each reaches."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from mmulab import Failure, _core
from mmulab.probe import system

Json = dict[str, Any]
# The curve that begins, and the share of all that is done.
Progress = Callable[[str, float], None]

MB = 1 << 20
PAGE = 4096
# Random chases are as long as this at most: memory in which no cache of today holds a large share.
FOOTPRINT = 256 * MB
# Base pages of the longest chase: more than twice the entries of any second level of today.
PAGES = 12288
# Pages of a chase whose loads all miss the second level, where its end was not found.
BEYOND = 8192
# More than the caches that one core has to itself, and little of one that cores share.
IDLE_BYTES = 4 * MB
# A round by many chases is short beside the waits.
IDLE_CHAINS = 8
# Microseconds for which its lines are left alone.
IDLE_US = [1, *(round(250 * 2 ** (n / 2)) for n in range(16)), 90_000, 400_000]
# The same for lines of the first level and of the second, which another hardware thread displaces sooner. Each has
# footprint, waits, and how many times the repeats of others. Their chases are short.
IDLE_FIRST = (16 << 10, [1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120], 10)
IDLE_SECOND = (256 << 10, [1, *(round(30 * 2 ** (n / 2)) for n in range(17))], 4)
CHAINS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32)
# Footprints around the end of the caches, and chases that go over them at once.
CACHES = (2 * MB, 64 * MB)
CACHES_CHAINS = 16
# Footprints around the size of the second level, in eighths of it. The first one fits beside any neighbour, and of the
# last one nothing is left when a chase comes round. One chase goes over them: lines that many chases use again within
# microseconds stay, whoever else uses the level.
SECOND = (2, 4, 5, 6, 7, 8, 9, 10, 12, 16)
SECOND_CHAINS = 1
# What sends lines out of the second level, in eighths of it. Microseconds for which they are left alone then.
AWAY = 12
FRESH_US = [1, 300, 600, 1200, 2400, 4800]
# Bytes of a stream beside lines that are used often: next to none, and multiples of the size of the third level.
SHORT_STREAM = 64 << 10
STREAMS = (1, 2, 4)
# Of 1,000 loads that are timed one by one: as many as do not take longer. Those that wait for a refresh of the memory
# are among the last 50.
LATENCIES = (1, 10, 100, 250, 500, 750, 900, 950, 960, 970, 980, 990, 995, 999)
# Instructions between two loads of memory: those that crates/host/src/window.rs has code for.
BETWEEN = (32, 64, 96, *range(112, 385, 16), 416, 448, 512, 576, 640)
# The same of one kind alone: they fill a register file, or the queue of loads or stores.
QUEUES = {
    "ints": (32, 64, *range(96, 321, 16), 352, 384, 448),
    "vectors": (32, 64, *range(96, 321, 16), 352, 384, 448),
    "loads": (16, 32, 48, 64, 80, *range(96, 257, 16), 320),
    "stores": (16, 24, 32, *range(40, 97, 8), 112, 128, 160, 192),
}
# Lines from one load to the next: the next line, and a line of another page.
STRIDES = (1, 65, 129, 1025)
# Memory that no cache holds a large share of, or there is no more of it.
STRIDES_BYTES = 128 * MB
# Lines from a line at random to the next one, as far as crates/timing can have a region reach. Of the memory that the
# pairs lie in, one line in eight is used, and these must be more than caches hold.
PAIRS = tuple(range(1, 9))
PAIRS_BYTES = 1 << 30
# Kinds of instructions, beside adds, of which another hardware thread takes its share.
WIDE = ("loads", "stores", "vectors", "mixed")
# Jumps in code: from fewer than the smallest branch target buffer has, to more than the largest, 256 KB of code.
JUMPS = (128, 16384)
# Curves of what neighbours change, beside those of `CORE`: jumps that the front end knows, the window, and smaller
# queues. Then caches, misses at once, and walks.
CHANGING = {
    "jumps",
    "footprint-at-once",
    "second-level",
    "fresh",
    "stream",
    "memory-chains",
    "memory-latencies",
    "window",
    *(f"window-{of}" for of in QUEUES),
    "idle-first",
    "idle-second",
    "idle",
    "walk-far-4k",
    "walk-near-4k",
    "walk-near-2m",
    "walk-loads-4k",
}
# Repeats of what neighbours on the core change from one moment to the next.
OFTEN = 4
# The clock and units: a neighbour changes them from one moment to the next. So they are measured in turns, a few times
# each, and with pauses.
CORE: tuple[Json, ...] = (
    {"name": "add-chain", "pattern": {"kind": "adds"}, "backing": "4K"},
    {"name": "wide-adds", "pattern": {"kind": "wide-adds"}, "backing": "4K"},
    *({"name": f"wide-{of}", "pattern": {"kind": "wide", "of": of}, "backing": "4K"} for of in WIDE),
)
TURNS = 30
PAUSE_S = 0.02
AT_A_GLANCE = 3
# Repeats of a curve whose points write much memory first.
FEW = 5


@dataclass(frozen=True)
class Effort:
    """How long is measured: repeats of each point, points a doubling, microseconds a burst, and most memory."""

    repeats: int = 9
    density: int = 4
    burst_us: int = 150
    memory: int = 1 << 30
    seed: int = 1

    @classmethod
    def quick(cls, memory: int = 512 * MB) -> "Effort":
        """A few seconds: for a look, and for tests."""
        return cls(repeats=3, density=2, burst_us=60, memory=memory)


def grid(first: int, last: int, density: int, step: int = 1) -> list[int]:
    """Points from first to last, `density` a doubling, rounded to multiples of `step`."""
    points, at = set(), float(first)
    while at <= last * 1.0001:
        points.add(max(step, round(at / step) * step))
        at *= 2 ** (1 / density)
    return sorted(points)


def figures(curves: list[Json]) -> Json:
    """What curves show: `figures`, and `noise` by curve (the middle half of repeats, as a share)."""
    return cast(Json, json.loads(_core.probe_figures(json.dumps(curves))))


def _figure(curves: list[Json], name: str) -> float | None:
    """A figure that can be relied on to choose what is measured next."""
    found = [f for f in figures(curves)["figures"] if f["name"] == name and f["confidence"] != "low"]
    return cast("float | None", found[0]["value"]) if found else None


def _curve(asked: Json, xs: list[int], repeats: int, effort: Effort, on_progress: Callable[[float], None]) -> Json:
    """One curve. `asked`: its name, pattern and backing."""
    spec = {**asked, "xs": xs, "repeats": repeats, "burst_us": effort.burst_us, "seed": effort.seed}
    return cast(Json, json.loads(_core.probe_curve(json.dumps(spec), on_progress)))


def run(effort: Effort, progress: Progress = lambda _name, _share: None) -> list[Json]:
    """Measures every curve. What one curve shows decides how far the next ones reach."""
    memory = min(effort.memory, system.free_memory() // 3)
    if memory < 64 * MB:
        raise Failure(f"only {memory // MB} MB of memory can be used: probe needs 64 MB (a third of what is available)")
    curves: list[Json] = []

    def measure(name: str, kind: str, backing: str, xs: list[int], share: tuple[float, float], **more: Any) -> Json:
        repeats = more.pop("repeats", effort.repeats)
        asked = {"name": name, "pattern": {"kind": kind, **more}, "backing": backing}
        begin, end = share
        return _curve(asked, xs, repeats, effort, lambda done: progress(name, begin + (end - begin) * done))

    often = OFTEN * effort.repeats
    curves += _in_turns(effort, lambda done: progress("add-chain", 0.015 * done))
    if _core.probe_jumps():
        jumps = grid(*JUMPS, effort.density)
        curves.append(measure("jumps", "jumps", "4K", jumps, (0.015, 0.02)))
    top = min(FOOTPRINT, memory)
    footprints = grid(4096, 4 * MB, effort.density, 1024) + grid(8 * MB, top, max(1, effort.density // 2), 1024)
    curves.append(measure("footprint", "footprint", "2M", footprints, (0.02, 0.28)))
    at_once = [x for x in grid(*CACHES, effort.density, 1024) if x <= top]
    curves.append(measure("footprint-at-once", "footprint-at-once", "2M", at_once, (0.28, 0.3), chains=CACHES_CHAINS))
    sizes = {cache["level"]: cache["bytes"] for cache in system.caches() if cache["bytes"]}
    second, third = sizes.get(2), sizes.get(3)
    if second is not None:
        eighth = max(PAGE, second // 8 // PAGE * PAGE)
        around = [eighth * many for many in SECOND]
        curves.append(
            measure(
                "second-level",
                "footprint-at-once",
                "2M",
                around,
                (0.3, 0.305),
                chains=SECOND_CHAINS,
                repeats=often,
            )
        )
        away = {"bytes": eighth * AWAY, "chains": IDLE_CHAINS}
        curves.append(measure("fresh", "fresh", "2M", FRESH_US, (0.305, 0.31), repeats=often, **away))
    curves.append(measure("memory-chains", "chains", "2M", list(CHAINS), (0.31, 0.4), bytes=top))
    curves.append(
        measure("memory-latencies", "latencies", "2M", list(LATENCIES), (0.4, 0.41), bytes=top, repeats=often)
    )
    curves.append(measure("window", "window", "2M", list(BETWEEN), (0.41, 0.44), bytes=top, repeats=often))
    for of, numbers in QUEUES.items():
        curves.append(
            measure(f"window-{of}", "window", "2M", list(numbers), (0.44, 0.45), bytes=top, of=of, repeats=often)
        )
    for name, (size, waits, times) in (("idle-first", IDLE_FIRST), ("idle-second", IDLE_SECOND)):
        many = times * effort.repeats
        curves.append(measure(name, "idle", "2M", waits, (0.45, 0.46), bytes=size, chains=1, repeats=many))
    idle = min(IDLE_BYTES, top)
    curves.append(measure("idle", "idle", "2M", IDLE_US, (0.46, 0.48), bytes=idle, chains=IDLE_CHAINS))
    if third is not None and third <= memory:
        streams = [SHORT_STREAM, *(third * many for many in STREAMS if third * many <= memory)]
        curves.append(measure("stream", "stream", "2M", streams, (0.48, 0.485), bytes=idle, chains=IDLE_CHAINS))
    stepped = 1 << (min(STRIDES_BYTES, top).bit_length() - 1)
    curves.append(measure("strides", "strides", "2M", list(STRIDES), (0.485, 0.49), bytes=stepped, repeats=FEW))
    paired = min(PAIRS_BYTES, memory)
    curves.append(measure("pairs", "pairs", "2M", list(PAIRS), (0.49, 0.5), bytes=paired, repeats=FEW))

    near, far = list(range(16, 160, 16)), 2 * effort.density
    small = measure("pages-4k", "pages", "4K", near + grid(160, min(PAGES, memory // 6144), far), (0.5, 0.6))
    knee = _figure([small], "l1_dtlb_entries_4k")
    if knee is not None:
        # Entry by entry, where the first level ends.
        low, high = max(2, int(knee * 0.8)), int(knee * 1.2)
        step = max(1, (high - low) // 24)
        small = merged(small, measure("pages-4k", "pages", "4K", list(range(low, high, step)), (0.6, 0.65)))
    curves.append(small)
    entries = _figure([small], "l2_tlb_entries_4k")
    beyond = BEYOND if entries is None else round(1.25 * entries)

    large = min(1024, memory // (2 * MB))
    curves.append(measure("within-large", "within", "2M", [32, 64, *range(96, 513, 32)], (0.65, 0.67), repeats=15))
    curves.append(
        measure("pages-2m", "pages", "2M", [x for x in near + grid(160, 1024, far) if x <= large], (0.67, 0.8))
    )
    # So many that no level holds a large part of them, and no more: their lines shall stay in caches of the core's own.
    far_pages = min(8 * beyond // 5, memory // 4096) // 8 * 8
    curves.append(measure("walk-chains-4k", "page-chains", "4K", list(CHAINS), (0.8, 0.88), pages=far_pages))
    ends = _figure(curves, "l2_tlb_entries_2m")
    if ends is not None and 1.25 * ends <= large:
        pages = round(1.25 * ends)
        curves.append(measure("walk-chains-2m", "page-chains", "2M", list(CHAINS), (0.88, 0.9), pages=pages))
    for name, kind, backing in (
        ("walk-far-4k", "pages", "4K"),
        ("walk-near-4k", "near-pages", "4K"),
        ("walk-near-2m", "near-pages", "2M"),
        ("walk-loads-4k", "page-loads", "4K"),
    ):
        curves.append(measure(name, kind, backing, [far_pages], (0.9, 0.92), repeats=often))
    regions = grid(16, beyond, effort.density)
    curves.append(measure("walk-spread", "spread", "4K", regions, (0.92, 1), pages=beyond))
    return curves


def glance(effort: Effort) -> list[Json]:
    """The curves of the clock and of units, in some milliseconds: what neighbours leave at this moment."""
    return [_curve(asked, [1], AT_A_GLANCE, effort, lambda _done: None) for asked in CORE]


def _in_turns(effort: Effort, on_progress: Callable[[float], None]) -> list[Json]:
    """The same over half a second and more."""
    found = glance(effort)
    for turn in range(1, TURNS):
        time.sleep(PAUSE_S)
        found = joined(found, glance(effort))
        on_progress(turn / (TURNS - 1))
    return found


def again(curves: list[Json], effort: Effort) -> list[Json]:
    """The curves that neighbours on the host change from one minute to the next, measured anew."""
    core = {curve["name"]: curve for curve in _in_turns(effort, lambda _done: None)}
    found = []
    for curve in curves:
        if curve["name"] in core:
            found.append(core[curve["name"]])
        elif curve["name"] in CHANGING:
            asked = {key: curve[key] for key in ("name", "pattern", "backing")}
            repeats = max(3, len(curve["points"][0]["cycles"]) // 2)
            found.append(_curve(asked, [p["x"] for p in curve["points"]], repeats, effort, lambda _done: None))
    return found


def joined(first: list[Json], second: list[Json]) -> list[Json]:
    """Two measurements of curves as one: of `second`, those that `first` has."""
    more = {curve["name"]: curve for curve in second}
    return [merged(curve, more[curve["name"]]) if curve["name"] in more else curve for curve in first]


def merged(first: Json, second: Json) -> Json:
    """Two measurements of a curve as one: of a point that both have, all repeats."""
    points: dict[int, Json] = {p["x"]: {k: list(v) if k != "x" else v for k, v in p.items()} for p in first["points"]}
    for point in second["points"]:
        at = points.setdefault(point["x"], {"x": point["x"]})
        for key in ("cycles", "ns", "control", "alone"):
            if key in point:
                at[key] = at.get(key, []) + point[key]
    return {**first, "points": [points[x] for x in sorted(points)]}
