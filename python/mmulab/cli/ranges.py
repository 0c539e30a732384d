"""Ranges that schemas declare of numbers and sizes, in words."""

from typing import Any


def range_text(field: dict[str, Any]) -> str:
    """The range that a field declares, and whether only powers of two of it are allowed."""
    least, most = (field.get(f"x-{end}", field.get(word)) for end, word in (("least", "minimum"), ("most", "maximum")))
    if least is None or most is None:
        items = field.get("items")
        inner = range_text(items) if isinstance(items, dict) else ""
        # Of a list of lists, the numbers are meant.
        return inner if not inner or inner.startswith(", each") else f", each{inner[1:]}"
    power = ", a power of two" if field.get("x-power-of-two") else ""
    return f", {_limit(least)} to {_limit(most)}{power}"


def _limit(limit: Any) -> str:
    return str(limit) if isinstance(limit, str | int) else f"{limit:.15g}"
