"""Pareto fronts: the jobs that no other job beats in any number of columns, each with its direction."""

from collections.abc import Collection, Sequence
from typing import Any

from mmulab import UserError

Row = dict[str, Any]


def front(rows: Sequence[Row], columns: Sequence[str], most: Collection[str] = ()) -> list[Row]:
    """The rows of the front, best in the first column first.

    One row beats another if it is at least as good in every column and better in one. Less is better, but in the
    columns of `most`. Rows without a value in one of the columns do not count.
    """
    valued = [row for row in rows if all(row[name] is not None for name in columns)]
    for name in columns:
        if any(isinstance(row[name], str | bool) for row in valued):
            raise UserError(
                f"{name} has no numbers, of which less or more could be better\nhint: give a column of numbers"
            )
    signs = [(name, -1 if name in most else 1) for name in columns]
    costed = sorted(
        ((tuple(sign * row[name] for name, sign in signs), row) for row in valued), key=lambda pair: pair[0]
    )
    found: list[tuple[tuple[Any, ...], Row]] = []
    for cost, row in costed:
        # In this order, only rows of the front that come before can beat a row; those found last are the nearest.
        if not any(_beats(other, cost) for other, _ in reversed(found)):
            found.append((cost, row))
    return [row for _, row in found]


def _beats(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
