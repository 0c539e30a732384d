"""Where the kernel puts base pages: whether the frame of a page follows that of the page before.

Walks read page-table entries by the cache line, eight pages each, and a hypervisor's entries by the guest's frames. So
scattered frames cost more lines. Only root sees frame numbers (/proc/self/pagemap).
"""

import contextlib
import ctypes
import itertools
import mmap
import struct
from pathlib import Path

PAGES = 16384
_FRAME = (1 << 55) - 1
_PRESENT = 1 << 63
_MADV_NOHUGEPAGE = 15


def share_following(pages: int = PAGES, pagemap: Path = Path("/proc/self/pagemap")) -> float | None:
    """Of fresh base pages, the share whose frame follows the frame before it; None where frames cannot be seen."""
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
                file.seek(start * 8)
                entries = struct.unpack(f"{pages}Q", file.read(pages * 8))
        except (OSError, struct.error):
            return None
    return following([entry & _FRAME for entry in entries if entry & _PRESENT])


def following(frames: list[int]) -> float | None:
    """The share of frames that follow the one before; None of no frames, or where all are hidden as 0."""
    if len(frames) < 2 or not any(frames):
        return None
    return sum(b == a + 1 for a, b in itertools.pairwise(frames)) / (len(frames) - 1)
