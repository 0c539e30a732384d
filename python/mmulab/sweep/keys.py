"""Keys of a table in a sweep file: those that nobody reads are refused, with the nearest that is."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from mmulab import UserError


def only_known(data: dict[str, Any], known: Iterable[str], place: str, what: str) -> None:
    """Raises UserError for a key that is not `known`. `what` has the keys, `place` says where they stand."""
    for key in data:
        if key not in known:
            near = get_close_matches(key, known, 1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise UserError(f"{place}: {key}: {what} has no such key\nhint: {meant}keys: {', '.join(known)}")
