"""The experiment on published speed-ups, as a command."""

from mmulab.reproduce.shared.experiment import TABLES, Experiment, Findings, Session, tabled
from mmulab.reproduce.speedups import ratios


def _speedups(plan: ratios.Plan, session: Session) -> Findings:
    outcome = ratios.run(plan, session.part)
    return tabled("speedups", outcome.tables(), outcome.data(), outcome.complete)


SPEEDUPS = Experiment(
    "speedups",
    "times under several page sizes that others measured on an N1, a 5900X and a 2700X, beside modelled ones",
    "a rerun of paper 3's artifact; paper 1, Tables 5, 6 and 10",
    ratios.Plan,
    _speedups,
    "running programs",
    page=TABLES,
)
