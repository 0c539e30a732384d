"""`mmulab pages`: where a real kernel had a program's pages, beside where simulated ones put them."""

from typing import Any

import rich_click as click

from mmulab import UserError, contiguity, engine
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, Names, engine_options, existing_trace, options_of, print_json, set_option
from mmulab.cli.subject import machine_argument, trace_option
from mmulab.tables import plain

REAL = "recorded"


@click.command("pages", context_settings=CONTEXT)
@machine_argument
@trace_option
@click.option(
    "--policies",
    type=Names(),
    default=("linux-4k", "linux-thp"),
    show_default="linux-4k,linux-thp",
    help="The simulated kernels' page policies.",
)
@set_option
@click.option("--json", "as_json", is_flag=True, help="Write JSON, with every length of runs.")
@engine_options
def command(
    machine: str, trace: str, policies: tuple[str, ...], sets: tuple[str, ...], as_json: bool, **others: Any
) -> None:
    """Compare the pages that Linux gave a recorded program with those that simulated kernels give it on MACHINE.

    The trace must tell where pages lay: record it with --system --user-only. Average contiguity is the length of the
    run that a page is in, over all pages of a size.

    Example: mmulab pages skylake-e3-1240v5 --trace prog.mmt --set memory.size=1G
    """
    path = existing_trace(trace)
    with console.progress("reading", None) as hear:
        real = engine.recorded_pages(path, hear)
    if real["by_size"] is None:
        raise UserError(f"{trace}: it does not tell where pages lay\nhint: record it with --system --user-only")
    if real["with_kernel"]:
        raise UserError(
            f"{trace}: it tells of the kernel, too, whose pages a simulated kernel keeps among the programs'\n"
            "hint: record it with --system --user-only"
        )
    options = options_of(others)
    with console.progress("running", options.max_instructions) as hear:
        ran = engine.run(path, [engine.Job(machine, policy, sets) for policy in policies], options, hear)
    rows = {REAL: contiguity.rows_of(real["by_size"])}
    for policy, result in zip(policies, ran.results, strict=True):
        result.check()
        rows[policy] = contiguity.rows(result)
    if as_json:
        print_json({kernel: [vars(row) | {"cdf": row.cdf} for row in of] for kernel, of in rows.items()})
        return
    table = plain()
    table.add_column("kernel")
    table.add_column("pages of")
    for name in ("pages", "of the footprint", "runs", "average"):
        table.add_column(name, justify="right")
    for kernel, of in rows.items():
        for row in of:
            table.add_row(
                kernel, row.size, f"{row.pages:,}", f"{row.share:.1%}", f"{row.runs:,}", f"{row.average:,.1f}"
            )
    console.out().print(table)
