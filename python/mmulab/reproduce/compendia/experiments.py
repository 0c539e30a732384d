"""The experiments of paper 5, as commands."""

from mmulab.reproduce.compendia import figure_15, plots, speedup, thresholds
from mmulab.reproduce.shared.cells import Figures
from mmulab.reproduce.shared.experiment import FRESH, Experiment, run_for_tables

_PAGE = "Also put the tables into this page, between its marks, and the plot beside it."


def _per_walk(figures: Figures) -> str:
    return f"{figures.per_walk:.3f} entries a walk"


FIGURE_15 = Experiment(
    "compendia-figure-15",
    "random updates of 16 MiB to 256 GiB: entries a walk reads, native and nested, tables merged and not",
    "paper 5, Figure 15",
    figure_15.Plan,
    run_for_tables("compendia-figure-15", figure_15.run, _per_walk, plots.of_figure_15),
    "running sizes",
    fresh=FRESH,
    page=_PAGE,
)

THRESHOLDS = Experiment(
    "compendia-thresholds",
    "from how many children on page tables should be merged: never, 1/16 to 7/8, always",
    "paper 5, section 6.1",
    thresholds.Plan,
    run_for_tables("compendia-thresholds", thresholds.run, _per_walk, plots.of_thresholds),
    "walking misses",
    fresh=FRESH,
    page=_PAGE,
)

SPEEDUP = Experiment(
    "compendia-speedup",
    "what merging page tables is worth for each program: entries a walk, projected and simulated gain",
    "paper 5, Figures 14, 16 and 17",
    speedup.Plan,
    run_for_tables("compendia-speedup", speedup.run, _per_walk, plots.of_speedup),
    "running programs",
    fresh=FRESH,
    page=_PAGE,
)
