"""The experiments of paper 5, as commands."""

from mmulab.reproduce.compendia import figure_15, plots, speedup, thresholds
from mmulab.reproduce.shared.cells import Figures
from mmulab.reproduce.shared.experiment import FRESH, Experiment, Findings, Session, tabled

_PAGE = "Also put the tables into this page, between its marks, and the plot beside it."


def _per_walk(figures: Figures) -> str:
    return f"{figures.per_walk:.3f} entries a walk"


def _figure_15(plan: figure_15.Plan, session: Session) -> Findings:
    outcome = figure_15.run(plan, session.store(_per_walk))
    drawn = {"": plots.of_figure_15(outcome)}
    return tabled("compendia-figure-15", outcome.tables(), outcome.data(), outcome.complete, drawn)


FIGURE_15 = Experiment(
    "compendia-figure-15",
    "random updates of 16 MiB to 256 GiB: entries a walk reads, native and nested, tables merged and not",
    "paper 5, Figure 15",
    figure_15.Plan,
    _figure_15,
    "running sizes",
    fresh=FRESH,
    page=_PAGE,
)


def _thresholds(plan: thresholds.Plan, session: Session) -> Findings:
    outcome = thresholds.run(plan, session.store(_per_walk))
    drawn = {"": plots.of_thresholds(outcome)}
    return tabled("compendia-thresholds", outcome.tables(), outcome.data(), outcome.complete, drawn)


THRESHOLDS = Experiment(
    "compendia-thresholds",
    "from how many children on page tables should be merged: never, 1/16 to 7/8, always",
    "paper 5, section 6.1",
    thresholds.Plan,
    _thresholds,
    "walking misses",
    fresh=FRESH,
    page=_PAGE,
)


def _speedup(plan: speedup.Plan, session: Session) -> Findings:
    outcome = speedup.run(plan, session.store(_per_walk))
    drawn = {"": plots.of_speedup(outcome)}
    return tabled("compendia-speedup", outcome.tables(), outcome.data(), outcome.complete, drawn)


SPEEDUP = Experiment(
    "compendia-speedup",
    "what merging page tables is worth for each program: entries a walk, projected and simulated gain",
    "paper 5, Figures 14, 16 and 17",
    speedup.Plan,
    _speedup,
    "running programs",
    fresh=FRESH,
    page=_PAGE,
)
