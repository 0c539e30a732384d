"""What groups of 4 and of 8 pages are worth where each page is touched with some probability: closed forms.

Pages of a region are touched independently with probability `p`, and referred to uniformly ever after. A group of `g`
pages is one entry if all are touched, with probability p^g; else each touched page is an entry.
"""

import itertools
import math

SMALL, LARGE = 4, 8


def coalesced(p: float, group: int) -> float:
    """The share of groups that are one entry."""
    return float(p**group)


def entries(p: float, group: int) -> float:
    """Entries for all touched pages, as a share of the region's pages: p where nothing coalesces."""
    return p - coalesced(p, group) * (1 - 1 / group)


def crossover_of_entries(small: int = SMALL, large: int = LARGE) -> float:
    """The share touched above which large groups need fewer entries: (1 − 1/4) p^4 = (1 − 1/8) p^8."""
    return float(((1 - 1 / small) / (1 - 1 / large)) ** (1 / (large - small)))


def crossover_of_hits(small: int = SMALL, large: int = LARGE) -> float:
    """The share touched above which large groups save more misses of a TLB much smaller than the region.

    An entry of g pages is referred to g times as often as one of a single page. The hits of a small LRU array grow with
    the squares of these rates: p + (g − 1) p^g for a group size g. Two sizes are equal where 3 p^4 = 7 p^8.
    """
    return float(((small - 1) / (large - 1)) ** (1 / (large - small)))


def misses(p: float, group: int, pages: int, capacity: int) -> float:
    """The share of references that miss an LRU array of `capacity` entries over a region of `pages`.

    Che, Tung and Wang's approximation (IEEE JSAC 20(7), 2002): an entry referred to at rate r is held with probability
    1 − exp(−r t). The probabilities of all entries add up to the capacity, which gives t.
    """
    whole = coalesced(p, group)
    # Rates in references to each page: how many entries there are of each, and how often each is referred to.
    kinds = [(pages / group * whole, group), (pages * (p - whole), 1)]
    kinds = [(count, rate) for count, rate in kinds if count > 0]
    if sum(count for count, _ in kinds) <= capacity:
        return 0.0

    def held(t: float) -> float:
        return sum(count * -math.expm1(-rate * t) for count, rate in kinds)

    low, high = 0.0, 1.0
    while held(high) < capacity:
        high *= 2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if held(middle) < capacity else (low, middle)
    total = sum(count * rate for count, rate in kinds)
    return sum(count * rate * math.exp(-rate * high) for count, rate in kinds) / total


# As many as a double has bits.
BISECTIONS = 64


def crossover(values: list[tuple[float, float, float]]) -> float | None:
    """Where the second of (p, small, large) falls below the first for good, between two points by a straight line."""
    last = None
    for (p, small, large), (q, small_next, large_next) in itertools.pairwise(values):
        before, after = small - large, small_next - large_next
        if before <= 0 < after:
            last = p + (q - p) * -before / (after - before)
    return last
