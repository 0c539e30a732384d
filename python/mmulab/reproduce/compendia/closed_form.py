"""Entries that a walk reads for random updates, worked out beforehand: docs/results/gups-curve.md derives it."""

import math

MIB, GIB = 1 << 20, 1 << 30
# What one entry of each level spans: PMD and PUD.
PMD, PUD = 2 * MIB, GIB
FAN_OUT = 512
# The walk caches of machines/compendia-baseline.toml and compendia-nested.toml.
ENTRIES = 64
# As many as a double has bits, and some.
HALVINGS = 100


def native(footprint: int, reach: int = PMD) -> float:
    """Entries a walk reads of a table whose cached entries nearest the leaves span `reach` bytes each."""
    m, q = misses(footprint, reach)
    return 1 + m * (1 + q)


def misses(footprint: int, reach: int) -> tuple[float, float]:
    """How often a walk does not find the entry nearest the leaf in the walk cache, and then the one above it."""
    r, g = footprint / reach, max(1.0, footprint / reach / FAN_OUT)
    if r < ENTRIES:
        return 0.0, 0.0
    # x + 1 - exp(-x) = ENTRIES / g grows with x: halve.
    low, high = 0.0, ENTRIES / g
    for _ in range(HALVINGS):
        x = (low + high) / 2
        low, high = (x, high) if x + 1 - math.exp(-x) < ENTRIES / g else (low, x)
    q = math.exp(-low)
    return 1 - (ENTRIES - g * (1 - q)) / r, q


def nested(footprint: int, guest_reach: int, host_reach: int, frame_of_table: int | None = PMD) -> float:
    """The same of a walk in two dimensions, its own cache of as many entries in each.

    `frame_of_table` is how much of the program is mapped by the part of the guest's last table that one page of the
    host holds. A table of 4 KiB maps 2 MiB. None if a page holds the whole node.
    """
    m, q = misses(footprint, guest_reach)
    # The walk looks for the guest's last entry whenever the walk cache does not know its place. That is on every miss
    # and, if nodes lie scattered, whenever the kept entry was followed to another frame of the node.
    scattered = frame_of_table is not None and frame_of_table < guest_reach
    if scattered:
        frames = guest_reach / (frame_of_table or guest_reach)
        look = m + (1 - m) * (1 - 1 / frames)
    else:
        look = m
    # Guest-physical memory: the program's pages, and tables of 1/512 of that; the host's entries for both, one cache.
    kinds = [(max(1.0, footprint / host_reach), 1.0), (max(1.0, footprint / FAN_OUT / host_reach), look)]
    above = max(1.0, footprint / host_reach / FAN_OUT)

    def missed(count: float, rate: float, t: float) -> float:
        return math.exp(-rate * t / count)

    def held(t: float) -> float:
        m_data = missed(*kinds[0], t)
        return sum(n * (1 - missed(n, rate, t)) for n, rate in kinds) + above * (1 - missed(above, m_data, t))

    if sum(n for n, rate in kinds if rate) + above <= ENTRIES:
        data = table = upper = 0.0
    else:
        low, high = 0.0, 1.0
        while held(high) < ENTRIES and high < 2.0**HALVINGS:
            high *= 2
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if held(middle) < ENTRIES else (low, middle)
        data, table = (missed(*kind, high) for kind in kinds)
        upper = missed(above, data, high)
    one = 1 + data * (1 + upper)
    other = 1 + table * (1 + upper)
    return (1 + m * (1 + q)) + one + look * other + m * q
