"""Results of earlier layouts: their keys under the names of today.

A layout whose keys only changed their names is read like the newest one. Where a key changed its meaning, the trace has
to be run again.
"""

from typing import Any

# The oldest layout whose keys differ in nothing but their names.
OLDEST = 3

# Of layout 3: names in any table, and reasons why runs ended.
_KEYS = {
    "violations": "segfaults",
    "happenings": "events",
    "unheld": "no_l1_array",
    "guide_writes": "walk_table_writes",
    "guides": "walk_tables",
    "guide_lines": "walk_table_lines",
}
_REASONS = {"violation": "segfault"}


def today(data: dict[str, Any], schema: int) -> dict[str, Any]:
    """`data`, a result of a layout from `OLDEST` on, in layout `schema`."""
    renamed: dict[str, Any] = _renamed(data)
    ended = renamed.get("ended")
    if isinstance(ended, dict) and ended.get("reason") in _REASONS:
        ended["reason"] = _REASONS[ended["reason"]]
    renamed["schema"] = schema
    return renamed


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {_KEYS.get(key, key): _renamed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner) for inner in value]
    return value
