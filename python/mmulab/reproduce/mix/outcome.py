"""What experiments with TLB designs find: all designs for a program under a regime, beside the split one; averages."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from mmulab import engine
from mmulab.reproduce.mix.designs import SPLIT, Regime

# Latencies added up, as paper 4's analytical model has them (section 6.2).
SERIAL = "serial"


class Named(Protocol):
    """A program."""

    @property
    def name(self) -> str:
        """What tables call it."""


class Planned(Protocol):
    """What is run."""

    @property
    def instructions(self) -> int:
        """Of each program."""


P = TypeVar("P", bound=Named)
F = TypeVar("F")
R = TypeVar("R", bound="Row[Any, Any]")
Q = TypeVar("Q", bound=Planned)


@dataclass(frozen=True)
class Row(ABC, Generic[P, F]):
    """All designs for a program under a regime."""

    program: P
    regime: Regime
    of: dict[str, F]

    @abstractmethod
    def cycles(self, design: str, how: str = SERIAL) -> float:
        """User time: what kernels and hosts do is the page policy's."""

    @abstractmethod
    def without_misses(self, design: str) -> float:
        """The same, if nothing ever missed."""

    @abstractmethod
    def energy(self, design: str) -> float:
        """All that translation takes, in nJ."""

    @abstractmethod
    def runs(self) -> dict[str, Any]:
        """Runs of pages by page size, as the engine tells them."""

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """For a file."""

    def gain(self, design: str, how: str = SERIAL) -> float:
        """How much faster than the split TLBs, with times told by `how`: `SERIAL`, or another that `cycles` knows."""
        return self.cycles(SPLIT, how) / self.cycles(design, how) - 1

    def overhead(self, design: str, how: str = SERIAL) -> float:
        """How much slower than TLBs that never miss."""
        return self.cycles(design, how) / self.without_misses(design) - 1

    def saved(self, design: str) -> float:
        """Of the split TLBs' translation energy, what is saved."""
        return 1 - self.energy(design) / self.energy(SPLIT)


@dataclass(frozen=True)
class Outcome(Generic[Q, R]):
    """All of it, or what there was when it was stopped."""

    experiment: str
    plan: Q
    rows: Sequence[R]
    complete: bool = True

    @property
    def regimes(self) -> list[str]:
        """Those that there are rows of, in order."""
        return list(dict.fromkeys(row.regime.name for row in self.rows))

    @property
    def programs(self) -> list[str]:
        """Those that there are rows of, in order."""
        return list(dict.fromkeys(row.program.name for row in self.rows))

    def under(self, regime: str) -> list[R]:
        """The rows of a regime."""
        return [row for row in self.rows if row.regime.name == regime]

    def mean(self, regime: str, value: Callable[[R], float]) -> float:
        """A share averaged as the paper does, over programs."""
        rows = self.under(regime)
        return sum(map(value, rows)) / len(rows) if rows else 0.0

    def geomean(self, regime: str, gain: Callable[[R], float]) -> float:
        """A gain averaged over programs."""
        rows = self.under(regime)
        return math.expm1(sum(math.log1p(gain(row)) for row in rows) / len(rows)) if rows else 0.0

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "experiment": self.experiment,
            "version": engine.version(),
            "instructions": self.plan.instructions,
            "complete": self.complete,
            "rows": [row.data() for row in self.rows],
        }
