"""`mmulab microbench`: what a TLB coalesces, found out by short programs."""

from collections.abc import Callable
from typing import Any, TypeVar

import rich_click as click
from rich.table import Table

from mmulab import engine
from mmulab import microbench as bench
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, check_option, print_json, set_option
from mmulab.cli.numbers import Size
from mmulab.cli.subject import machine_argument, policy_option

F = TypeVar("F", bound=Callable[..., Any])


def _repeats(what: str, text: str) -> Callable[[F], F]:
    return click.option(f"--{what}-repeats", type=click.IntRange(1, 10**9), default=1, show_default=True, help=text)


@click.command(context_settings=CONTEXT)
@machine_argument
@click.argument("program")
@policy_option(bench.POLICY)
@set_option
@click.option(
    "--region",
    type=Size("2M", "1T", "2M"),
    default="8M",
    show_default=True,
    help="Memory to run over, a multiple of 2M.",
)
@click.option(
    "--group",
    type=click.IntRange(0, 512),
    default=0,
    help="Pages of a group. Default: what the machine's data TLB coalesces.",
)
@click.option("--write-protect", is_flag=True, help="Write-protect the region before the program begins.")
@_repeats("operation", "Do each operation so often.")
@_repeats("local", "Do a word so often to a group before the next group.")
@_repeats("global", "Do a word so often to all groups before the next word.")
@_repeats("trace", "Do the whole program so often.")
@click.option("--pages", is_flag=True, help="Tell at the end which pages are valid, accessed, modified.")
@click.option("--json", "as_json", is_flag=True, help="Write all of it as JSON.")
@check_option
def microbench(
    machine: str,
    program: str,
    policy: str,
    sets: tuple[str, ...],
    as_json: bool,
    pages: bool,
    check: str | None,
    **plan: Any,
) -> None:
    """Run PROGRAM over every group of pages of a region on MACHINE, sampling the TLB's counters after each word.

    An operation is r, w or i (load, store, INVLPG) with the number of a page in its group. A word is operations between
    blanks, done to one group after another. Colons separate words. MACHINE is a name that `mmulab machines` lists, a
    TOML file, or `live`: this computer, if it is an AMD Zen with performance counters.

    Example: mmulab microbench zen3-5900x "r0: r1: r2: r3: r0"
    """
    job = None if machine == bench.LIVE else engine.Job(machine, policy, sets)
    if job is None and (sets or check):
        raise click.UsageError("live: --set and --check are for simulated machines")
    measured = bench.run(program, job, bench.Plan(**plan), pages, engine.Options(check=check))
    if measured.note:
        console.warn(measured.note)
    if as_json:
        print_json({"machine": machine, "policy": policy if job else None, **vars(measured)})
        return
    out = console.out()
    out.print(_table(measured))
    if measured.pages is not None:
        out.print(_states(measured))


def _table(measured: bench.Measured) -> Table:
    group = int(measured.plan["group"])
    title = f"L1 DTLB misses over {measured.groups} groups of {group} pages, by what was reloaded"
    table = Table(title=title, title_justify="left")
    if int(measured.plan["trace_repeats"]) > 1:
        table.add_column("round", justify="right")
    table.add_column("word")
    for name in ("4K, L2 miss", "4K, L2 hit", "coalesced, L2 miss", "coalesced, L2 hit"):
        table.add_column(name, justify="right")
    for sample in measured.samples:
        cells = [str(sample["text"]), *(f"{sample[name]:,}" for name in bench.COUNTERS)]
        table.add_row(*([str(sample["round"])] if len(table.columns) > len(cells) else []), *cells)
    return table


def _states(measured: bench.Measured) -> Table:
    """How many pages are in each state, by their place in the group."""
    group = int(measured.plan["group"])
    pages = measured.pages or []
    table = Table(title="Pages afterwards, by their place in the group", title_justify="left")
    for name in ("page", "valid", "accessed", "modified"):
        table.add_column(name, justify="right")
    for place in range(group):
        mine = pages[place::group]

        def count(key: str, mine: list[dict[str, Any]] = mine) -> str:
            known = [page[key] for page in mine if page[key] is not None]
            return f"{sum(known):,}" if known else "not recorded"

        table.add_row(str(place), count("valid"), count("accessed"), count("modified"))
    return table
