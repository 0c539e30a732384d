"""What a program took under each mosaic, as a stopwatch's alternating runs say, and the noise of it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmulab import Failure
from mmulab.stopwatch.pairs import SHORT_S, interval

Json = dict[str, Any]


@dataclass(frozen=True)
class Times:
    """Seconds by mosaic."""

    seconds: list[float]
    # Half of the 95 % interval of each, beside the first, as a share.
    noise: list[float]

    @property
    def worst_noise(self) -> float:
        """The largest of them."""
        return max(self.noise)


def times(settings: Sequence[Json], key: str) -> Times:
    """Of a stopwatch's settings, with `runs` of each. `key`: which of the times counts.

    Each round runs all mosaics, and its runs are compared with each other: so a drift of the computer drops out. Raises
    Failure where runs are too short to be timed.
    """
    runs = [[float(run[key]) for run in setting["runs"]] for setting in settings]
    shortest = min(map(min, runs))
    if shortest < SHORT_S:
        raise Failure(f"a run took {shortest * 1000:.1f} ms, too little to be timed\nhint: give the program more work")
    first = statistics.median(runs[0])
    seconds, noise = [], []
    for own in runs:
        ratios = [mine / base for mine, base in zip(own, runs[0], strict=True)]
        low, high = interval(ratios)
        middle = statistics.median(ratios)
        seconds.append(first * middle)
        noise.append((high - low) / 2 / middle)
    return Times(seconds, noise)
