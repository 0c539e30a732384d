"""Mosaics: layouts of a program's anonymous memory, 2 MB pages for chosen parts and base pages for the rest.

A program timed under many mosaics shows how its time depends on the places of the large pages. The method is from
Agbarya, Yaniv, Gandhi and Tsafrir, "Predicting Execution Times With Partial Simulations" (MICRO 2020). The layouts are
data in the result, so that a simulator can take the same ones. Address randomisation is off in these runs, so the parts
keep their addresses.

Parts are offsets in a pool (crates/try-preload/src/mosaic.rs). The pool has malloc's heap, then all mappings of 2 MB
and more in the order in which the program makes them. Each is in blocks of 2 MB.
"""

import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import Failure
from mmulab.stopwatch.process import Program, reported, run
from mmulab.stopwatch.settings import Part, Setting

LARGE = 2 << 20
# Malloc takes all memory from one heap, and keeps it.
_ONE_HEAP = "glibc.malloc.mmap_max=0:glibc.malloc.arena_max=1:glibc.malloc.trim_threshold=1099511627776"
# Enough for the heap to be in the report, as its first segment.
_SOME_BLOCKS = 2
# Room beyond the memory that was resident at the peak, as a factor: a heap may have more than is touched.
_ROOM = 1.25
# How the preloaded library names a segment in its report, before the offset.
_SEGMENT = "segment_"


@dataclass(frozen=True)
class Segment:
    """Whole 2 MB of a mapping: where they begin in the pool, and their addresses, in bytes."""

    offset: int
    start: int
    end: int


@dataclass(frozen=True)
class Pool:
    """A program's pool: blocks of 2 MB that its heap needs, and that all other mappings take."""

    heap: int
    mapped: int

    @property
    def blocks(self) -> int:
        """All of it. The heap takes two more than it needs: it does not begin at a multiple of 2 MB, nor end at one."""
        return self.heap + 2 + self.mapped

    @property
    def tunable(self) -> str:
        """Has malloc take its whole heap at once."""
        return _one_heap(self.heap + 1)


def segments(report: dict[str, Any]) -> list[Segment]:
    """What a process's report says of its pool, in order."""
    found = []
    for key, value in report.items():
        if key.startswith(_SEGMENT):
            start, _, end = str(value).partition("-")
            found.append(Segment(int(key.removeprefix(_SEGMENT), 16), int(start, 16), int(end, 16)))
    return sorted(found, key=lambda segment: segment.offset)


def largest(reports: Sequence[dict[str, Any]]) -> list[Segment]:
    """The pool of the process that has the largest: of a shell and a program, the program's."""
    return max(map(segments, reports), key=lambda pool: sum(s.end - s.start for s in pool), default=[])


def _one_heap(blocks: int) -> str:
    return f"{_ONE_HEAP}:glibc.malloc.top_pad={blocks * LARGE}"


def pool(program: Program) -> Pool:
    """Runs the program once to see how large its heap grows and what else it maps."""
    tunable = _one_heap(_SOME_BLOCKS)
    setting = Setting("one heap", "", preload=("pool",), tunable=tunable, no_thp=True, fixed_addresses=True)
    with tempfile.TemporaryDirectory(prefix="mmulab-try-") as directory:
        reports = Path(directory)
        done = run(program, setting, reports)
        found = reported(reports)
    if done.exit_code != 0:
        raise Failure(f"{program.argv[0]} failed with exit code {done.exit_code}: {done.stderr}")
    # At its end the heap has all that it ever had. Of a program that ended otherwise than by itself it is not known.
    heap = max((int(report.get("heap_bytes", 0)) for report in found), default=0)
    if not heap:
        heap = round(done.peak_bytes * _ROOM)
    # The heap at the program's start is the first segment, and is counted by itself.
    others = [s for s in largest(found) if s.offset]
    mapped = max((s.offset + s.end - s.start for s in others), default=0) - min((s.offset for s in others), default=0)
    # One more, for a mapping takes as many blocks as its length rounded up.
    return Pool(heap // LARGE + 1, mapped // LARGE + bool(others))


def layouts(blocks: int, count: int, seed: int = 1) -> list[tuple[Part, ...]]:
    """Parts of a pool of `blocks` times 2 MB: none, all, then windows (in turns from the start, and random ones)."""
    chosen = random.Random(seed)
    found: list[tuple[Part, ...]] = [(), ((0, blocks * LARGE),)]
    growing = (count - 1) // 2
    for at in range(max(0, count - 2)):
        if at % 2 == 0:
            window = (0, max(1, blocks * (at // 2 + 1) // (growing + 1)))
        else:
            length = chosen.randint(1, blocks)
            first = chosen.randint(0, blocks - length)
            window = (first, first + length)
        found.append(((window[0] * LARGE, window[1] * LARGE),))
    return found[:count]


def settings(of: Pool, count: int) -> list[Setting]:
    """A setting for each mosaic; the first has base pages only, the second 2 MB pages only."""
    return [
        Setting(
            f"mosaic-{at}",
            _about(parts),
            preload=("mosaic",),
            tunable=of.tunable,
            large=True,
            fixed_addresses=True,
            parts=parts,
        )
        for at, parts in enumerate(layouts(of.blocks, count))
    ]


def recorded(of: Pool) -> Setting:
    """Base pages in the same pool, which is only reported: for a recording that is run under all mosaics."""
    return Setting("pool", "", preload=("pool",), tunable=of.tunable, fixed_addresses=True)


def addresses(parts: Sequence[Part], of: Sequence[Segment]) -> list[tuple[int, int]]:
    """The addresses of parts, from and to, in a pool of these segments."""
    found = []
    for start, end in parts:
        for segment in of:
            low = max(start, segment.offset)
            high = min(end, segment.offset + segment.end - segment.start)
            if low < high:
                found.append((segment.start + low - segment.offset, segment.start + high - segment.offset))
    return found


def _about(parts: tuple[Part, ...]) -> str:
    if not parts:
        return "base pages only"
    return "2 MB pages at " + ", ".join(f"{a // LARGE * 2} to {b // LARGE * 2} MB" for a, b in parts) + " of its memory"
