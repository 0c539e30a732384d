"""`mmulab reproduce speedups`: modelled speed-ups by page size beside those that others timed on hardware."""

from pathlib import Path
from typing import Any

import rich_click as click

from mmulab import UserError
from mmulab.cli import console, programs
from mmulab.cli.common import CONTEXT, Names, engine_options, options_of, set_option
from mmulab.cli.findings import finish


@click.command("speedups", context_settings=CONTEXT)
@click.option("--programs", "names", type=Names(), help="Only these programs. Default: all.")
@click.option("--quick", is_flag=True, help="Small inputs, in seconds: to see what it does.")
@programs.PAGE
@set_option
@programs.OUT
@programs.JSON
@engine_options
def speedups(
    names: tuple[str, ...] | None,
    quick: bool,
    page: Path | None,
    sets: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **others: Any,
) -> None:
    """Times that others measured on a Neoverse N1, a Ryzen 5900X and a 2700X under several page sizes, beside times of
    mmulab's cores.

    Each program is a generator of the same algorithm, mostly with a smaller input: 40 M instructions of it
    (--max-instructions), by samples, after its memory is there. Takes about ten minutes of one core. DIR gets
    speedups.json and .md.

    Example: mmulab reproduce speedups --programs gups,btree
    """
    from mmulab.reproduce import speedups as experiment

    rows = experiment.published()
    if names:
        unknown = [name for name in names if name not in experiment.PROGRAMS]
        if unknown:
            raise UserError(f"--programs: '{unknown[0]}' is none\nhint: give some of {', '.join(experiment.PROGRAMS)}")
        rows = tuple(row for row in rows if row.program in names)
    plan = experiment.Plan(rows, quick, sets, options_of(others))
    with console.progress("running programs", closing=False) as hear:
        outcome = experiment.run(plan, lambda share: hear({"fraction": share}))
    finish("speedups", outcome.tables(), outcome.data(), out=out, page=page, as_json=as_json, complete=outcome.complete)
