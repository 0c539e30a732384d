"""Ranges that schemas declare of numbers and sizes, in words."""

from typing import Any


def range_text(field: dict[str, Any]) -> str:
    """The range that a field declares, and whether only powers of two of it are allowed."""
    least, most = (field.get(f"x-{end}", field.get(word)) for end, word in (("least", "minimum"), ("most", "maximum")))
    if least is None or most is None:
        items = field.get("items")
        return f", each{range_text(items)[1:]}" if isinstance(items, dict) and range_text(items) else ""
    power = ", a power of two" if field.get("x-power-of-two") else ""
    return f", {_limit(least)} to {_limit(most)}{power}"


def _limit(limit: Any) -> str:
    return str(limit) if isinstance(limit, str | int) else f"{limit:.15g}"
