"""What a table in which every page is known says, for models that have no thought for tables."""

from __future__ import annotations

from dataclasses import dataclass

PAGE = 4096
ORDERS = {"4K": 0, "2M": 9, "1G": 18}


@dataclass
class Leaf:
    """What a table says of a page: its number and frame, both by pages of its size, and its bits."""

    order: int
    number: int
    frame: int
    dirty: bool = False
    accessed: bool = True

    @property
    def distance(self) -> int:
        """From the page to its frame, in base pages."""
        return (self.frame - self.number) << self.order


Table = dict[tuple[int, int], Leaf]


def find(table: Table, va: int) -> Leaf:
    """The leaf that maps an address."""
    return next(leaf for order in ORDERS.values() if (leaf := table.get((order, va // PAGE >> order))) is not None)
