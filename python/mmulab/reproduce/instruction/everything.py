"""All of paper 2 at once: the options of its experiments together."""

from dataclasses import dataclass
from typing import Any

from mmulab.reproduce.instruction import chain, servers, sweep
from mmulab.reproduce.instruction.setting import VARIANTS, Variant
from mmulab.reproduce.instruction.subjects import Shared
from mmulab.reproduce.shared import declare
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
