"""`mmulab reproduce together`: TLBs, page tables and kernels of several papers, each with each."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import rich_click as click

from mmulab.cli import console, programs
from mmulab.cli.common import CONTEXT, engine_options, existing_trace, options_of, set_option
from mmulab.cli.findings import finish


@click.command("together", context_settings=CONTEXT)
@programs.TRACE
@programs.RECORDED
@programs.QUICK
@click.option("--fresh", is_flag=True, help="Run all again. Default: take what was run before from the cache.")
@programs.PAGE
@programs.MACHINE
@set_option
@programs.OUT
@programs.JSON
@engine_options
def together(
    trace: str | None,
    recorded: tuple[str, ...],
    quick: bool,
    fresh: bool,
    page: Path | None,
    machine: str,
    sets: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **others: Any,
) -> None:
    """Coalescing TLBs in the area of split ones, over page tables with levels merged and not, under kernels that keep
    memory together in one way or another: what no paper shows, on one machine.

    Without --trace, programs stand for paper 4's, 1 M instructions of each (--max-instructions) after their memory is
    there: some minutes. All is against the split TLBs over the radix table under the same kernel; memory is 16 GB
    unless --set memory.size=... says otherwise. DIR gets together.json and .md.

    Example: mmulab reproduce together --trace 'gen:gups?footprint=2G&init=true'
    """
    from mmulab.reproduce import together as experiment

    plan = experiment.Plan(machine=machine, sets=sets, options=options_of(others))
    if trace is not None:
        programs.only_without_trace(recorded=recorded, quick=quick)
        plan = plan.of_trace(existing_trace(trace))
    else:
        plan = replace(plan, programs=(*plan.programs, *programs.recordings(recorded)))
        plan = plan.quick() if quick else plan
        plan = replace(plan, instructions=plan.options.max_instructions or plan.instructions)
    with console.progress("running systems", closing=False) as hear:
        outcome = experiment.run(plan, programs.store(hear, fresh))
    finish(
        "together",
        outcome.tables(),
        outcome.data(),
        out=out,
        page=page,
        as_json=as_json,
        complete=outcome.complete,
    )
