"""Axes of a sweep: what varies, and the values that it takes."""

import math
from dataclasses import dataclass

from mmulab.sweep.constraint import Value

# Axes that are not keys of a description.
MACHINE, POLICY, HOST_POLICY, TRACE, SEED = "machine", "policy", "host_policy", "trace", "seed"
OWN = (TRACE, MACHINE, POLICY, HOST_POLICY, SEED)


@dataclass(frozen=True)
class Axis:
    """One thing that varies. Every combination of the values of all axes is a job."""

    name: str
    values: tuple[Value, ...]
    # Keys of the machine or policy that take the value, as `--set` names them; empty for machines, traces and the like.
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Range:
    """Values that are drawn at random or from a Sobol sequence."""

    name: str
    keys: tuple[str, ...]
    # The bounds, both included; or a list to draw from.
    least: float = 0
    most: float = 0
    step: float | None = None
    is_log: bool = False
    pick: tuple[Value, ...] = ()

    def at(self, share: float) -> Value:
        """The value at a share of the range, from 0 to just below 1."""
        if self.pick:
            return self.pick[min(int(share * len(self.pick)), len(self.pick) - 1)]
        whole = isinstance(self.least, int) and isinstance(self.most, int)
        if self.step is not None:
            # The tolerance keeps the last step of 0.1, 0.2, 0.3.
            steps = math.floor((self.most - self.least) / self.step + 1e-9) + 1
            return self.least + self.step * min(int(share * steps), steps - 1)
        if self.is_log:
            found: float = self.least * (self.most / self.least) ** share
            return min(max(round(found), int(self.least)), int(self.most)) if whole else found
        if whole:
            return int(self.least) + min(int(share * (self.most - self.least + 1)), int(self.most - self.least))
        return self.least + share * (self.most - self.least)


def assignment(key: str, value: Value) -> str:
    """The value of a key as `--set` takes it."""
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{key}={shown}"
