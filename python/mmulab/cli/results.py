"""`mmulab results`: the tables of a sweep asked, listed and drawn."""

import csv
import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import rich_click as click
from rich.markup import escape

from mmulab import sweep
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, in_place_of, print_json
from mmulab.result import write_text
from mmulab.sweep.front import front as pareto
from mmulab.sweep.results import TABLES, Answer
from mmulab.tables import plain
from mmulab.visible import visible

_DIRECTORY = click.argument("directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
_FORMAT = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How to print.",
)
_WHERE = click.option("--where", metavar="SQL", help="Only jobs that meet this condition, as policy = 'linux-thp'.")


@click.group(context_settings=CONTEXT)
def results() -> None:
    """Ask, list and draw the results of a sweep."""


@results.command("query", context_settings=CONTEXT)
@_DIRECTORY
@click.argument("sql", default="SELECT * FROM jobs ORDER BY job")
@_FORMAT
def query(directory: Path, sql: str, form: str) -> None:
    """Print the answer to an SQL query over the tables jobs, regions and functions of DIR. Without a query: all jobs.

    Example: mmulab results query sweep-stlb "SELECT entries, avg(walks) FROM jobs GROUP BY entries" --format csv
    """
    _print(sweep.Results(directory).query(sql), form)


@results.command("columns", context_settings=CONTEXT)
@_DIRECTORY
@_FORMAT
def columns(directory: Path, form: str) -> None:
    """List the columns of all tables with their units and meanings."""
    found = sweep.Results(directory)
    rows: list[tuple[Any, ...]] = [(name, *row) for name in TABLES for row in found.columns(name)]
    _print(Answer(["table", "column", "type", "unit", "meaning"], rows), form)


@results.command("front", context_settings=CONTEXT)
@_DIRECTORY
@click.option("--least", metavar="COLUMN", multiple=True, help="A column in which less is better. Repeatable.")
@click.option("--most", metavar="COLUMN", multiple=True, help="A column in which more is better. Repeatable.")
@_WHERE
@_FORMAT
@click.option(
    "--plot",
    "picture",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw every pair of the columns, with all jobs and those of the front, into this SVG file.",
)
def front(
    directory: Path,
    least: tuple[str, ...],
    most: tuple[str, ...],
    where: str | None,
    form: str,
    picture: Path | None,
) -> None:
    """List the jobs of the Pareto front: those that no other job beats in all columns together.

    One job beats another if it is at least as good in every column and better in one.

    Example: mmulab results front sweep-stlb --least cycles --least tlb_area --least energy_nj --plot front.svg
    """
    if not least and not most:
        raise click.UsageError("the front of which columns? Give --least or --most, or several of them")
    found = sweep.Results(directory)
    columns = [*least, *most]
    rows = found.front(least, most, where)
    if picture is not None:
        # Imported here: matplotlib is of no use to a query.
        from mmulab.sweep.pairs import pairs

        units = {name: unit for name, _, unit, _ in found.columns("jobs")}
        _write(picture, pairs(found.values(columns, where), columns, rows, units))
    names = list(dict.fromkeys(["job", *found.axes, *columns]))
    _print(Answer(names, [tuple(row[name] for name in names) for row in rows]), form)


@results.command("plot", context_settings=CONTEXT)
@_DIRECTORY
@click.option("--x", required=True, metavar="COLUMN", help="The column along the horizontal axis.")
@click.option("--y", required=True, metavar="COLUMN", help="The column along the vertical axis.")
@click.option("--by", metavar="COLUMN", help="A series for each value of this column.")
@click.option("--log", type=click.Choice(["x", "y"]), multiple=True, help="A logarithmic axis. Repeatable.")
@click.option("--front", "with_front", is_flag=True, help="Draw the Pareto front of both columns, too.")
@_WHERE
@click.option(
    "--most",
    type=click.Choice(["x", "y"]),
    multiple=True,
    help="With --front: more is better in this column (less is, otherwise). Repeatable.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The SVG file. Default: DIR/Y-by-X.svg.",
)
def plot(
    directory: Path,
    x: str,
    y: str,
    by: str | None,
    log: tuple[str, ...],
    with_front: bool,
    where: str | None,
    most: tuple[str, ...],
    out: Path | None,
) -> None:
    """Draw one column of a sweep over another.

    Example: mmulab results plot sweep-stlb --x entries --y l2d_miss_ratio --by policy --log x
    """
    if most and not with_front:
        raise click.UsageError("--most is of the Pareto front: give --front too")
    found = sweep.Results(directory)
    rows = found.values(list(dict.fromkeys([x, y, *([by] if by else [])])), where)
    # Imported here: matplotlib is of no use to a query.
    from mmulab.sweep.plots import plot as drawn

    units = {name: unit for name, _, unit, _ in found.columns("jobs")}
    best = pareto(rows, (x, y), [{"x": x, "y": y}[name] for name in most]) if with_front else []
    _write(out or directory / f"{y}-by-{x}.svg", drawn(rows, x, y, by, units=units, log=log, front=best))


def _write(path: Path, text: str) -> None:
    replaced = in_place_of(path, "the plot")
    write_text(path, text)
    console.say(f"wrote {path}{replaced}")


def _print(answer: Answer, form: str) -> None:
    if form == "json":
        print_json([dict(zip(answer.columns, map(_plain, row), strict=True)) for row in answer.rows])
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(map(visible, answer.columns))
        writer.writerows([visible("" if value is None else str(value)) for value in row] for row in answer.rows)
    else:
        table = plain()
        numbers = [
            all(isinstance(row[i], int | float | Decimal | None) for row in answer.rows)
            for i in range(len(answer.columns))
        ]
        for name, is_number in zip(answer.columns, numbers, strict=True):
            table.add_column(escape(name), justify="right" if is_number else "left")
        for row in answer.rows:
            table.add_row(*(escape(_cell(value)) for value in row))
        console.out().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    """What JSON has: SQL has sums of any size, dates, and numbers that are none."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)
