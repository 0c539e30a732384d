"""Complete-subblock TLBs, as docs/concepts/coalescing.md has them: blocks of pages, each page with all of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reference.leaves import ORDERS, PAGE, Leaf
from reference.store import Set, Store


@dataclass
class Entry:
    """Pages of one size by number, as the table says them."""

    order: int
    pages: dict[int, Leaf] = field(default_factory=dict)
    # The page that was looked up last.
    asked: int = 0

    def lets(self, kind: str) -> bool:
        """Whether the access to the page that was looked up goes through."""
        return kind != "w" or self.pages[self.asked].dirty


class CompleteSubblock:
    """Blocks of base pages under one tag; larger pages are entries of their own."""

    def __init__(self, desc: dict[str, Any], place: int) -> None:
        """Of a description, the `place`th array, from 1."""
        self.group = desc["group"]
        self.orders = sorted(ORDERS[size] for size in desc["sizes"])
        self.store = Store(desc["entries"], desc["ways"], desc["replacement"], place)

    def key(self, order: int, page: int) -> tuple[int, int]:
        """The tag of a page: that of its block, if it is a base page."""
        return (order, page // self.group if order == 0 else page)

    def set_of(self, order: int, page: int) -> Set:
        """Chosen by the tag."""
        return self.store.set(self.key(order, page)[1])

    def search(self, va: int) -> Entry | None:
        """The entry that translates the address, used: base pages first."""
        for order in self.orders:
            page = va // PAGE >> order
            place = self.set_of(order, page)
            way = place.find(self.key(order, page))
            held = None if way is None else place.ways[way]
            if way is not None and held and page in held[1].pages:
                place.use(way)
                entry: Entry = held[1]
                entry.asked = page
                return entry
        return None

    def fill(self, va: int, leaf: Leaf, line: list[Leaf]) -> None:
        """The page alone, into the entry of its block if there is one."""
        del va, line
        place, key = self.set_of(leaf.order, leaf.number), self.key(leaf.order, leaf.number)
        way = place.find(key)
        held = None if way is None else place.ways[way]
        entry = held[1] if held else Entry(leaf.order)
        entry.pages[leaf.number] = Leaf(leaf.order, leaf.number, leaf.frame, leaf.dirty)
        place.put(key, entry)

    def line(self, entry: Entry, va: int) -> list[Leaf]:
        """What an entry knows of the eight pages around one."""
        first = (va // PAGE >> entry.order) // 8 * 8
        return [leaf for page, leaf in sorted(entry.pages.items()) if first <= page < first + 8]

    def drop(self, start: int, end: int) -> None:
        """An invalidation of a range of addresses: the pages that it names, and no others."""
        for place in self.store.sets:
            for way, held in enumerate(place.ways):
                if not held:
                    continue
                size, pages = PAGE << held[1].order, held[1].pages
                for page in [page for page in pages if page * size < end and (page + 1) * size > start]:
                    del pages[page]
                if not pages:
                    place.ways[way] = None
