"""A picture of a Pareto front over several columns: each pair in a panel, with all jobs and the front's."""

from collections.abc import Sequence

from mmulab import UserError, svg
from mmulab.sweep.front import Row
from mmulab.sweep.plots import axis_label

# Columns whose pairs still fit on a page: 15 panels.
COLUMNS_MAX = 6
# Inches of one panel.
PANEL_WIDTH, PANEL_HEIGHT = 3.4, 2.7


def pairs(
    rows: Sequence[Row], columns: Sequence[str], front: Sequence[Row], units: dict[str, str] | None = None
) -> str:
    """SVG. A column of panels for each of `columns` but the last, a row for each but the first."""
    if not 2 <= len(columns) <= COLUMNS_MAX:
        raise UserError(
            f"a picture of pairs needs 2 to {COLUMNS_MAX} columns, not {len(columns)}\n"
            "hint: give others, or leave the picture out"
        )
    valued = [row for row in rows if all(row[name] is not None for name in columns)]
    if not valued:
        raise UserError(f"no job has values of {', '.join(columns)}\nhint: give other columns")
    side = len(columns) - 1
    figure, axes = svg.start(side, PANEL_WIDTH * side, PANEL_HEIGHT * side, side)
    drawn = []
    for down, y in enumerate(columns[1:]):
        for across, x in enumerate(columns[:-1]):
            axis = axes[down][across]
            if across > down:
                axis.set_axis_off()
                continue
            drawn.append(axis)
            axis.plot(*_points(valued, x, y), "o", color=svg.COLOURS[-1], markersize=3, label="jobs")
            axis.plot(*_points(front, x, y), "D", color=svg.COLOURS[1], markersize=4, label="Pareto front")
            axis.set_xlabel(axis_label(x, units))
            axis.set_ylabel(axis_label(y, units))
    return svg.finish(figure, drawn, "best", lines="both")


def _points(rows: Sequence[Row], x: str, y: str) -> tuple[list[float], list[float]]:
    return [row[x] for row in rows], [row[y] for row in rows]
