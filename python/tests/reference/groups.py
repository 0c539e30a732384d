"""TLB entries for several base pages, as docs/concepts/coalescing.md has them: pages with their frames."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from reference.leaves import ORDERS, PAGE, Leaf
from reference.store import Set, Store


@dataclass
class Entry:
    """Pages of one size, each with its frame, that are told together."""

    order: int
    frames: dict[int, int]
    dirty: bool

    def has(self, va: int) -> bool:
        """Whether it translates the address."""
        return (va // PAGE >> self.order) in self.frames

    def lets(self, kind: str) -> bool:
        """Whether the access goes through."""
        return kind != "w" or self.dirty

    @property
    def first(self) -> int:
        """The lowest page."""
        return min(self.frames)

    @property
    def distance(self) -> int:
        """From the lowest page to its frame."""
        return self.frames[self.first] - self.first


class Grouped:
    """Designs colt-sa, colt-fa and clustered; larger pages are entries of their own."""

    def __init__(self, desc: dict[str, Any], place: int) -> None:
        """Of a description, the `place`th array, from 1."""
        self.design = desc["design"]
        self.group = desc["group"]
        self.orders = sorted(ORDERS[size] for size in desc["sizes"])
        self.store = Store(desc["entries"], desc["ways"], desc["replacement"], place)
        # A run cannot have holes.
        self.is_run = self.design == "colt-fa"

    def set_of(self, order: int, page: int) -> Set:
        """Base pages by their group's number, so that they meet; all others by their own."""
        by_group = order == 0 and self.design != "colt-fa"
        return self.store.set(page // self.group if by_group else page)

    def search(self, va: int) -> Entry | None:
        """The entry that translates the address, used: base pages first."""
        for order in self.orders:
            place = self.set_of(order, va // PAGE >> order)
            for way, held in enumerate(place.ways):
                if held and held[1].order == order and held[1].has(va):
                    place.use(way)
                    entry: Entry = held[1]
                    return entry
        return None

    def belongs(self, leaf: Leaf, other: Leaf) -> bool:
        """Whether a page that is alike may share the entry of another."""
        page, near = leaf.number, other.number
        if self.design == "colt-fa":
            return other.distance == leaf.distance
        is_near = page // self.group == near // self.group
        if self.design == "colt-sa":
            return is_near and other.distance == leaf.distance
        return is_near and other.frame // self.group == leaf.frame // self.group

    def entry_of(self, leaf: Leaf, line: list[Leaf]) -> Entry:
        """What a page gives together with those of its line that belong to it."""
        frames = {leaf.number: leaf.frame}
        if leaf.order == 0:
            alike = [o for o in line if o.accessed and o.dirty == leaf.dirty and self.belongs(leaf, o)]
            frames |= {other.number: other.frame for other in alike}
        if self.design == "colt-fa":
            # A run ends at the first page that is not there.
            low = high = leaf.number
            while low - 1 in frames:
                low -= 1
            while high + 1 in frames:
                high += 1
            frames = {page: frames[page] for page in range(low, high + 1)}
        return Entry(leaf.order, frames, leaf.dirty)

    def join(self, old: Entry, new: Entry) -> Entry | None:
        """Both in one, if they may be; what the new one says of a page counts."""
        both = Entry(new.order, old.frames | new.frames, new.dirty)
        pages = both.frames
        if old.dirty != new.dirty:
            return None
        if self.design == "colt-fa":
            is_whole = max(pages) - min(pages) + 1 == len(pages) <= self.group
            return both if is_whole and old.distance == new.distance else None
        if old.first // self.group != new.first // self.group:
            return None
        if self.design == "colt-sa":
            return both if old.distance == new.distance else None
        return (
            both if len({frame // self.group for frame in (*old.frames.values(), *new.frames.values())}) == 1 else None
        )

    def fill(self, va: int, leaf: Leaf, line: list[Leaf]) -> None:
        """Takes in what a walk, or the second level, knows: no two entries speak for one page then."""
        del va
        new = self.entry_of(leaf, line)
        place = self.set_of(new.order, leaf.number)
        kept = None
        for way, held in enumerate(place.ways):
            if not held or held[1].order != new.order:
                continue
            old: Entry = held[1]
            joined = new if new.order and old.frames.keys() == new.frames.keys() else None
            if new.order == 0:
                joined = self.join(old, new)
            if joined:
                new = joined
                if kept is None:
                    kept = way
                else:
                    place.ways[way] = None
            elif new.order == 0 and old.frames.keys() & new.frames.keys():
                rest = {page: frame for page, frame in old.frames.items() if page not in new.frames}
                is_left = rest and not self.is_run
                place.ways[way] = ("entry", replace(old, frames=rest)) if is_left else None
        if kept is None:
            kept = place.ways.index(None) if None in place.ways else place.victim()
        place.ways[kept] = ("entry", new)
        place.use(kept)

    def line(self, entry: Entry, va: int) -> list[Leaf]:
        """What an entry knows of the eight pages around one."""
        first = (va // PAGE >> entry.order) // 8 * 8
        pages = [page for page in range(first, first + 8) if page in entry.frames]
        return [Leaf(entry.order, page, entry.frames[page], entry.dirty) for page in pages]

    def drop(self, start: int, end: int) -> None:
        """An invalidation of a range of addresses: whatever translates a page of it goes whole."""
        for place in self.store.sets:
            for way, held in enumerate(place.ways):
                size = PAGE << held[1].order if held else 0
                if held and any(page * size < end and (page + 1) * size > start for page in held[1].frames):
                    place.ways[way] = None
