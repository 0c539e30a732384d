"""Pareto fronts: the jobs that no other job beats in both of two columns."""

from collections.abc import Collection, Sequence
from typing import Any

from mmulab import UserError

Row = dict[str, Any]


def front(rows: Sequence[Row], x: str, y: str, most: Collection[str] = ()) -> list[Row]:
    """The rows of the front, by `x`. Less is better, but in the columns of `most`. Rows without values do not count."""
    valued = [row for row in rows if row[x] is not None and row[y] is not None]
    for name in (x, y):
        if any(isinstance(row[name], str | bool) for row in valued):
            raise UserError(
                f"{name} has no numbers, of which less or more could be better\nhint: give a column of numbers"
            )
    sign = {name: -1 if name in most else 1 for name in (x, y)}
    by_cost = sorted(valued, key=lambda row: (sign[x] * row[x], sign[y] * row[y]))
    found: list[Row] = []
    for row in by_cost:
        best = found[-1] if found else None
        # Rows that are equal in both columns beat none of each other.
        if best is None or sign[y] * row[y] < sign[y] * best[y] or (row[x], row[y]) == (best[x], best[y]):
            found.append(row)
    return found
