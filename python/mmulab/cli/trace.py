"""`mmulab trace`: look at, check, convert and cut traces."""

from pathlib import Path
from typing import Any

import rich_click as click
from rich.table import Table

from mmulab import Failure, engine
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, Count, existing_trace, print_json
from mmulab.units import show_bytes, show_count


@click.group(context_settings=CONTEXT, no_args_is_help=True)
def trace() -> None:
    """Look at, check, convert and cut traces.

    FILE is a text trace (.mmtx) or gen:NAME?key=value.
    """


@trace.command(context_settings=CONTEXT)
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def info(file: str, as_json: bool) -> None:
    """Summarise FILE: program, instructions, references, pages, memory by mapping. Reads it all."""
    with console.progress("reading") as hear:
        found = engine.trace_info(existing_trace(file), hear)
    if as_json:
        print_json(found)
        return
    out = console.out()
    facts, lists = _flatten(found)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for key, value in facts:
        table.add_row(key, value)
    out.print(table)
    for title, rows in lists:
        out.print()
        out.print(_rows(title, rows))
    for warning in found.get("warnings", []):
        console.warn(str(warning))


def _flatten(found: dict[str, Any]) -> tuple[list[tuple[str, str]], list[tuple[str, list[dict[str, Any]]]]]:
    facts: list[tuple[str, str]] = []
    lists: list[tuple[str, list[dict[str, Any]]]] = []
    for key, value in found.items():
        title = key.replace("_", " ")
        if key == "warnings" or value is None:
            continue
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lists.append((title, value))
        elif isinstance(value, list):
            facts.append((title, " ".join(map(str, value))))
        elif isinstance(value, dict):
            inner_facts, inner_lists = _flatten(value)
            facts += inner_facts
            lists += inner_lists
        else:
            facts.append((title, _cell(key, value)))
    return facts, lists


def _rows(title: str, rows: list[dict[str, Any]]) -> Table:
    keys = [k for k in rows[0] if not isinstance(rows[0][k], list | dict)]
    table = Table(box=None, title=title, title_justify="left", title_style="bold", pad_edge=False, header_style="dim")
    for key in keys:
        number = (
            any(isinstance(row.get(key), int) for row in rows) and "addr" not in key and key not in ("start", "end")
        )
        table.add_column(key.replace("_", " "), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(key, row.get(key)) for key in keys))
    return table


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        if key in ("start", "end", "addr"):
            return f"{value:#x}"
        return show_bytes(value) if "bytes" in key or key == "len" else f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@trace.command(context_settings=CONTEXT)
@click.argument("file")
@click.option("-n", "--count", type=Count(), default="20", show_default=True, help="How many events and references.")
def head(file: str, count: int) -> None:
    """Show how FILE begins, in text form."""
    click.echo(engine.trace_head(existing_trace(file), count).rstrip("\n"))


@trace.command(context_settings=CONTEXT)
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def verify(file: str, as_json: bool) -> None:
    """Read all of FILE and say whether it is whole. Exits with 1 if it is not."""
    found = engine.trace_verify(existing_trace(file))
    good = bool(found.get("ok", True))
    if as_json:
        print_json(found)
    elif good:
        facts, _ = _flatten({k: v for k, v in found.items() if k != "ok"})
        click.echo(f"{file}: whole. " + ", ".join(f"{key} {value}" for key, value in facts))
    if not good:
        problems = found.get("problems") or found.get("problem") or found.get("message") or "damaged"
        listed = "; ".join(map(str, problems)) if isinstance(problems, list) else str(problems)
        raise Failure(
            f"{file}: {listed}\nhint: what comes before the damage can still be run; figures are then marked partial"
        )


@trace.command(context_settings=CONTEXT)
@click.argument("source")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
def convert(source: str, target: Path) -> None:
    """Write SOURCE to TARGET in text form."""
    _written(target, engine.trace_convert(existing_trace(source), str(target)))


@trace.command("slice", context_settings=CONTEXT)
@click.argument("source")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--start", type=Count(), default="0", show_default=True, help="First instruction kept.")
@click.option("--end", type=Count(), help="First instruction no longer kept. Default: the end.")
def slice_(source: str, target: Path, start: int, end: int | None) -> None:
    """Write a stretch of SOURCE to TARGET in text form, with the address space as it was at its beginning."""
    if end is not None and end <= start:
        raise click.UsageError(
            f"--end {end} is not after --start {start}\nhint: both count instructions from the beginning"
        )
    _written(target, engine.trace_slice(existing_trace(source), str(target), start, end))


def _written(target: Path, found: dict[str, Any]) -> None:
    parts = [f"{show_count(found[key])} {key}" for key in ("instructions", "references") if found.get(key) is not None]
    size = show_bytes(target.stat().st_size) if target.exists() else ""
    console.say(f"wrote {target}: " + ", ".join([*parts, size] if size else parts))
    for warning in found.get("warnings", []):
        console.warn(str(warning))
