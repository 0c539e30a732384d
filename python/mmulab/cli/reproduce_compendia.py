"""`mmulab reproduce compendia-...`: experiments of paper 5."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click

from mmulab.cli import completion, console
from mmulab.cli.common import CONTEXT, existing_trace
from mmulab.cli.findings import finish

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = [
    click.option("--quick", is_flag=True, help="Small programs, in seconds: to see what it does."),
    click.option("--fresh", is_flag=True, help="Run again what was run before. Default: take it from the cache."),
    click.option(
        "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Also keep everything there."
    ),
    click.option(
        "--page",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Also put the tables into this page, between its marks, and the plot beside it.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Write JSON in place of the tables."),
]
_trace = click.option(
    "--trace",
    metavar="FILE",
    help="A recorded compiler to have among the programs, such as tests/data/cc1-small.mmt.",
    shell_complete=completion.trace,
)


def _options(function: F) -> F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _store(what: str, fresh: bool, body: Callable[[Any], Any]) -> Any:
    """Runs `body` with a store that tells of each run."""
    from mmulab.reproduce.cells import Figures, Store

    with console.progress(what, closing=False) as hear:

        def told(done: int, of: int, name: str, figures: Figures) -> None:
            console.say(f"{done}/{of} {name}: {figures.per_walk:.3f} entries a walk")

        return body(Store(told, hear, fresh))


def _finish(experiment: str, outcome: Any, plot: str, out: Path | None, page: Path | None, as_json: bool) -> None:
    tables, data, complete = outcome.tables(), outcome.data(), outcome.complete
    finish(experiment, tables, data, out=out, page=page, as_json=as_json, complete=complete, plots={"": plot})


@click.command("compendia-figure-15", context_settings=CONTEXT)
@click.option("--updates", type=click.IntRange(1, 10**12), help="Updates of each run. Default: 60000.")
@_options
def figure_15(
    updates: int | None, quick: bool, fresh: bool, out: Path | None, page: Path | None, as_json: bool
) -> None:
    """Entries that a walk reads for random updates of 16 MiB to 256 GiB (paper 5, figure 15): by 4 KiB and by huge
    pages, with tables merged and not; on the machine itself, and in a virtual one whose guest, host or both merge.
    Beside each figure stands the closed form of docs/gups-curve.md. It takes some ten minutes, and 3 GB of memory.

    Each run is kept: one that was stopped goes on where it was. DIR gets compendia-figure-15.md, .json and .svg.

    Example: mmulab reproduce compendia-figure-15 --quick
    """
    from dataclasses import replace

    from mmulab.reproduce.compendia import figure_15 as experiment
    from mmulab.reproduce.compendia import plots

    plan = experiment.Plan.quick() if quick else experiment.Plan()
    if updates:
        plan = replace(plan, updates=updates)
    outcome = _store("running sizes", fresh, lambda store: experiment.run(plan, store))
    _finish("compendia-figure-15", outcome, plots.of_figure_15(outcome), out, page, as_json)


@click.command("compendia-thresholds", context_settings=CONTEXT)
@_trace
@click.option("--whole", is_flag=True, help="Run the programs whole for each threshold, not their misses: much slower.")
@_options
def thresholds(
    trace: str | None, whole: bool, quick: bool, fresh: bool, out: Path | None, page: Path | None, as_json: bool
) -> None:
    """From how many children on page tables should be merged (paper 5, section 6.1): never, always, and from 1/16 to
    7/8, over updates, graph search, a hash join, a B-tree and a compiler, if there is a recording. Misses of a program
    are taken once, and walked again under every threshold.

    DIR gets compendia-thresholds.md, .json and .svg.

    Example: mmulab reproduce compendia-thresholds --trace tests/data/cc1-small.mmt
    """
    from mmulab.reproduce.compendia import plots, workloads
    from mmulab.reproduce.compendia import thresholds as experiment

    chosen = [workloads.FEW_UPDATES, *workloads.only("random updates", "graph search", "hash join", "B-tree")]
    plan = experiment.Plan(
        _chosen([*chosen, workloads.SPREAD], trace, quick),
        experiment.QUICK_INSTRUCTIONS if quick else experiment.INSTRUCTIONS,
        not whole,
    )
    outcome = _store("walking misses", fresh, lambda store: experiment.run(plan, store))
    _finish("compendia-thresholds", outcome, plots.of_thresholds(outcome), out, page, as_json)


@click.command("compendia-speedup", context_settings=CONTEXT)
@_trace
@_options
def speedup(trace: str | None, quick: bool, fresh: bool, out: Path | None, page: Path | None, as_json: bool) -> None:
    """What merging is worth (paper 5, figures 14, 16 and 17): entries a walk reads before and after, natively and in
    a virtual machine, over counterparts of the paper's programs; the gain projected by the paper's method, with walks'
    share of time from a simulated core, and that core's own gain.

    DIR gets compendia-speedup.md, .json and .svg.

    Example: mmulab reproduce compendia-speedup --trace tests/data/cc1-small.mmt
    """
    from mmulab.reproduce.compendia import plots, workloads
    from mmulab.reproduce.compendia import speedup as experiment

    programs = _chosen([*workloads.GENERATED], trace, quick)
    plan = experiment.Plan(programs, experiment.QUICK_INSTRUCTIONS if quick else experiment.INSTRUCTIONS)
    outcome = _store("running programs", fresh, lambda store: experiment.run(plan, store))
    _finish("compendia-speedup", outcome, plots.of_speedup(outcome), out, page, as_json)


def _chosen(programs: list[Any], trace: str | None, quick: bool) -> tuple[Any, ...]:
    from dataclasses import replace

    from mmulab.reproduce.compendia.workloads import compiler

    if trace is not None:
        programs.append(compiler(Path(existing_trace(trace))))
    return tuple(replace(program, trace=program.quick) if quick else program for program in programs)
