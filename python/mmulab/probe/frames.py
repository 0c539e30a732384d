"""Where the kernel puts base pages: how many of their frames lie scattered, how densely, and over how much of memory.

Walks read page-table entries by the cache line, eight pages each, and a hypervisor's entries by the guest's frames. So
scattered frames cost more lines. Entries of the level above are of 2 MB each: walks read more of them where frames lie
in many such regions. A kernel hands out what is left of broken blocks first, and whole blocks after that.
So a small program may get scattered frames where a large one gets few. Only root sees frame numbers
(/proc/self/pagemap).
"""

import contextlib
import ctypes
import json
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mmulab import _core

# Base pages looked at, at most.
PAGES = 1 << 18
# Entries of a page table that share a cache line.
GROUP = 8
_FRAME = (1 << 55) - 1
_PRESENT = 1 << 63
_MADV_NOHUGEPAGE = 15


@dataclass(frozen=True)
class Frames:
    """The frames of fresh base pages."""

    pages: int
    # Those in aligned groups of eight frames of which they do not have all, and these as a share of the groups.
    scattered: int
    density: float
    # Regions of 2 MB that have scattered ones, and the cache lines with the entries of these regions; 0 where they were
    # not counted.
    regions: int = 0
    region_lines: int = 0


def look(pages: int = PAGES, pagemap: Path = Path("/proc/self/pagemap")) -> Frames | None:
    """The frames that fresh base pages get now; None where they cannot be seen."""
    size = pages * mmap.PAGESIZE
    with mmap.mmap(-1, size) as memory:
        if hasattr(memory, "madvise"):
            # A kernel without huge pages knows no such advice.
            with contextlib.suppress(OSError):
                memory.madvise(_MADV_NOHUGEPAGE)
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1
        view = ctypes.c_char.from_buffer(memory)
        start = ctypes.addressof(view) // mmap.PAGESIZE
        del view
        try:
            with pagemap.open("rb") as file:
                frames = _present(file, start, pages)
        except OSError:
            return None
    return of(frames)


def _present(pagemap: BinaryIO, first: int, pages: int) -> list[int]:
    """The frames of those of `pages` pages from number `first` on that are in memory."""
    pagemap.seek(first * 8)
    read = pagemap.read(pages * 8)
    entries = struct.unpack(f"{len(read) // 8}Q", read[: len(read) // 8 * 8])
    return [entry & _FRAME for entry in entries if entry & _PRESENT]


class Seen:
    """Frames of a process that is looked at again and again while it runs.

    `most` is the last look of those that found most pages; None if none found any.
    """

    def __init__(self) -> None:
        self.most: Frames | None = None

    def look(self, pid: int) -> None:
        """Looks once."""
        now = of_process(pid)
        if now is not None and (self.most is None or now.pages >= self.most.pages):
            self.most = now


def of_process(pid: int, proc: Path = Path("/proc")) -> Frames | None:
    """The frames of all private anonymous memory of a process now; None if there is none or it cannot be seen.

    One mapping does not stand for the others: the kernel gives scattered frames to the memory that is touched first.
    """
    frames: list[int] = []
    try:
        maps = (proc / str(pid) / "maps").read_text(encoding="utf-8").splitlines()
        with (proc / str(pid) / "pagemap").open("rb") as file:
            for start, end in filter(None, map(_anonymous, maps)):
                frames += _present(file, start // mmap.PAGESIZE, (end - start) // mmap.PAGESIZE)
    except OSError:
        # It may have ended.
        return None
    return of(frames)


def mean(found: Sequence[Frames]) -> Frames:
    """The frames of some runs of a program, each of which got its own. At least one must be given."""
    pages = sum(f.pages for f in found) / len(found)
    scattered = sum(f.scattered for f in found) / len(found)
    groups = sum(f.scattered / (GROUP * f.density) for f in found) / len(found)
    density = scattered / (GROUP * groups) if groups else 1.0
    regions = round(sum(f.regions for f in found) / len(found))
    lines = round(sum(f.region_lines for f in found) / len(found))
    return Frames(round(pages), round(scattered), density, regions, lines)


def _anonymous(line: str) -> tuple[int, int] | None:
    """The addresses of a line of /proc/PID/maps, if it is of private, writable memory of no file but a heap."""
    addresses, rights, _, _, inode, *name = line.split(maxsplit=5)
    if rights[1:4:2] != "wp" or inode != "0" or (name and name[0].strip() != "[heap]"):
        return None
    start, _, end = addresses.partition("-")
    return int(start, 16), int(end, 16)


def of(frames: list[int]) -> Frames | None:
    """Counts frames by number. Returns None for an empty list, and where the system hides all numbers as 0."""
    found = json.loads(_core.probe_frames(frames))
    return None if found is None else Frames(**found)
