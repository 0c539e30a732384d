"""`mmulab reproduce mix-...`: experiments of paper 4."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click

from mmulab import engine
from mmulab.cli import console
from mmulab.cli import programs as shared
from mmulab.cli.common import (
    CONTEXT,
    Names,
    Numbers,
    engine_options,
    existing_trace,
    in_place_of,
    options_of,
    print_json,
    raise_if_partial,
    set_option,
)
from mmulab.cli.findings import finish
from mmulab.reproduce import all_page_sizes
from mmulab.result import json_text, write_text
from mmulab.tables import plain
from mmulab.units import show_percent

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = [
    shared.TRACE,
    shared.RECORDED,
    shared.QUICK,
    click.option("--fresh", is_flag=True, help="Run the paper's programs again. Default: take them from the cache."),
    click.option(
        "--page",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Of the paper's programs: also put the tables into this page, between its marks, and plots beside it.",
    ),
    set_option,
    shared.OUT,
    shared.JSON,
    engine_options,
]


def _options(function: F) -> F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _show_designs(rows: list[all_page_sizes.Row]) -> None:
    for title, of in (
        ("Faster than the split TLBs", lambda c: show_percent(c.gain, signed=True)),
        ("Slower than TLBs that never miss", lambda c: "-" if c.overhead is None else show_percent(c.overhead)),
        ("Translation energy saved", lambda c: show_percent(c.energy_saved, signed=True)),
    ):
        table = plain()
        table.add_column(title)
        for cell in rows[0].cells:
            table.add_column(cell.design, justify="right")
        for row in rows:
            table.add_row(row.name, *map(of, row.cells))
        console.out().print(table)
        console.out().print()


def _finish(rows: list[all_page_sizes.Row], name: str, out: Path | None, as_json: bool) -> None:
    results = [cell.result for row in rows for cell in row.cells]
    for result in results:
        result.check()
    data = [row.data() for row in rows]
    if out:
        again = in_place_of(out / name, "an earlier run's")
        write_text(out / name, json_text(data))
        console.say(f"wrote {out}/{name}{again}")
    if as_json:
        print_json(data)
    else:
        _show_designs(rows)
    raise_if_partial(results)


def _known(designs: tuple[str, ...]) -> tuple[str, ...]:
    from mmulab.reproduce.mix.suite import DESIGNS

    for name in designs:
        if name not in DESIGNS:
            raise click.UsageError(f"design '{name}' is not one of {', '.join(DESIGNS)}")
    return designs


def _suite(
    experiment: str,
    recorded: tuple[str, ...],
    quick: bool,
    fresh: bool,
    page: Path | None,
    sets: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    others: dict[str, Any],
    **plan: Any,
) -> None:
    """The paper's programs."""
    from dataclasses import replace

    from mmulab.reproduce.mix import plots, programs, suite, tables
    from mmulab.reproduce.mix import sets as of_sets

    chosen = (*programs.PROGRAMS, *shared.recordings(recorded))
    made = suite.Plan.quick(chosen) if quick else suite.Plan(chosen)
    options = options_of(others)
    made = replace(made, sets=sets, options=options, instructions=options.max_instructions or made.instructions, **plan)
    with console.progress("running designs", closing=False) as hear:
        store = shared.store(hear, fresh)
        outcome = suite.run(made, store) if experiment == "mix-tlbs" else of_sets.run(made, store)
    found = tables.tables(outcome) if experiment == "mix-tlbs" else of_sets.tables(outcome)
    drawn = plots.plots(outcome) if experiment == "mix-tlbs" else {}
    finish(
        experiment,
        found,
        outcome.data(),
        out=out,
        page=page,
        as_json=as_json,
        complete=outcome.complete,
        plots=drawn,
    )


@click.command("mix-tlbs", context_settings=CONTEXT)
@shared.MACHINE
@click.option("--designs", type=Names(), default=None, help="Default: all.")
@click.option(
    "--group",
    "groups",
    type=click.IntRange(1, 512),
    nargs=2,
    default=engine.MIX_GROUPS,
    show_default=True,
    help="With --trace, MIX: L1's and L2's bundles.",
)
@click.option(
    "--vms",
    type=Numbers(64),
    default=all_page_sizes.VMS,
    show_default=True,
    help="Also in so many virtual machines, each running the program, with memhog in each; 0 for none.",
)
@_options
def mix_tlbs(
    trace: str | None,
    machine: str,
    designs: tuple[str, ...] | None,
    groups: tuple[int, int],
    vms: tuple[int, ...],
    sets: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    recorded: tuple[str, ...],
    quick: bool,
    fresh: bool,
    page: Path | None,
    **others: Any,
) -> None:
    """Designs for all page sizes, in the area of a machine's split TLBs: with pages of one size only, with those that
    Linux finds beside a program that holds 0 to 80 % of memory, and in virtual machines (paper 4, Figures 9 to 18).

    Without --trace, programs stand for the paper's: 80 GB of memory, 1 M instructions of each (--max-instructions),
    some ten minutes. Each run is kept: one that was stopped goes on where it was. DIR gets mix-tlbs.md, .json and
    plots of Figures 12, 13 and 16.
    With it, memory is 8 GB unless --set memory.size=... says otherwise; DIR gets designs.json.

    Example: mmulab reproduce mix-tlbs --trace 'gen:gups?footprint=2G'
    """
    chosen = tuple(n for n in vms if n)
    if trace is None:
        more = {} if designs is None else {"designs": _known(designs)}
        _suite(
            "mix-tlbs", recorded, quick, fresh, page, sets, out, as_json, others, machine=machine, vms=chosen, **more
        )
        return
    shared.only_without_trace(recorded=recorded, quick=quick, fresh=fresh, page=page)
    wanted = all_page_sizes.DESIGNS if designs is None else designs
    plan = all_page_sizes.Plan(
        existing_trace(trace), machine, wanted, groups=groups, vms=chosen, sets=sets, options=options_of(others)
    )
    with console.progress("running designs", plan.options.max_instructions) as hear:
        rows = all_page_sizes.run(plan, hear)
    _finish(rows, "designs.json", out, as_json)


@click.command("mix-sets", context_settings=CONTEXT)
@_options
def mix_sets(
    trace: str | None,
    sets: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    recorded: tuple[str, ...],
    quick: bool,
    fresh: bool,
    page: Path | None,
    **others: Any,
) -> None:
    """MIX with 16 to 512 sets in the second level, at one number of entries (paper 4, section 7.2): more sets need
    longer bundles.

    Without --trace, for programs that stand for the paper's, as in mix-tlbs; DIR gets mix-sets.md and .json. With
    it, DIR gets sets.json.

    Example: mmulab reproduce mix-sets --trace 'gen:gups?footprint=2G'
    """
    if trace is None:
        _suite("mix-sets", recorded, quick, fresh, page, sets, out, as_json, others)
        return
    shared.only_without_trace(recorded=recorded, quick=quick, fresh=fresh, page=page)
    plan = all_page_sizes.Plan(existing_trace(trace), sets=sets, options=options_of(others))
    with console.progress("running sets", plan.options.max_instructions) as hear:
        rows = all_page_sizes.run_sets(plan, hear)
    _finish(rows, "sets.json", out, as_json)
