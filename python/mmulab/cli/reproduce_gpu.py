"""`mmulab reproduce gpu-tlbs`: designs for all page sizes on shader cores."""

from dataclasses import replace
from pathlib import Path

import rich_click as click

from mmulab import UserError
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, Names, set_option
from mmulab.cli.findings import finish
from mmulab.reproduce import gpu_tlbs as experiment
from mmulab.reproduce.all_page_sizes import DESIGNS


@click.command("gpu-tlbs", context_settings=CONTEXT)
@click.option("--programs", type=Names(), help="Of them only these, such as bfs,srad. Default: all.")
@click.option("--designs", type=Names(), default=DESIGNS, show_default=",".join(DESIGNS))
@click.option("--quick", is_flag=True, help="Small stretches, in a minute: to see what it does.")
@set_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also keep everything there; what was run before with the same settings is taken from it.",
)
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also put the tables into this page, between its marks, and plots beside it.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON in place of the tables.")
def gpu_tlbs(
    programs: tuple[str, ...] | None,
    designs: tuple[str, ...],
    quick: bool,
    sets: tuple[str, ...],
    out: Path | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Designs for all page sizes on shader cores, in the area of split TLBs (paper 4, Figures 9, 11 and 14 to 17):
    Rodinia's programs with pages of 4 KB, of 2 MB, and with those that Linux finds beside a program that holds 0, 20
    or 60 % of memory. Memory is 8 GB and programs are of 1 to 2 GB. It takes a quarter of an hour, and 4 GB of memory.

    DIR gets gpu-tlbs.json and .md, plots of Figures 13 and 16, and a file for each program.

    Example: mmulab reproduce gpu-tlbs --quick --programs srad
    """
    chosen = experiment.PROGRAMS
    if programs:
        known = {program.name: program for program in chosen}
        unknown = [name for name in programs if name not in known]
        if unknown:
            raise UserError(f"{unknown[0]}: no such program\nhint: these are {', '.join(known)}")
        chosen = tuple(known[name] for name in programs)
    from mmulab.reproduce import gpu_tables

    plan = experiment.Plan(programs=chosen, designs=designs, sets=sets, kept=out)
    if quick:
        plan = replace(plan, instructions=experiment.QUICK_INSTRUCTIONS)
    with console.progress("running programs", closing=False) as hear:
        outcome = experiment.run(plan, lambda n, of, name: console.say(f"{n}/{of} {name}"), hear)
    finish(
        "gpu-tlbs",
        gpu_tables.tables(outcome),
        outcome.data(),
        out=out,
        page=page,
        as_json=as_json,
        complete=outcome.complete,
        plots=gpu_tables.plots(outcome),
        again="with --out, run it again",
    )
