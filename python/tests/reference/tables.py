"""Page tables as x86-64 has them: tables of 512 entries, each a table below or a leaf."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from reference.frames import PAGE, Block

R, W, X = 1, 2, 4


@dataclass
class Leaf:
    """An entry that maps a page."""

    block: Block
    # Its first frame within the block.
    index: int
    order: int
    prot: int
    accessed: bool
    dirty: bool
    is_global: bool

    @property
    def bytes(self) -> int:
        """Size of the page."""
        return PAGE << self.order


@dataclass
class Table:
    """A table, in a frame of its own."""

    frame: Block = field(default_factory=lambda: Block(0, "table"))
    entries: dict[int, Table | Leaf] = field(default_factory=dict)


def covers(level: int) -> int:
    """The order of what one entry of `level` spans."""
    return 9 * (level - 1)


def index(va: int, level: int) -> int:
    """The entry for `va` in a table of `level`."""
    return va >> (12 + covers(level)) & 511


def number(va: int, order: int) -> int:
    """The number of the page of `order` that holds `va`: of its low 57 bits, for the others are copies."""
    return (va & (1 << 57) - 1) >> (12 + order)


def down(va: int, order: int) -> int:
    """The first address of the page of `order` that holds `va`."""
    return va & ~((PAGE << order) - 1)


class Searched(ABC):
    """What any table can be asked that knows of one address at a time."""

    @abstractmethod
    def find(self, va: int) -> Leaf | None:
        """The leaf that maps `va`."""

    @abstractmethod
    def hole(self, va: int) -> int:
        """Where nothing is mapped: the order of the largest aligned page around `va` that is empty."""

    def next(self, va: int, end: int) -> tuple[int, Leaf] | None:
        """The first page mapped at or above `va` and below `end`."""
        while va < end:
            leaf = self.find(va)
            if leaf:
                return down(va, leaf.order), leaf
            order = self.hole(va)
            va = down(va, order) + (PAGE << order)
        return None


class Tree(Searched):
    """The page table of an address space."""

    def __init__(self, levels: int) -> None:
        """Empty, with this number of levels."""
        self.levels = levels
        self.root = Table()

    def path(self, va: int) -> list[tuple[int, Table]]:
        """The tables from the root to where the walk for `va` ends, with their levels."""
        out = [(self.levels, self.root)]
        while isinstance(below := out[-1][1].entries.get(index(va, out[-1][0])), Table):
            out.append((out[-1][0] - 1, below))
        return out

    def find(self, va: int) -> Leaf | None:
        """The leaf that maps `va`."""
        level, table = self.path(va)[-1]
        entry = table.entries.get(index(va, level))
        return entry if isinstance(entry, Leaf) else None

    def hole(self, va: int) -> int:
        """Where nothing is mapped: the order of the largest aligned page around `va` that is empty."""
        return covers(self.path(va)[-1][0])

    def map(self, va: int, leaf: Leaf) -> None:
        """Puts a leaf where nothing is."""
        level, table = self.path(va)[-1]
        assert index(va, level) not in table.entries
        while covers(level) > leaf.order:
            below = Table()
            table.entries[index(va, level)] = below
            level, table = level - 1, below
        assert covers(level) == leaf.order
        table.entries[index(va, level)] = leaf

    def set(self, va: int, leaf: Leaf) -> Leaf:
        """Rewrites a leaf; what it was."""
        level, table = self.path(va)[-1]
        was = table.entries[index(va, level)]
        assert isinstance(was, Leaf)
        assert was.order == leaf.order
        table.entries[index(va, level)] = leaf
        return was

    def unmap(self, va: int) -> Leaf:
        """Takes a leaf out, and every table that is empty then."""
        path = self.path(va)
        level, table = path[-1]
        leaf = table.entries.pop(index(va, level))
        assert isinstance(leaf, Leaf)
        for (_, below), (level, table) in zip(path[:0:-1], path[-2::-1], strict=True):
            if below.entries:
                break
            del table.entries[index(va, level)]
            below.frame.use, below.frame.users = "gone", 0
        return leaf

    def split(self, va: int) -> None:
        """Replaces a large leaf by a table of leaves one size smaller."""
        level, table = self.path(va)[-1]
        leaf = table.entries[index(va, level)]
        assert isinstance(leaf, Leaf)
        part = covers(level - 1)
        table.entries[index(va, level)] = Table(
            entries={
                i: Leaf(
                    leaf.block, leaf.index + (i << part), part, leaf.prot, leaf.accessed, leaf.dirty, leaf.is_global
                )
                for i in range(512)
            }
        )

    def free(self) -> None:
        """Gives back the root; everything else must be gone."""

        def gone(table: Table) -> None:
            table.frame.use, table.frame.users = "gone", 0
            for entry in table.entries.values():
                if isinstance(entry, Table):
                    gone(entry)

        gone(self.root)
