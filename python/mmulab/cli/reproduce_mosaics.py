"""`mmulab reproduce mosaics`: models fitted to programs under mosaics, and how far they are off for held-back ones."""

from pathlib import Path

import rich_click as click

from mmulab import engine
from mmulab.cli import completion, console, programs
from mmulab.cli.common import CONTEXT, Names, set_option
from mmulab.cli.findings import finish
from mmulab.cli.mosaics import machine_of
from mmulab.mosmodel.fit import FEWEST
from mmulab.stopwatch.pairs import FEWEST as FEWEST_PAIRS


@click.command("mosaics", context_settings=CONTEXT)
@click.option(
    "--machine",
    shell_complete=completion.machines,
    help="A description of this computer. Default: what `mmulab probe` wrote.",
)
@set_option
@click.option("--cases", type=Names(), help="Only these programs of `mmulab reproduce forecast`. Default: all.")
@click.option("--mosaics", type=click.IntRange(FEWEST, 1000), default=12, show_default=True, help="Of each program.")
@click.option(
    "--pairs", type=click.IntRange(FEWEST_PAIRS, 1000), default=10, show_default=True, help="Runs of each mosaic."
)
@click.option(
    "--max-instructions",
    type=click.IntRange(1_000_000),
    default=200_000_000,
    show_default=True,
    help="Simulate this many instructions of a program at most.",
)
@programs.work_option("build/mosaics")
@programs.PAGE
@programs.OUT
@programs.JSON
def mosaics(
    machine: str | None,
    sets: tuple[str, ...],
    cases: tuple[str, ...] | None,
    mosaics: int,
    pairs: int,
    max_instructions: int,
    work: Path,
    page: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Time programs on this computer under mosaics of 2 MB and 4 KB pages, fit a model to each program (Mosmodel), and
    say how far it is off for mosaics that it was not fitted to.

    Stop other programs meanwhile. Recordings take some GB of disk. DIR gets mosaics.json and .md.

    Example: mmulab reproduce mosaics --cases 'gups 512M,B-tree'
    """
    from mmulab.forecast import mosaics as experiment
    from mmulab.forecast.cases import find

    described = machine_of(machine)
    engine.resolve(engine.Job(described, "linux-thp", sets))
    plan = experiment.Plan(find(cases or ()), described, sets, mosaics, pairs, max_instructions, work)
    with console.progress("timing and modelling", closing=False) as hear:
        outcome = experiment.run(plan, lambda share: hear({"fraction": share}))
    finish("mosaics", outcome.tables(), outcome.data(), out=out, page=page, as_json=as_json, complete=outcome.complete)
