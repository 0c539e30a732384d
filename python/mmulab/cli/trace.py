"""`mmulab trace`: look at, check, convert and cut traces."""

from pathlib import Path
from typing import Any

import rich_click as click
from rich.markup import escape
from rich.table import Table

from mmulab import Failure, engine
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, Count, Partial, existing_trace, print_json
from mmulab.cli.reshape import reshape_of, reshape_options
from mmulab.reshaped import reshape_warnings
from mmulab.units import show_bytes, show_count

WRITTEN = ("native", "text", "champsim")
# Mappings that are shown; `--json` has them all.
SHOWN = 30

# How a trace is saved of which only the end is damaged.
COPY = "`mmulab trace convert` writes a whole copy"

_to = click.option(
    "--to", "form", type=click.Choice(WRITTEN), help="The format to write. Default: by TARGET's name (.mmt, .mmtx)."
)


@click.group(context_settings=CONTEXT, no_args_is_help=True)
def trace() -> None:
    """Look at, check, convert and cut traces.

    FILE is a native trace (.mmt), a text trace (.mmtx), or a trace of ChampSim, DynamoRIO (drmemtrace's view tool),
    Valgrind (lackey) or Accel-Sim (kernelslist.g, .traceg). Each may be packed with gzip, xz or zstd.
    gen:NAME?key=value is a generator. accel-sim:FILE?cores=16&warps=32 assigns thread blocks to 16 cores of 32 warps.
    """


@trace.command(context_settings=CONTEXT)
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def info(file: str, as_json: bool) -> None:
    """Summarise FILE: program, instructions, references, pages, memory by mapping. Reads it all."""
    with console.progress("reading") as on_progress:
        found = engine.trace_info(existing_trace(file), on_progress)
    if as_json:
        print_json(found)
    else:
        _show(found)
        for warning in found["warnings"]:
            console.warn(str(warning))
    if not found["complete"]:
        raise Partial(f"{file}: these figures end early: {found['problem']}", found["problem"] == "interrupted")
    if found["problem"]:
        raise Failure(f"{file}: {found['problem']}\nhint: these figures are of all its references; {COPY}")


def _show(found: dict[str, Any]) -> None:
    out = console.out()
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for title, value in _facts(found):
        if value:
            table.add_row(title, escape(value))
    out.print(table)
    if found["events"]:
        out.print()
        events = (f"{count:,} {kind}" for kind, count in found["events"].items())
        out.print(f"[bold]events[/]  {', '.join(events)}")
    if found["mappings"]:
        out.print()
        out.print(_mappings(found["mappings"]))


def _beginning(found: dict[str, Any]) -> str:
    cut, used = found["skipped"], found["used_before_bytes"]
    if cut is None:
        return ""
    return f"{cut:,} instructions into its program" + ("" if used is None else f", with {show_bytes(used)} in use")


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    per = found["bytes_per_instruction"]
    size = "" if found["file_bytes"] is None else show_bytes(found["file_bytes"])
    data = found["reads"] + found["writes"]
    return [
        ("trace", found["name"]),
        ("format", found["format"] + (f", {size}" if size else "")),
        ("program", " ".join([found["program"], *found["args"]]).strip()),
        ("instruction set", found["isa"]),
        ("begins", _beginning(found)),
        ("left out", f"{found['left_out']:,} instructions between intervals" if found["left_out"] else ""),
        ("instructions", f"{found['instructions']:,}" + (f" ({per:.3f} bytes each)" if per else "")),
        ("references", f"{found['references']:,}"),
        ("  fetches", f"{found['fetches']:,} of {found['code_pages']:,} pages"),
        ("  loads, stores", f"{found['reads']:,}, {found['writes']:,}: {data:,} of {found['data_pages']:,} pages"),
        ("footprint", f"{show_bytes(found['footprint_bytes'])} in 4 KB pages"),
        ("processes, threads", f"{found['processes']:,}, {found['threads']:,}"),
        ("mappings", "" if found["has_address_space"] else "not recorded: memory is mapped at the first access"),
        ("hash", found["hash"] or ""),
    ]


def _mappings(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, title="mappings", title_justify="left", title_style="bold", pad_edge=False)
    table.header_style = "dim"
    table.add_column("name", overflow="fold")
    table.add_column("kind")
    table.add_column("rights")
    for column in ("made", "mapped", "code pages", "data pages"):
        table.add_column(column, justify="right")
    for row in rows[:SHOWN]:
        numbers = [f"{row[key]:,}" for key in ("code_pages", "data_pages")]
        mapped = show_bytes(row["mapped_bytes"])
        table.add_row(escape(row["name"]), row["kind"], row["rights"], f"{row['mappings']:,}", mapped, *numbers)
    if len(rows) > SHOWN:
        table.caption = f"and {len(rows) - SHOWN} more with fewer pages (--json lists all)"
        table.caption_justify = "left"
    return table


@trace.command(context_settings=CONTEXT)
@click.argument("file")
@click.option("-n", "--count", type=Count(), default="20", show_default=True, help="How many events and references.")
def head(file: str, count: int) -> None:
    """Show how FILE begins, in text form."""
    found = engine.trace_head(existing_trace(file), count)
    console.echo(found["text"], nl=False)
    if found["problem"]:
        raise Failure(found["problem"])


@trace.command(context_settings=CONTEXT)
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def verify(file: str, as_json: bool) -> None:
    """Check every checksum of FILE, and that it can be read to its end. Exits with 1 if not."""
    with console.progress("checking") as on_progress:
        found = engine.trace_verify(existing_trace(file), on_progress)
    problems = found["problems"]
    if as_json:
        print_json({"ok": not problems, **found})
    counts = f"{found['instructions']:,} instructions, {found['references']:,} references"
    checked = f"{found['chunks']:,} chunks, " if found["checksums"] else ""
    if not problems:
        if not as_json:
            console.echo(f"{file}: whole: {checked}{counts}")
        return
    raise Failure(
        "\n".join(
            [
                f"{file}: {problems[0]}",
                *(f"  {problem}" for problem in problems[1:]),
                f"whole: {checked}{counts}",
                "hint: what comes before the damage can still be run and converted; figures are then marked partial",
            ]
        )
    )


@trace.command(context_settings=CONTEXT)
@click.argument("source")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@_to
@click.option("--max-instructions", type=Count(), help="Stop after this many instructions.")
@click.option(
    "--program-headers",
    is_flag=True,
    help="Add what the program headers of its ELF files say, where the recording lacks it. The files must still be "
    "where they were.",
)
def convert(source: str, target: Path, form: str | None, max_instructions: int | None, program_headers: bool) -> None:
    """Write SOURCE to TARGET in another format.

    Native (.mmt) is small and fast, text (.mmtx) is for people, champsim is for ChampSim. A name that ends in .gz, .xz
    or .zst packs the latter two. What a format cannot hold is told.

    Example: mmulab trace convert 600.perlbench_s-210B.champsimtrace.xz perlbench.mmt --max-instructions 100M
    """
    _copy(source, target, form, 0, max_instructions, {"program_headers": program_headers})


@trace.command(context_settings=CONTEXT)
@click.argument("source")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@_to
@reshape_options
def reshape(source: str, target: Path, form: str | None, **others: Any) -> None:
    """Write SOURCE to TARGET as it would be had the program been made otherwise.

    Its ELF files are laid out as a linker would with that maxpagesize, and loaded as Linux loads them. Another
    allocator keeps its heap. References and changes of memory follow. `run`, `explain` and `study` take the same
    options.

    Example: mmulab trace reshape prog.mmt prog-2m.mmt --max-page-size 2M
    """
    change = reshape_of(others)
    if change is None:
        raise click.UsageError("nothing is to be changed\nhint: add --max-page-size 2M, or another of the options")
    _copy(source, target, form, 0, None, {"reshape": change})


@trace.command("slice", context_settings=CONTEXT)
@click.argument("source")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--start", type=Count(), default="0", show_default=True, help="Instructions left out at the beginning.")
@click.option("--end", type=Count(), help="First instruction no longer kept. Default: the end.")
@_to
def slice_(source: str, target: Path, start: int, end: int | None, form: str | None) -> None:
    """Write a part of SOURCE to TARGET, with the address space as it was at its beginning.

    The bounds are rounded outwards to whole blocks of code.
    """
    if end is not None and end <= start:
        raise click.UsageError(
            f"--end {end} is not after --start {start}\nhint: both count instructions from the beginning"
        )
    _copy(source, target, form, start, end)


def _copy(
    source: str,
    target: Path,
    form: str | None,
    start: int,
    end: int | None,
    change: dict[str, Any] | None = None,
) -> None:
    form = form or engine.trace_format(str(target))
    if form is None:
        raise click.UsageError(f"{target}: the name has no ending of a format\nhint: add --to {'|'.join(WRITTEN)}")
    with console.progress("writing", end) as on_progress:
        found = engine.trace_copy(existing_trace(source), str(target), form, start, end, change, on_progress)
    parts = [f"{show_count(found[key])} {key}" for key in ("instructions", "references")]
    if found["bytes"]:
        parts.append(show_bytes(found["bytes"]))
    if found["kept"]:
        console.say(f"wrote {target}: {', '.join(parts)}")
    for lost in found["lost"]:
        console.warn(f"{target}: {lost}")
    for warning in [*found["warnings"], *reshape_warnings(found["reshaped"])]:
        console.warn(warning)
    if found["stopped"] and found["complete"]:
        raise Failure(f"{found['stopped']}\nhint: all its references were read: {target} is whole")
    if found["stopped"]:
        kept = (
            f"{target} is valid up to there and says so itself"
            if found["kept"]
            else f"{target} was not written, since its format cannot say that it is cut"
        )
        raise Partial(f"{found['stopped']}: {kept}", found["interrupted"])
