"""Partial-subblock TLBs, as docs/concepts/coalescing.md has them: pages in their own places of a block of frames."""

from __future__ import annotations

from dataclasses import replace

from reference.groups import Entry, Grouped
from reference.leaves import PAGE, Leaf


class PartialSubblock(Grouped):
    """Blocks of base pages that are properly placed; other pages, and larger ones, are entries of their own."""

    def is_proper(self, page: int, frame: int) -> bool:
        """Whether a page has in its block the place that its frame has in one of frames."""
        return page % self.group == frame % self.group

    def belongs(self, leaf: Leaf, other: Leaf) -> bool:
        """Whether a page that is alike may share the entry of another."""
        is_near = leaf.number // self.group == other.number // self.group
        is_proper = self.is_proper(leaf.number, leaf.frame) and self.is_proper(other.number, other.frame)
        return is_near and is_proper and leaf.frame // self.group == other.frame // self.group

    def join(self, old: Entry, new: Entry) -> Entry | None:
        """Both in one, if they may be."""
        if old.dirty != new.dirty or old.first // self.group != new.first // self.group:
            return None
        is_proper = all(self.is_proper(*each) for each in (*old.frames.items(), *new.frames.items()))
        if is_proper and old.distance == new.distance:
            return Entry(new.order, old.frames | new.frames, new.dirty)
        return new if old.frames == new.frames else None

    def drop(self, start: int, end: int) -> None:
        """An invalidation of a range of addresses: the pages that it names, and no others."""
        for place in self.store.sets:
            for way, held in enumerate(place.ways):
                size = PAGE << held[1].order if held else 0
                if held:
                    rest = {p: f for p, f in held[1].frames.items() if p * size >= end or (p + 1) * size <= start}
                    place.ways[way] = ("entry", replace(held[1], frames=rest)) if rest else None
