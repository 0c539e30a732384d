"""What memory has been through when a program starts, where nobody says: what a real machine's has."""

from collections.abc import Sequence

# Free memory in perfect order has pages lie together by coincidence as no real memory does.
USED = "memory.aged=used"
# A recorded system has just booted.
BOOTED = "memory.aged=booted"
# What says it otherwise.
KEYS = ("memory.aged=", "memory.fragment")


def unless_said(sets: Sequence[str], default: str = USED) -> tuple[str, ...]:
    """The assignments of a run: memory as by default, unless they say themselves what it is like."""
    said = any(assignment.startswith(KEYS) for assignment in sets)
    return tuple(sets) if said else (default, *sets)
