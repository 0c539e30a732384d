"""Anchors, as docs/concepts/coalescing.md has them: regular entries, and what lines have shown to follow an anchor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reference.leaves import ORDERS, PAGE, Leaf
from reference.store import Set, Store


@dataclass
class Entry:
    """A regular entry of one page, or an anchor's of `pages` pages."""

    order: int
    first: int
    frame: int
    dirty: bool
    pages: int = 1
    is_anchor: bool = False

    def has(self, va: int) -> bool:
        """Whether it translates the address."""
        return 0 <= (va // PAGE >> self.order) - self.first < self.pages

    def lets(self, kind: str) -> bool:
        """Whether the access goes through."""
        return kind != "w" or self.dirty

    def extends(self, other: Entry) -> bool:
        """Whether both are of one anchor and say the same of it."""
        return (self.first, self.frame, self.dirty) == (other.first, other.frame, other.dirty)


class Anchor:
    """Anchors at every `group`th page."""

    def __init__(self, desc: dict[str, Any], place: int) -> None:
        """Of a description, the `place`th array, from 1."""
        self.distance = desc["group"]
        self.orders = sorted(ORDERS[size] for size in desc["sizes"])
        self.store = Store(desc["entries"], desc["ways"], desc["replacement"], place)

    def set_of(self, entry: Entry) -> Set:
        """Chosen by the anchor's number among anchors, else by the page's."""
        return self.store.set(entry.first // self.distance if entry.is_anchor else entry.first)

    def search(self, va: int) -> Entry | None:
        """The entry that translates the address, used: anchors first, then regular entries by size."""
        page = va // PAGE
        places = [(self.store.set(page // self.distance), True, 0)]
        places += [(self.store.set(page >> order), False, order) for order in self.orders]
        for place, is_anchor, order in places:
            for way, held in enumerate(place.ways):
                if held and (held[1].is_anchor, held[1].order) == (is_anchor, order) and held[1].has(va):
                    place.use(way)
                    entry: Entry = held[1]
                    return entry
        return None

    def entry_of(self, leaf: Leaf, line: list[Leaf]) -> Entry:
        """An anchor's entry if the line begins or continues one, else the page alone."""
        regular = Entry(leaf.order, leaf.number, leaf.frame, leaf.dirty)
        if leaf.order:
            return regular
        anchor = leaf.number // self.distance * self.distance
        alike = {o.number for o in line if o.accessed and o.dirty == leaf.dirty and o.distance == leaf.distance}
        low = high = leaf.number
        while low - 1 in alike and low > anchor:
            low -= 1
        while high + 1 in alike and high + 1 < anchor + self.distance:
            high += 1
        new = Entry(0, anchor, leaf.frame - (leaf.number - anchor), leaf.dirty, high + 1 - anchor, is_anchor=True)
        for held in self.set_of(new).ways:
            if held and held[1].is_anchor and held[1].extends(new) and anchor + held[1].pages >= low:
                new.pages = max(new.pages, held[1].pages)
                return new
        return new if low == anchor else regular

    def fill(self, va: int, leaf: Leaf, line: list[Leaf]) -> None:
        """What a walk, or the second level, knows; an anchor that said otherwise of the page goes."""
        new = self.entry_of(leaf, line)
        for held_place in [self.store.set(leaf.number // self.distance)] if leaf.order == 0 else []:
            for way, held in enumerate(held_place.ways):
                if not (held and held[1].is_anchor):
                    continue
                is_other = not (new.is_anchor and held[1].extends(new))
                of_one_anchor = new.is_anchor and held[1].first == new.first
                if is_other and (held[1].has(va) or of_one_anchor):
                    held_place.ways[way] = None
        self.set_of(new).put((new.order, new.first, new.is_anchor), new)

    def line(self, entry: Entry, va: int) -> list[Leaf]:
        """What an entry knows of the eight pages around one."""
        start = (va // PAGE >> entry.order) // 8 * 8
        pages = [page for page in range(start, start + 8) if 0 <= page - entry.first < entry.pages]
        return [Leaf(entry.order, page, entry.frame + page - entry.first, entry.dirty) for page in pages]

    def drop(self, start: int, end: int) -> None:
        """An invalidation of a range of addresses: whatever translates a page of it goes whole."""
        for place in self.store.sets:
            for way, held in enumerate(place.ways):
                size = PAGE << held[1].order if held else 0
                if held and held[1].first * size < end and (held[1].first + held[1].pages) * size > start:
                    place.ways[way] = None
