"""Mosaics: layouts of malloc's memory, 2 MB pages for chosen parts and base pages for the rest.

A program timed under many mosaics shows how its time depends on where the large pages lie (Agbarya, Yaniv, Gandhi and
Tsafrir, "Predicting Execution Times With Partial Simulations", MICRO 2020). The layouts are data in the result, so that
a simulator can take the same ones. Address randomisation is off in these runs, so the parts keep their addresses.
"""

import random
import tempfile
from pathlib import Path

from mmulab import Failure
from mmulab.stopwatch.process import Program, run
from mmulab.stopwatch.settings import Part, Setting

LARGE = 2 << 20
# Malloc takes all memory from one heap, and keeps it.
_ONE_HEAP = "glibc.malloc.mmap_max=0:glibc.malloc.arena_max=1:glibc.malloc.trim_threshold=1099511627776"
# Room beyond the peak that was seen, as a factor: samples may have missed it.
_ROOM = 1.25


def peak_heap(program: Program) -> int:
    """The most anonymous memory that the program was seen to have, all of it in one heap, in bytes."""
    samples: list[dict[str, int]] = []
    setting = Setting("one heap", "", tunable=_ONE_HEAP, no_thp=True)
    with tempfile.TemporaryDirectory(prefix="mmulab-try-") as reports:
        done = run(program, setting, Path(reports), samples)
    if done.exit_code != 0:
        raise Failure(f"{program.argv[0]} failed with exit code {done.exit_code}: {done.stderr}")
    return max((sample["Anonymous"] for sample in samples), default=0)


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


def settings(program: Program, count: int) -> list[Setting]:
    """A setting for each mosaic; the first has base pages only, the second 2 MB pages only."""
    blocks = max(1, round(peak_heap(program) * _ROOM) // LARGE + 1)
    # One block more, for the heap does not begin at a multiple of 2 MB.
    tunable = f"{_ONE_HEAP}:glibc.malloc.top_pad={(blocks + 1) * LARGE}"
    return [
        Setting(
            f"mosaic-{at}",
            _about(parts),
            preload=("mosaic",),
            tunable=tunable,
            large=True,
            fixed_addresses=True,
            parts=parts,
        )
        for at, parts in enumerate(layouts(blocks, count))
    ]


def _about(parts: tuple[Part, ...]) -> str:
    if not parts:
        return "base pages only"
    return "2 MB pages at " + ", ".join(f"{a // LARGE * 2} to {b // LARGE * 2} MB" for a, b in parts) + " of the heap"
