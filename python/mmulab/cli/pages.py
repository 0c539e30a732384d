"""`mmulab pages`: where a real kernel had a program's pages, beside where simulated ones put them."""

from typing import Any

import rich_click as click

from mmulab import UserError, aged, contiguity, engine
from mmulab.cli import console
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
from mmulab.cli.subject import machine_argument, trace_option
from mmulab.tables import plain

REAL = "recorded"
# The blocks that the table tells of: sixteen base pages, which is what an entry with Arm's contiguous bit is one of.
BLOCK = "64K"
# A recorded system has its files in memory from its boot on.
AS_RECORDED = ("policy.linux.page_cache=warm",)


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
@click.option("--by-kind", is_flag=True, help="Tell code, files, heap, stacks and anonymous mappings apart.")
@click.option(
    "--memhog",
    type=click.IntRange(0, 95),
    metavar="PERCENT",
    help="Have so much of the simulated memory held, as record --memhog had of the real one.",
)
@click.option("--memhog-chunk", metavar="SIZE", help="In chunks of this size. Default: the machine's, or 2M.")
@set_option
@click.option("--json", "as_json", is_flag=True, help="Write JSON, with every length of runs.")
@engine_options
def command(
    machine: str,
    trace: str,
    policies: tuple[str, ...],
    by_kind: bool,
    memhog: int | None,
    memhog_chunk: str | None,
    sets: tuple[str, ...],
    as_json: bool,
    **others: Any,
) -> None:
    """Compare the pages that Linux gave a recorded program with those that simulated kernels give it on MACHINE.

    The trace must contain the physical frames of its pages: record it with --system --user-only. Memory is as a boot
    leaves it, unless memory.aged is set. Files are in it before the program starts, as they were then, unless
    policy.linux.page_cache is set. Average contiguity is the length of a page's run, averaged over all pages of a size.
    Blocks of 64K are aligned in both memories.

    Example: mmulab pages skylake-e3-1240v5 --trace prog.mmt --set memory.size=1G
    """
    path = existing_trace(trace)
    with console.progress("reading", None) as on_progress:
        real = engine.recorded_pages(path, on_progress)
    if real["by_size"] is None:
        raise UserError(
            f"{trace}: the trace does not contain the physical frames of its pages\n"
            "hint: record it with --system --user-only"
        )
    if real["with_kernel"]:
        raise UserError(
            f"{trace}: it contains the kernel, too, whose pages a simulated kernel keeps among the programs'\n"
            "hint: record it with --system --user-only"
        )
    sets = (*AS_RECORDED, *sets)
    if memhog is not None:
        sets = (*sets, *contiguity.memhog(memhog, memhog_chunk))
    elif memhog_chunk:
        raise click.UsageError("--memhog-chunk says how memory is held\nhint: say with --memhog how much")
    sets = aged.unless_said(sets, aged.BOOTED)
    options = options_of(others)
    with console.progress("running", options.max_instructions) as on_progress:
        ran = engine.run(path, [engine.Job(machine, policy, sets) for policy in policies], options, on_progress)
    rows = {REAL: contiguity.rows_by_kind(real["by_kind"]) if by_kind else contiguity.rows_of(real["by_size"])}
    for policy, result in zip(policies, ran.results, strict=True):
        result.check()
        rows[policy] = contiguity.by_kind(result) if by_kind else contiguity.rows(result)
    if as_json:
        print_json({kernel: [vars(row) | {"cdf": row.cdf} for row in of] for kernel, of in rows.items()})
        raise_if_partial(ran.results)
        return
    table = plain()
    table.add_column("kernel")
    if by_kind:
        table.add_column("kind")
    table.add_column("pages of")
    for name in ("pages", "of the footprint", "runs", "average", f"in blocks of {BLOCK}"):
        table.add_column(name, justify="right")
    for kernel, of in rows.items():
        total = sum(row.bytes for row in of)
        for row in of:
            blocks = f"{row.in_blocks[BLOCK] / row.pages:.1%}" if BLOCK in row.in_blocks else ""
            table.add_row(
                kernel,
                *([row.kind] if by_kind else []),
                row.size,
                f"{row.pages:,}",
                f"{row.bytes / total:.1%}",
                f"{row.runs:,}",
                f"{row.average:,.1f}",
                blocks,
            )
    console.out().print(table)
    raise_if_partial(ran.results)
