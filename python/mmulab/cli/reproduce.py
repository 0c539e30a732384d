"""`mmulab reproduce`: experiments of the papers."""

import io
from pathlib import Path
from typing import Any

import rich_click as click

from mmulab.cli import (
    completion,
    console,
    reproduce_compendia,
    reproduce_forecast,
    reproduce_gpu,
    reproduce_mix,
    reproduce_mosaics,
    reproduce_speedups,
    reproduce_together,
)
from mmulab.cli.common import (
    CONTEXT,
    engine_options,
    existing_trace,
    in_place_of,
    options_of,
    print_json,
    raise_if_partial,
    set_option,
)
from mmulab.cli.reshape import Allocator
from mmulab.cli.subject import policy_option
from mmulab.reproduce import EXPERIMENTS, group_size
from mmulab.reproduce.columns import ZEN3
from mmulab.reproduce.published import WORKLOADS
from mmulab.result import json_text, write_text
from mmulab.tables import plain
from mmulab.visible import VisibleConsole


@click.group(context_settings=CONTEXT)
def reproduce() -> None:
    """Run an experiment of a paper on descriptions of its machines."""


@reproduce.command("list", context_settings=CONTEXT)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def listing(as_json: bool) -> None:
    """List the experiments."""
    if as_json:
        print_json([vars(e) for e in EXPERIMENTS])
        return
    table = plain()
    for name in ("experiment", "what it is", "from"):
        table.add_column(name)
    for e in EXPERIMENTS:
        table.add_row(e.name, e.title, e.source)
    console.out().print(table)


_trace = click.option(
    "--trace",
    required=True,
    metavar="FILE",
    help="A trace of any format, or gen:NAME?key=value.",
    shell_complete=completion.trace,
)
_out = click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Also keep everything there."
)
_json = click.option("--json", "as_json", is_flag=True, help="Write JSON in place of the table.")


@reproduce.command("pte-coalescing-table", context_settings=CONTEXT)
@_trace
@click.option(
    "--freebsd-trace",
    metavar="FILE",
    help="The trace for the columns of FreeBSD binaries, such as one with FreeBSD's malloc. Default: the same.",
    shell_complete=completion.trace,
)
@click.option(
    "--freebsd-heap",
    type=Allocator(),
    default="jemalloc",
    show_default=True,
    help="The allocator of FreeBSD binaries, where the trace tells the heap's objects (`record --heap`).",
)
@click.option(
    "--beside",
    type=click.Choice(sorted(WORKLOADS)),
    help="Print the paper's figures of this workload beside, and where the directions differ.",
)
@set_option
@_out
@_json
@engine_options
def pte_coalescing_table(
    trace: str,
    freebsd_trace: str | None,
    freebsd_heap: dict[str, Any],
    beside: str | None,
    sets: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **others: Any,
) -> None:
    """The evaluation tables of paper 1 for a trace: 23 counters of the DTLB, the ITLB and cycles, under Linux and
    FreeBSD, with and without reservations and superpages, on a 5900X and a 2700X.

    Memory is as a used Linux leaves it unless --set memory.aged=off or memory.fragment... says otherwise. DIR gets
    table.txt, table.csv, table.json, table.html and results/*.json.

    Example: mmulab reproduce pte-coalescing-table --trace clang.mmt --beside clang
    """
    from mmulab.reproduce import coalescing_table, render

    given = None if freebsd_trace is None else existing_trace(freebsd_trace)
    plan = coalescing_table.Plan(existing_trace(trace), given, freebsd_heap, sets, options_of(others))
    with console.progress("running 13 columns", plan.options.max_instructions) as hear:
        table = coalescing_table.run(plan, hear)
    for warning in table.warnings:
        console.warn(warning)
    if out:
        again = in_place_of(out / "table.json", "an earlier table")
        for key, result in table.results.items():
            write_text(out / "results" / f"{key.replace(':', '-')}.json", json_text(result.data))
        write_text(out / "table.json", json_text(table.data(beside)))
        write_text(out / "table.csv", render.as_csv(table, beside))
        write_text(out / "table.html", render.as_html(table, beside))
        text = VisibleConsole(file=io.StringIO(), width=console.PIPE_WIDTH, highlight=False, no_color=True)
        render.show(text, table, beside)
        assert isinstance(text.file, io.StringIO)
        write_text(out / "table.txt", text.file.getvalue())
        console.say(f"wrote {out}/table.txt, table.csv, table.json, table.html and results/{again}")
    if as_json:
        print_json(table.data(beside))
    else:
        render.show(console.out(), table, beside)
    raise_if_partial(list(table.results.values()))


@reproduce.command("pte-coalescing-group-size", context_settings=CONTEXT)
@click.option(
    "--trace",
    metavar="FILE",
    help="A recording whose code and data are looked at too.",
    shell_complete=completion.trace,
)
@click.option(
    "--machine", default=ZEN3, show_default=True, help="A machine that coalesces.", shell_complete=completion.machine
)
@policy_option(group_size.POLICY)
@set_option
@_out
@_json
@engine_options
def pte_coalescing_group_size(
    trace: str | None,
    machine: str,
    policy: str,
    sets: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **others: Any,
) -> None:
    """Groups of 16 KB against groups of 32 KB on one machine (paper 1, section 5.4): what sparsely used code and
    densely used data make of each, and from which share of pages touched on the larger ones win.

    DIR gets sizes.txt and sizes.json.

    Example: mmulab reproduce pte-coalescing-group-size --trace clang.mmt
    """
    from mmulab.reproduce import render_sizes

    given = None if trace is None else existing_trace(trace)
    plan = group_size.Plan(given, machine, policy, sets, options_of(others))
    with console.progress("running group sizes", closing=False) as hear:
        outcome = group_size.run(plan, hear)
    if out:
        text = VisibleConsole(file=io.StringIO(), width=console.PIPE_WIDTH, highlight=False, no_color=True)
        render_sizes.show(text, outcome)
        assert isinstance(text.file, io.StringIO)
        again = in_place_of(out / "sizes.json", "an earlier table")
        write_text(out / "sizes.txt", text.file.getvalue())
        write_text(out / "sizes.json", json_text(outcome.data()))
        console.say(f"wrote {out}/sizes.txt and sizes.json{again}")
    if as_json:
        print_json(outcome.data())
    else:
        render_sizes.show(console.out(), outcome)
    raise_if_partial(outcome.results)


for _command in (
    reproduce_mix.mix_tlbs,
    reproduce_mix.mix_sets,
    reproduce_compendia.figure_15,
    reproduce_compendia.thresholds,
    reproduce_compendia.speedup,
    reproduce_gpu.gpu_tlbs,
    reproduce_together.together,
    reproduce_forecast.forecast,
    reproduce_mosaics.mosaics,
    reproduce_speedups.speedups,
):
    reproduce.add_command(_command)
