"""Where the kernel puts base pages: how densely their frames lie.

Walks read page-table entries by the cache line, eight pages each, and a hypervisor's entries by the guest's frames. So
scattered frames cost more lines. Only root sees frame numbers (/proc/self/pagemap).
"""

import contextlib
import ctypes
import mmap
import struct
from pathlib import Path

PAGES = 16384
# Base pages whose entries share a cache line.
GROUP = 8
_FRAME = (1 << 55) - 1
_PRESENT = 1 << 63
_MADV_NOHUGEPAGE = 15


def density(pages: int = PAGES, pagemap: Path = Path("/proc/self/pagemap")) -> float | None:
    """How densely the frames of fresh base pages lie (see `density_of`); None where frames cannot be seen."""
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
    return density_of([entry & _FRAME for entry in entries if entry & _PRESENT])


def density_of(frames: list[int]) -> float | None:
    """Frames as a share of the aligned groups of eight that they lie in; None if there are none, or all hidden as 0."""
    if not any(frames):
        return None
    return len(frames) / (GROUP * len({frame // GROUP for frame in frames}))
