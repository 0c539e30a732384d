"""The experiments of paper 2, as commands."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from mmulab.reproduce.instruction import chain, everything, plots, promotion, servers, sweep
from mmulab.reproduce.shared import in_turn
from mmulab.reproduce.shared.cells import Figures, Store
from mmulab.reproduce.shared.experiment import (
    FRESH,
    PLOTS,
    TABLES,
    Experiment,
    Findings,
    Session,
    Tabled,
    run_for_tables,
    tabled,
)

P = TypeVar("P")
Found = TypeVar("Found", bound=Tabled)


def _cycles(figures: Figures) -> str:
    return f"{figures.cycles['total']:.3g} cycles"


def _over_recordings(
    experiment: str, run: Callable[[P, Store, Session], Found], plot: Callable[[Found], Mapping[str, str]]
) -> Callable[[P, Session], Findings]:
    """What runs an experiment over recordings, which the session makes first, with several plots."""

    def run_plan(plan: P, session: Session) -> Findings:
        outcome = run(plan, session.store(_cycles), session)
        return tabled(experiment, outcome.tables(), outcome.data(), outcome.complete, plot(outcome))

    return run_plan


CHAIN = Experiment(
    "instruction-chain",
    "functions in superpages of their own that call each other: 8 fit in the ITLB, 9 do not",
    "paper 2, section V-A",
    chain.Plan,
    run_for_tables("instruction-chain", chain.run, _cycles),
    "calling functions",
    fresh=FRESH,
    page=TABLES,
)

PROMOTION = Experiment(
    "instruction-promotion",
    "superpages for code from several thresholds on: residency, translation, cycles, memory",
    "paper 2, Figures 1 to 4 and 7, Tables II to IV",
    promotion.Plan,
    _over_recordings("instruction-promotion", promotion.run, plots.of_promotion),
    "running thresholds",
    fresh=FRESH,
    page=PLOTS,
)

SWEEP = Experiment(
    "instruction-sweep",
    "more and more superpages of code, on four processors' TLBs: where the stall of fetches is least",
    "paper 2, Figures 5 and 6",
    sweep.Plan,
    _over_recordings("instruction-sweep", sweep.run, plots.of_sweep),
    "promoting regions",
    fresh=FRESH,
    page=PLOTS,
)

SERVERS = Experiment(
    "instruction-servers",
    "padding and shared page tables for PostgreSQL's code, in user space and in the kernel",
    "paper 2, Figures 8 to 10 and Table V",
    servers.Plan,
    _over_recordings("instruction-servers", servers.run, plots.of_servers),
    "running servers",
    fresh=FRESH,
    page=PLOTS,
)

PARTS = (CHAIN, PROMOTION, SWEEP, SERVERS)


def _run_everything(plan: everything.Plan, session: Session) -> Findings:
    return in_turn.run(plan, session, [in_turn.Step(part) for part in PARTS], "instruction.json")


EVERYTHING = Experiment(
    "instruction",
    "all of paper 2 in turn: the four experiments above",
    "paper 2, Figures 1 to 10 and Tables II to V",
    everything.Plan,
    _run_everything,
    "reproducing paper 2",
    fresh=FRESH,
)
