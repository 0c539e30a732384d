"""Plots of a sweep: one column over another, a series for each value of a third; and the Pareto front of both."""

from collections.abc import Sequence
from typing import Any

from mmulab import UserError, svg
from mmulab.sweep.front import Row

# Series that a reader can still keep apart.
SERIES_MAX = 20
MARKERS = "osD^v<>Pph"
WIDTH, HEIGHT = 6.4, 4.2


def plot(
    rows: Sequence[Row],
    x: str,
    y: str,
    by: str | None = None,
    *,
    units: dict[str, str] | None = None,
    log: Sequence[str] = (),
    front: Sequence[Row] = (),
) -> str:
    """SVG. A series with one value for each number of `x` is a line, as a miss-ratio curve is; others are points.

    `units`: of columns, for the axes. `log`: `x`, `y` or both. `front`: rows that are joined by a line.
    """
    valued = [row for row in rows if row[x] is not None and row[y] is not None]
    if not valued:
        raise UserError(f"no job has values of {x} and {y}\nhint: give other columns")
    for name in log:
        column = {"x": x, "y": y}[name]
        if any(isinstance(row[column], str | bool) or row[column] <= 0 for row in valued):
            raise UserError(f"{column} has values that are not above 0\nhint: leave out --log {name}")
    series: dict[Any, list[Row]] = {}
    for row in valued:
        series.setdefault(row[by] if by else None, []).append(row)
    if len(series) > SERIES_MAX:
        raise UserError(
            f"{by} has {len(series)} values; at most {SERIES_MAX} series are drawn\nhint: give another --by"
        )
    figure, axes = svg.start(1, WIDTH, HEIGHT)
    axis = axes[0][0]
    for number, (value, part) in enumerate(series.items()):
        colour, marker = svg.COLOURS[number % len(svg.COLOURS)], MARKERS[number // len(svg.COLOURS) % len(MARKERS)]
        line, part = _as_curve(part, x)
        axis.plot(
            [_shown(row[x]) for row in part],
            [_shown(row[y]) for row in part],
            line,
            marker=marker,
            markersize=4,
            color=colour,
            label=None if by is None else f"{by} {value}",
        )
    if front:
        axis.plot([r[x] for r in front], [r[y] for r in front], "-", color="#222222", linewidth=1, label="Pareto front")
    for name in log:
        getattr(axis, f"set_{name}scale")("log", base=2 if name == "x" else 10)
    axis.set_xlabel(axis_label(x, units))
    axis.set_ylabel(axis_label(y, units))
    return svg.finish(figure, [axis], "best", lines="both")


def _as_curve(rows: list[Row], x: str) -> tuple[str, list[Row]]:
    """`-` and the rows in the order of `x` if they are a curve; else an empty style, for points alone."""
    numbers = not any(isinstance(row[x], str | bool) for row in rows)
    is_curve = numbers and len({row[x] for row in rows}) == len(rows) > 1
    return ("-", sorted(rows, key=lambda row: float(row[x]))) if is_curve else ("", rows)


def _shown(value: Any) -> Any:
    """Truth values by their names, as texts are."""
    return str(value).lower() if isinstance(value, bool) else value


def axis_label(column: str, units: dict[str, str] | None) -> str:
    """A column with its unit, for an axis."""
    unit = (units or {}).get(column, "")
    return f"{column} ({unit})" if unit not in ("", column) else column
