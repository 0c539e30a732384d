"""Keys of a table in a sweep file: those that nobody reads are refused, with the nearest that is; numbers and sizes."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from mmulab import UserError, units


def only_known(data: dict[str, Any], known: Iterable[str], place: str, what: str) -> None:
    """Raises UserError for a key that is not `known`. `what` has the keys, `place` says where they stand."""
    for key in data:
        if key not in known:
            near = get_close_matches(key, known, 1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise UserError(f"{place}: {key}: {what} has no such key\nhint: {meant}keys: {', '.join(known)}")


def parse_count(table: dict[str, Any], key: str, most: int, place: str) -> int:
    """A whole number from 1 to `most`; 1 if there is none. Raises UserError for anything else."""
    found = table.get(key, 1)
    if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= most:
        raise UserError(f"{place}.{key}: {found!r}: give 1 to {most}")
    return found


def parse_memory(table: dict[str, Any], place: str, of: str) -> int:
    """The bytes of `memory`, which each `of` (a job, a pod) is to have. Raises UserError if there is no such number."""
    found = table.get("memory")
    size = units.parse_bytes(found) if isinstance(found, str) else None
    if not size:
        raise UserError(f'{place}.memory: {found!r}: give the memory of each {of}, as "8G"')
    return size
