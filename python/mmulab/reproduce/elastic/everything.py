"""All of paper 3 at once: which parts there are, and the options of its experiments together."""

from dataclasses import dataclass
from typing import Any

from mmulab import engine
from mmulab.reproduce.elastic.fragmentation import FRESH
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.kinds import Among

# Levels of fragmentation of Figures 9 and 11.
LEVELS = (FRESH, 50, 99)
# The parts by name, in the order of the paper: an experiment's command without `elastic-`, and options that it always
# has.
PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "sizes": ("sizes", {}),
    "systems": ("systems", {}),
    "full": ("systems", {"full": True, "profile": 100_000_000}),
    "fragmented": ("systems", {"scaled": True, "fragmented": LEVELS}),
    "virtual": ("systems", {"virtualised": True}),
    "virtual-fragmented": ("systems", {"virtualised": True, "scaled": True, "fragmented": (FRESH, 99)}),
    "sampling": ("sampling", {}),
    "mixes": ("mixes", {}),
    "fault-latency": ("fault-latency", {}),
    "beyond": ("beyond", {}),
}


@dataclass(frozen=True)
class Plan:
    """All experiments of paper 3 in turn. They are Figure 2 (elastic-sizes), Figures 8 to 12 (elastic-systems: fresh,
    in the paper's sizes, fragmented, in virtual machines), and Figure 13 (elastic-sampling). After these come Figure
    14 (elastic-mixes), Figure 15 (elastic-fault-latency), and what the paper leaves open (elastic-beyond). Runs that
    are kept are not made again. All of it takes hours.

    Example: mmulab reproduce elastic --quick --parts sizes,fault-latency
    """

    parts: tuple[str, ...] = declare.option((), Among({name: name for name in PARTS}), "Only these parts.")
    machine: str = declare.machine("neoverse-n1", "The machine; its page table needs pages of 64K, 32M and 1G.")
    quick: bool = declare.quick()
    sets: tuple[str, ...] = declare.sets()
    options: engine.Options = declare.engine_options()
