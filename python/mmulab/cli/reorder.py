"""`mmulab reorder`: an order of a program's functions by the calls of a recording, and what it would give."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import rich_click as click

from mmulab import UserError, engine
from mmulab.cli import completion, console
from mmulab.cli.common import (
    CONTEXT,
    Names,
    engine_options,
    existing_trace,
    options_of,
    print_json,
    raise_if_partial,
    set_option,
)
from mmulab.result import Result, json_text, write_text
from mmulab.tables import plain
from mmulab.units import parse_bytes, show_bytes, show_percent, show_rate

Json = dict[str, Any]
# The same kernel three times: code on base pages, on superpages where whole ones fit, and padded to whole ones.
POLICIES = ("freebsd-code-4k", "freebsd-code-1", "freebsd-code-padded")
# Files that are listed, those with the most instructions first.
LISTED = 8


def read_functions(path: Path) -> dict[str, list[tuple[int, int, str]]]:
    """The functions of a text file, by the file that they are in: lines of path, offset, bytes and name."""
    found: dict[str, list[tuple[int, int, str]]] = {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {getattr(error, 'strerror', None) or 'not a text file'}") from None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split(None, 3)
        if not words:
            continue
        try:
            file, offset, size = words[0], int(words[1], 0), int(words[2], 0)
            if offset < 0 or size <= 0:
                raise ValueError
        except (IndexError, ValueError):
            raise UserError(
                f"{path}:{number}: '{line}' is not a function\n"
                "hint: write the path of its file, its offset and bytes in that file, and a name, as in "
                "/usr/bin/prog 0x1000 64 main"
            ) from None
        found.setdefault(file, []).append((offset, size, words[3].strip() if len(words) > 3 else ""))
    return found


@click.command("reorder", context_settings=CONTEXT)
@click.argument("trace", shell_complete=completion.trace)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the order, for `--order FILE` of run, explain, study and trace reshape.",
)
@click.option(
    "--functions",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Functions of files whose own symbols are not to be used: lines of PATH OFFSET BYTES NAME.",
)
@click.option("--cluster", metavar="SIZE", help="The most bytes of functions that are put together. Default: 1M.")
@click.option(
    "--machine",
    help="Run the recording on this machine, as it was and in this order.",
    shell_complete=completion.machine,
)
@click.option(
    "--policies",
    type=Names(),
    default=POLICIES,
    show_default=",".join(POLICIES),
    help="With --machine: under these policies.",
)
@set_option
@click.option("--json", "as_json", is_flag=True, help="Write JSON, with the order.")
@engine_options
def command(
    trace: str,
    out: Path | None,
    functions: Path | None,
    cluster: str | None,
    machine: str | None,
    policies: tuple[str, ...],
    sets: tuple[str, ...],
    as_json: bool,
    **others: Any,
) -> None:
    """Order the functions of a program by the calls that a recording of it makes: callers beside what they call most.

    The order is that of call-chain clustering (C3; Ottoni and Maher, CGO 2017). With --machine, the recording is run as
    it was and in the new order, beside what larger pages give.

    Example: mmulab reorder prog.mmt --machine skylake-e3-1240v5 --out prog.order
    """
    options = options_of(others)
    if (options.reshape or {}).get("order"):
        raise click.UsageError("--order is what this command finds\nhint: leave it out")
    spec: Json = {"trace": existing_trace(trace)}
    if functions is not None:
        spec["functions"] = read_functions(functions)
    if cluster is not None:
        size = parse_bytes(cluster)
        if not size:
            raise UserError(f"--cluster: '{cluster}' is not a size\nhint: write bytes, or a number with K, M or G")
        spec["cluster_bytes"] = size
    if options.max_instructions is not None:
        spec["max_instructions"] = options.max_instructions
    with console.progress("counting calls", options.max_instructions) as on_progress:
        found = engine.reorder(spec, on_progress)
    if found["interrupted"]:
        raise KeyboardInterrupt
    order, results = found["order"], []
    if out is not None:
        write_text(out, json_text(order))
        console.say(f"wrote {out}: {sum(len(file['moves']) for file in order['files']):,} functions move")
    if machine is not None:
        jobs = [engine.Job(machine, policy, sets) for policy in policies]
        changed = replace(options, reshape={**(options.reshape or {}), "order": order})
        for what, how in (("as recorded", options), ("reordered", changed)):
            with console.progress(f"running {what}", options.max_instructions) as on_progress:
                results.append(engine.run(trace, jobs, how, on_progress).results)
        for result in (result for row in results for result in row):
            result.check()
    for file in found["files"]:
        if file["unknown"]:
            console.warn(f"{file['path']}: its functions are not known ({file['unknown']}): they keep their order")
    if as_json:
        runs = [[result.data for result in row] for row in results]
        print_json({**found, "runs": dict(zip(("recorded", "ordered"), runs, strict=False))})
    else:
        _show_files(found)
        if results:
            _show_runs(*results)
    raise_if_partial([result for row in results for result in row])


def _show_files(found: Json) -> None:
    table = plain()
    table.add_column("file", no_wrap=True)
    for name in ("instructions", "in functions\nthat are known", "functions", "that ran", "their bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("their pages,\nas linked", justify="right", no_wrap=True)
    table.add_column("in this\norder", justify="right", no_wrap=True)
    total = found["instructions"] or 1
    files = sorted(found["files"], key=lambda file: -(file["instructions"] + file["elsewhere"]))
    for file in files[:LISTED]:
        all_of_it = file["instructions"] + file["elsewhere"]
        table.add_row(
            file["path"],
            show_percent(all_of_it / total),
            show_percent(file["instructions"] / (all_of_it or 1)),
            f"{file['functions']:,}",
            f"{file['ran']:,}",
            show_bytes(file["ran_bytes"]),
            f"{file['pages']:,}",
            f"{file['ordered_pages']:,}",
        )
    console.out().print(table)
    if len(files) > LISTED:
        console.out().print(f"{len(files) - LISTED} more files are in the JSON.", style="dim")


def _show_runs(recorded: list[Result], ordered: list[Result]) -> None:
    """Misses for instructions as recorded and in the new order, policy by policy."""
    table = plain()
    table.add_column("\npolicy", no_wrap=True)
    for name in ("L1I misses\nas linked", "\nreordered", "L2I misses\nas linked", "\nreordered"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("translation of user\ntime, as linked", justify="right", no_wrap=True)
    table.add_column("\nreordered", justify="right", no_wrap=True)
    for before, after in zip(recorded, ordered, strict=True):
        rates = [show_rate(result.mpki(level)) for level in ("l1i", "l2i") for result in (before, after)]
        shares = [show_percent(result.translation_share) for result in (before, after)]
        table.add_row(before.policy, *rates, *shares)
    console.out().print()
    console.out().print(table)
    console.out().print("Misses per 1000 instructions.", style="dim")
