"""Sets of ways, with replacement: what TLBs, walk caches and caches are made of."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

MASK128 = (1 << 128) - 1


class Pcg:
    """PCG-MCG-128 XSL-RR 64, as docs/concepts/tlbs.md states it."""

    def __init__(self, state: int) -> None:
        """Its state, which is odd."""
        self.state = state | 1

    def draw(self) -> int:
        """64 bits."""
        self.state = self.state * 0x2360ED051FC65DA44385DF649FCCF645 & MASK128
        mixed = (self.state >> 64) ^ (self.state & (1 << 64) - 1)
        turn = self.state >> 122
        return (mixed >> turn | mixed << (64 - turn)) & (1 << 64) - 1

    def below(self, n: int) -> int:
        """A draw below `n`."""
        return (self.draw() & 0xFFFFFFFF) * n >> 32


def draws(seed: int) -> Callable[[], int]:
    """Draws of 64 bits, of the generator that PCG32 spreads a seed for (rand_core's `seed_from_u64`)."""
    state = 0
    for part in range(4):
        seed = (seed * 0x5851F42D4C957F2D + 0xA17654E46FBE17F3) & (1 << 64) - 1
        mixed, turn = ((seed >> 18) ^ seed) >> 27 & 0xFFFFFFFF, seed >> 59
        state |= ((mixed >> turn | mixed << (32 - turn)) & 0xFFFFFFFF) << 32 * part
    return Pcg(state).draw


class Set:
    """Ways that hold a key and a value each, or nothing."""

    def __init__(self, ways: int, replacement: str, pcg: Pcg | None) -> None:
        """Empty."""
        self.ways: list[tuple[Hashable, Any] | None] = [None] * ways
        self.replacement = replacement
        self.pcg = pcg
        # Ways from the least to the most recently used.
        self.order: list[int] = list(range(ways))
        # Tree-PLRU: a bit for each node, the root is 1; set when the upper half was used less recently.
        self.tree = [False] * ways

    def find(self, key: Hashable) -> int | None:
        """The way that has `key`."""
        for way, held in enumerate(self.ways):
            if held is not None and held[0] == key:
                return way
        return None

    def use(self, way: int) -> None:
        """The way was used."""
        self.order.remove(way)
        self.order.append(way)
        node, first, size = 1, 0, len(self.ways)
        while size > 1 and self.replacement == "tree-plru":
            size //= 2
            upper = way >= first + size
            self.tree[node] = not upper
            node = 2 * node + upper
            first += size if upper else 0

    def victim(self) -> int:
        """The way that goes."""
        if self.replacement == "lru":
            return self.order[0]
        if self.replacement == "random":
            assert self.pcg
            return self.pcg.below(len(self.ways))
        node, first, size = 1, 0, len(self.ways)
        while size > 1:
            size //= 2
            upper = self.tree[node]
            node = 2 * node + upper
            first += size if upper else 0
        return first

    def put(self, key: Hashable, value: Any) -> tuple[Hashable, Any] | None:
        """Writes an entry; what it replaced, if that was another."""
        way, gone = self.find(key), None
        if way is None:
            if None in self.ways:
                way = self.ways.index(None)
            else:
                way = self.victim()
                gone = self.ways[way]
        self.ways[way] = (key, value)
        self.use(way)
        return gone


class Store:
    """All sets of an array."""

    def __init__(self, entries: int, ways: int | str, replacement: str, seed: int = 0) -> None:
        """Of a description."""
        count = entries if ways == "full" else int(ways)
        pcg = Pcg(0xCAFEF00DD15EA5E5 ^ seed << 1) if replacement == "random" else None
        self.sets = [Set(count, replacement, pcg) for _ in range(entries // count)]

    def set(self, number: int) -> Set:
        """The set that a number falls in."""
        return self.sets[number % len(self.sets)]
