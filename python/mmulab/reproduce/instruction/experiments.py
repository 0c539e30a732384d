"""The experiments of paper 2, as commands."""

from mmulab.reproduce.instruction import chain, plots, promotion, servers, sweep
from mmulab.reproduce.shared.cells import Figures
from mmulab.reproduce.shared.experiment import FRESH, PLOTS, TABLES, Experiment, Findings, Session, tabled


def _cycles(figures: Figures) -> str:
    return f"{figures.cycles['total']:.3g} cycles"


def _chain(plan: chain.Plan, session: Session) -> Findings:
    outcome = chain.run(plan, session.store(_cycles))
    return tabled("instruction-chain", outcome.tables(), outcome.data(), outcome.complete)


CHAIN = Experiment(
    "instruction-chain",
    "functions in superpages of their own that call each other: 8 fit in the ITLB, 9 do not",
    "paper 2, section V-A",
    chain.Plan,
    _chain,
    "calling functions",
    fresh=FRESH,
    page=TABLES,
)


def _promotion(plan: promotion.Plan, session: Session) -> Findings:
    outcome = promotion.run(plan, session.store(_cycles), session)
    drawn = plots.of_promotion(outcome)
    return tabled("instruction-promotion", outcome.tables(), outcome.data(), outcome.complete, drawn)


PROMOTION = Experiment(
    "instruction-promotion",
    "superpages for code from several thresholds on: residency, translation, cycles, memory",
    "paper 2, Figures 1 to 4 and 7, Tables II to IV",
    promotion.Plan,
    _promotion,
    "running thresholds",
    fresh=FRESH,
    page=PLOTS,
)


def _sweep(plan: sweep.Plan, session: Session) -> Findings:
    outcome = sweep.run(plan, session.store(_cycles), session)
    return tabled("instruction-sweep", outcome.tables(), outcome.data(), outcome.complete, plots.of_sweep(outcome))


SWEEP = Experiment(
    "instruction-sweep",
    "more and more superpages of code, on four processors' TLBs: where the stall of fetches is least",
    "paper 2, Figures 5 and 6",
    sweep.Plan,
    _sweep,
    "promoting regions",
    fresh=FRESH,
    page=PLOTS,
)


def _servers(plan: servers.Plan, session: Session) -> Findings:
    outcome = servers.run(plan, session.store(_cycles), session)
    return tabled("instruction-servers", outcome.tables(), outcome.data(), outcome.complete, plots.of_servers(outcome))


SERVERS = Experiment(
    "instruction-servers",
    "padding and shared page tables for PostgreSQL's code, in user space and in the kernel",
    "paper 2, Figures 8 to 10 and Table V",
    servers.Plan,
    _servers,
    "running servers",
    fresh=FRESH,
    page=PLOTS,
)
