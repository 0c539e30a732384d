"""Memory that is fragmented as the tool of paper 3 leaves it (section VI), of a machine or of its virtual machines."""

import math

# Memory that the tool of paper 3's published artifact (etutils-rs, memfrag) does not take at all, beside what it frees
# for the program. Here this memory is as fragmented as the rest.
UNTAKEN = 1 << 30
# Of what it takes, it frees every other chunk of 512K. Here each block of 2M has one at its beginning, as the paper
# says.
CHUNK, HUGE = 512 << 10, 2 << 20
# Blocks of 2M that the kernel takes at boot, and a few.
BOOT_BLOCKS = 16
# The mark of fresh memory among levels of fragmentation.
FRESH = 0


# Whose memory it is, of programs in a virtual machine.
HOST, GUEST, BOTH = "host", "guest", "both"


def fragmented(level: int, footprint: int, pinned: bool = False, where: str = HOST) -> tuple[str, ...]:
    """Memory whose free part lies to `level` percent in chunks of 512K. As much is free as the program takes, and what
    the paper's published tool leaves free beside it. The pages in between can move, as the tool's, or are pinned. In
    larger memory the tool's chunks would be smaller, down to one page in each 2M. Then all frames lie in the same sets
    of the caches. `where`: of the machine, of its virtual machine, or of both. A guest's compaction touches memory that
    no program of it has, so below a fragmented guest all of the guest's memory has room."""
    if level == FRESH:
        return ()
    if where == HOST:
        return _table("memory", level, footprint, pinned)
    guest = _table("virtual.memory", level, footprint, pinned)
    return guest if where == GUEST else (*guest, *_table("memory", level, _size(level, footprint), pinned))


def _size(level: int, footprint: int) -> int:
    """How large memory is, of which a program and `UNTAKEN` are free."""
    free, target = footprint + UNTAKEN, level / 100
    blocks = free * (1 - target) / HUGE + free * target / CHUNK
    return (math.ceil(blocks) + BOOT_BLOCKS) * HUGE


def _table(memory: str, level: int, footprint: int, pinned: bool) -> tuple[str, ...]:
    held = "pinned" if pinned else "movable"
    fragment = f"{{kind='fmfi',target={level / 100},free='{footprint + UNTAKEN}',order='2M',held='{held}'}}"
    return (f"{memory}.fragment={fragment}", f"{memory}.size='{_size(level, footprint)}'")
