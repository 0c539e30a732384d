"""What several guests' free lists have in common, as the lines that crates/frames reads.

`held STATE MIB LEAST MOST`: frames in use, of guests of so much memory.

`seats STATE` and three pairs: page blocks of 2 MiB in which smaller free blocks lie, by migrate type (unmovable,
movable, reclaimable), the fewest and the most. After the bar: how far it is from one to the next, with how often.

`list STATE zone|cpu TYPE ORDER LEAST MOST`: blocks in a list. After the first bar: how many blocks follow each other in
list and memory (negative: downwards). After the second: the bits of the distance in frames to the next one (negative:
downwards). Each with how often.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from free_lists import CPU_ORDERS, ORDERS, TYPES, Lists

NAMES = ("unmovable", "movable", "reclaimable")
# Blocks of the largest order are what is left, in ascending order.
SMALLER = ORDERS - 1
# Page blocks have 512 frames. The last 8 MiB of memory are the boot allocator's.
SEAT_BITS, BOOT_FRAMES = 9, 2048


def lines(state: str, guests: Sequence[Lists]) -> list[str]:
    """The lines of a state."""
    out = []
    for size in sorted({g.mebibytes for g in guests}):
        held = [(size << 8) - free(g) for g in guests if g.mebibytes == size]
        out.append(f"held {state} {size} {min(held)} {max(held)}")
    seats = [[seats_of(g, kind) for kind in range(TYPES)] for g in guests]
    ranges = [f"{min(map(len, of))} {max(map(len, of))}" for of in zip(*seats, strict=True)]
    gaps: Counter[int] = Counter()
    for of in seats:
        all_of = sorted(set().union(*of))
        gaps += Counter(b - a for a, b in pairwise(all_of))
    out.append(f"seats {state} {' '.join(ranges)} | {counted(gaps)}")
    for place, orders in (("cpu", CPU_ORDERS), ("zone", SMALLER)):
        for order in range(orders):
            for kind, name in enumerate(NAMES):
                lists = [(g.cpu if place == "cpu" else g.zone)[order][kind] for g in guests]
                if any(lists):
                    runs, jumps = shape(lists, order)
                    lengths = f"{min(map(len, lists))} {max(map(len, lists))}"
                    out.append(f"list {state} {place} {name} {order} {lengths} | {counted(runs)} | {counted(jumps)}")
    return out


def free(guest: Lists) -> int:
    """Frames free in the zone and in the CPU's lists."""
    return sum(len(of) << order for lists in (guest.zone, guest.cpu) for order, at in enumerate(lists) for of in at)


def seats_of(guest: Lists, kind: int) -> set[int]:
    """Page blocks in which blocks smaller than one are free."""
    lists = [guest.zone[order][kind] for order in range(SEAT_BITS)] + [at[kind] for at in guest.cpu]
    end = (guest.mebibytes << 8) - BOOT_FRAMES
    return {pfn >> SEAT_BITS for of in lists for pfn in of if pfn < end}


def shape(lists: Sequence[Sequence[int]], order: int) -> tuple[Counter[int], Counter[int]]:
    """Lengths of runs, and jumps from the end of one to the next."""
    runs: Counter[int] = Counter()
    jumps: Counter[int] = Counter()
    for of in lists:
        at = 0
        while at < len(of):
            length, way = 1, 0
            while at + length < len(of):
                gap = of[at + length] - of[at + length - 1]
                if abs(gap) != 1 << order or (way and gap != way):
                    break
                length, way = length + 1, gap
            runs[length if way >= 0 else -length] += 1
            at += length
            if at < len(of):
                gap = of[at] - of[at - 1]
                jumps[gap.bit_length() if gap > 0 else -gap.bit_length()] += 1
    return runs, jumps


def counted(of: Counter[int]) -> str:
    """`3:20 -1:4`: twenty of 3, four of -1."""
    return " ".join(f"{what}:{n}" for what, n in sorted(of.items()))
