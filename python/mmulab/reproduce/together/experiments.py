"""The experiment on designs of several papers, as a command."""

from mmulab.reproduce.shared.cells import Figures
from mmulab.reproduce.shared.experiment import TABLES, Experiment, run_for_tables
from mmulab.reproduce.together import systems


def _walks(figures: Figures) -> str:
    return f"{figures.walks:,} walks"


TOGETHER = Experiment(
    "together",
    "coalescing TLBs, merged page tables and kernels that keep memory together, each with each",
    "papers 1, 3, 4 and 5 on one machine: no paper shows it",
    systems.Plan,
    run_for_tables("together", systems.run, _walks),
    "running systems",
    fresh="Run all again. Default: take what was run before from the cache.",
    page=TABLES,
)
