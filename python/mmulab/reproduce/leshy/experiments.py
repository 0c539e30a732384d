"""The experiment on selections of page sizes, as a command."""

from mmulab.reproduce.leshy import sizes
from mmulab.reproduce.shared.experiment import TABLES, Experiment, Findings, Session, tabled


def _sizes(plan: sizes.Plan, session: Session) -> Findings:
    outcome = sizes.run(plan, session)
    return tabled("leshy", outcome.tables(), outcome.data(), outcome.complete)


LESHY = Experiment(
    "leshy",
    "page sizes selected by the artifact's heuristic and by Algorithm 1, against the optimum",
    "paper 3, section IV-D; the hints that its artifact contains",
    sizes.Plan,
    _sizes,
    "profiling programs",
    page=TABLES,
)
