"""`mmulab contiguity`: how well the pages of a program lie together in memory."""

from typing import Any

import rich_click as click

from mmulab import contiguity, engine
from mmulab.cli import console
from mmulab.cli.common import (
    CONTEXT,
    Numbers,
    engine_options,
    existing_trace,
    options_of,
    print_json,
    raise_if_partial,
    set_option,
)
from mmulab.cli.subject import machine_argument, policy_option, trace_option
from mmulab.tables import plain

# Where distributions are read off, in the table.
QUANTILES = (0.25, 0.5, 0.75)


@click.command("contiguity", context_settings=CONTEXT)
@machine_argument
@trace_option
@policy_option("linux-thp")
@click.option(
    "--memhog",
    type=Numbers(100),
    default=(),
    help="Beside a program that holds this percentage of memory, each in turn.",
)
@set_option
@click.option("--json", "as_json", is_flag=True, help="Write JSON, with every length of runs.")
@engine_options
def command(
    machine: str, trace: str, policy: str, memhog: tuple[int, ...], sets: tuple[str, ...], as_json: bool, **others: Any
) -> None:
    """Run a trace on MACHINE and report the lengths of runs of pages that are contiguous in virtual and physical
    memory.

    Average contiguity is the length of a page's run, averaged over all pages of a size: 1.5 for runs of 1, 1 and 2.

    Example: mmulab contiguity haswell-mix-baseline --trace prog.mmt --memhog 0,20,40,60,80
    """
    jobs = [engine.Job(machine, policy, (*sets, *contiguity.memhog(p))) for p in memhog] or [
        engine.Job(machine, policy, sets)
    ]
    options = options_of(others)
    with console.progress("running", options.max_instructions) as on_progress:
        ran = engine.run(existing_trace(trace), jobs, options, on_progress)
    rows = []
    held: list[int | None] = [*memhog] or [None]
    for percent, result in zip(held, ran.results, strict=True):
        result.check()
        rows += contiguity.rows(result, percent)
    if as_json:
        print_json([vars(row) | {"cdf": row.cdf} for row in rows])
        raise_if_partial(ran.results)
        return
    table = plain()
    if memhog:
        table.add_column("memhog", justify="right")
    table.add_column("pages of")
    for name in ("pages", "of the footprint", "runs", "average"):
        table.add_column(name, justify="right")
    for share in QUANTILES:
        table.add_column(f"{share:.0%} in runs of", justify="right")
    for row in rows:
        at = [f"{row.percent} %"] if memhog else []
        quantiles = [f"{row.quantile(q):,}" for q in QUANTILES]
        table.add_row(
            *at, row.size, f"{row.pages:,}", f"{row.share:.1%}", f"{row.runs:,}", f"{row.average:,.1f}", *quantiles
        )
    console.out().print(table)
    raise_if_partial(ran.results)
