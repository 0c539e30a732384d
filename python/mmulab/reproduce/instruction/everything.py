"""All of paper 2 at once: each of its experiments in turn, with what it was asked for, and their findings together."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmulab.reproduce.instruction import chain, servers, sweep
from mmulab.reproduce.instruction.setting import VARIANTS, Variant
from mmulab.reproduce.instruction.subjects import Shared
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.experiment import Experiment, Findings, Session
from mmulab.reproduce.shared.kinds import Among, Probe, Whole, Wholes


@dataclass(frozen=True)
class Plan(Shared):
    """All experiments of paper 2 in turn: nine superpages (instruction-chain), thresholds of promotion
    (instruction-promotion), more and more superpages (instruction-sweep), and servers (instruction-servers). Runs that
    are kept are not made again.

    Example: mmulab reproduce instruction --trace tests/data/cc1-small.mmt --no-timing --rounds 100 --cores 1
    """

    rounds: int = declare.option(
        chain.Plan.rounds, Whole(10, 10**9), "Times that each function of the chain is called.", shown=True
    )
    here: dict[str, Any] | None = declare.option(
        None, Probe(), "probe.json of `mmulab probe`: also time the chain on this computer."
    )
    machines: tuple[Variant, ...] = declare.option(
        VARIANTS, Among(sweep.BY_NAME), "More and more superpages on these machines only."
    )
    cores: tuple[int, ...] = declare.option(
        servers.Plan.cores, Wholes(servers.MOST_CORES), "Numbers of cores for servers.", shown=True
    )
    clients: tuple[int, ...] = declare.option(
        servers.CLIENTS,
        Wholes(servers.MOST_CLIENTS),
        "Numbers of clients: a recording of each server each.",
        shown=True,
    )

    def part(self, plan: type) -> Any:
        """The plan of one experiment: those of these options that it has."""
        return plan(**{field.name: getattr(self, field.name) for field in dataclasses.fields(plan)})


def run(plan: Plan, session: Session, parts: Sequence[Experiment[Any]]) -> Findings:
    """Runs the experiments in their order; the ones behind one that was stopped are left out."""
    done: list[Findings] = []
    for experiment in parts:
        session.say(f"{experiment.name}: {experiment.title}")
        done.append(experiment.run(plan.part(experiment.plan), session))
        if done[-1].unfinished is not None:
            break
    return Findings(
        [found.data for found in done],
        "instruction.json",
        {name: text for found in done for name, text in found.files.items()},
        {name: table for found in done for name, table in found.tables.items()},
        unfinished=done[-1].unfinished,
    )
