"""The experiment on designs of several papers, as a command."""

from mmulab.reproduce.shared.cells import Figures
from mmulab.reproduce.shared.experiment import TABLES, Experiment, Findings, Session, tabled
from mmulab.reproduce.together import systems


def _walks(figures: Figures) -> str:
    return f"{figures.walks:,} walks"


def _together(plan: systems.Plan, session: Session) -> Findings:
    outcome = systems.run(plan, session.store(_walks))
    return tabled("together", outcome.tables(), outcome.data(), outcome.complete)


TOGETHER = Experiment(
    "together",
    "coalescing TLBs, merged page tables and kernels that keep memory together, each with each",
    "papers 1, 3, 4 and 5 on one machine: no paper shows it",
    systems.Plan,
    _together,
    "running systems",
    fresh="Run all again. Default: take what was run before from the cache.",
    page=TABLES,
)
