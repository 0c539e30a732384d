"""Samples: points in the unit cube, drawn at random or from a Sobol sequence. The same seed gives the same points."""

import random
from dataclasses import dataclass

from mmulab.extras import need

METHODS = ("random", "sobol")
# What a Sobol sequence of scipy has dimensions for.
SOBOL_MAX = 21201


@dataclass(frozen=True)
class Sample:
    """How points are drawn, and how many."""

    method: str
    points: int
    seed: int = 0

    def shares(self, dimensions: int) -> list[list[float]]:
        """The points, each a share from 0 to just below 1 in every dimension."""
        if self.method == "random":
            drawn = random.Random(self.seed)
            return [[drawn.random() for _ in range(dimensions)] for _ in range(self.points)]
        qmc = need("scipy.stats", "scipy", "a Sobol sample", 'or give method = "random"').qmc
        # Whole powers of two are balanced; what is asked for is the beginning of one.
        power = max(self.points - 1, 0).bit_length()
        made = qmc.Sobol(dimensions, scramble=True, seed=self.seed).random_base2(power)
        return [[float(share) for share in point] for point in made[: self.points]]
