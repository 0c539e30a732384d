"""`mmulab reproduce together`: TLBs, page tables and kernels of several papers, each with each."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import rich_click as click

from mmulab.cli import completion, console
from mmulab.cli.common import CONTEXT, engine_options, existing_trace, options_of, set_option
from mmulab.cli.findings import finish
from mmulab.reproduce import all_page_sizes


@click.command("together", context_settings=CONTEXT)
@click.option(
    "--trace",
    metavar="FILE",
    help="A trace of any format, or gen:NAME?key=value. Default: what stands for paper 4's programs.",
    shell_complete=completion.trace,
)
@click.option(
    "--recorded",
    multiple=True,
    metavar="FILE",
    help="A recording to have among the paper's programs. Repeatable.",
    shell_complete=completion.trace,
)
@click.option("--quick", is_flag=True, help="The paper's programs small, in seconds: to see what it does.")
@click.option("--fresh", is_flag=True, help="Run all again. Default: take what was run before from the cache.")
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also put the tables into this page, between its marks.",
)
@click.option(
    "--machine",
    default=all_page_sizes.BASELINE,
    show_default=True,
    help="Whose TLBs, and whose area.",
    shell_complete=completion.machine,
)
@set_option
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Also keep everything there."
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON in place of the tables.")
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
    from mmulab.reproduce.cells import Figures, Store
    from mmulab.reproduce.mix import programs

    plan = experiment.Plan(machine=machine, sets=sets, options=options_of(others))
    if trace is not None:
        for name, given in (("recorded", recorded), ("quick", quick)):
            if given:
                raise click.UsageError(f"--{name} is for the paper's programs: leave out --trace, or --{name}")
        plan = plan.of_trace(existing_trace(trace))
    else:
        files = (programs.recorded(Path(existing_trace(file))) for file in recorded)
        plan = replace(plan, programs=(*plan.programs, *files))
        plan = plan.quick() if quick else plan
        plan = replace(plan, instructions=plan.options.max_instructions or plan.instructions)
    with console.progress("running systems", closing=False) as hear:

        def told(done: int, of: int, name: str, figures: Figures) -> None:
            console.say(f"{done}/{of} {name}: {figures.walks:,} walks")

        outcome = experiment.run(plan, Store(told, hear, fresh))
    finish(
        "together",
        outcome.tables(),
        outcome.data(),
        out=out,
        page=page,
        as_json=as_json,
        complete=outcome.complete,
    )
