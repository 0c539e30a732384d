"""What a program took under each mosaic, as a stopwatch's alternating runs say, and the noise of it.

Other programs and neighbours on the host make runs longer, and never shorter. So a mosaic's time is the mean of the
faster half of its runs. It was compared with the median on a loud Zen 4 guest, by two halves of 30 rounds, for eleven
programs of 12 mosaics. The halves differed by 1.7 % on average with this mean, by 1.9 % with the median, and by 2.1 %
with the median ratio of neighbouring runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmulab import Failure
from mmulab.stopwatch.pairs import RESAMPLES, SHORT_S

Json = dict[str, Any]


@dataclass(frozen=True)
class Times:
    """Seconds by mosaic."""

    seconds: list[float]
    # Half of the 95 % interval of each, beside the first, as a share: all rounds are drawn anew, 4,000 times.
    noise: list[float]

    @property
    def worst_noise(self) -> float:
        """The largest of them."""
        return max(self.noise)


def times(settings: Sequence[Json], key: str) -> Times:
    """Of a stopwatch's settings, with `runs` of each. `key`: which of the times counts.

    Each round runs all mosaics, so that a drift of the computer changes all of them alike. Raises Failure where runs
    are too short to be timed.
    """
    runs = np.array([[float(run[key]) for run in setting["runs"]] for setting in settings])
    if runs.min() < SHORT_S:
        raise Failure(
            f"a run took {runs.min() * 1000:.1f} ms, too little to be timed\nhint: give the program more work"
        )
    seconds = _faster_half(runs)
    rounds = runs.shape[1]
    drawn = np.random.default_rng(1).integers(0, rounds, (RESAMPLES, rounds))
    first = _faster_half(runs[0][drawn])
    noise = []
    for own, middle in zip(runs, seconds / seconds[0], strict=True):
        low, high = np.quantile(_faster_half(own[drawn]) / first, [0.025, 0.975])
        noise.append(float((high - low) / 2 / middle))
    return Times([float(s) for s in seconds], noise)


def _faster_half(runs: np.ndarray) -> np.ndarray:
    """The mean of the faster half of the runs, which the last axis has."""
    half = np.sort(runs, axis=-1)[..., : max(1, runs.shape[-1] // 2)]
    return np.asarray(half.mean(axis=-1))
