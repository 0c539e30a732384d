"""Gap-tolerant coalescing, as docs/concepts/coalescing.md has it: runs of pages whose frames are in order."""

from __future__ import annotations

from typing import Any

from reference.groups import Entry, Grouped
from reference.leaves import Leaf


class GapTolerant(Grouped):
    """Runs within a group; larger pages are entries of their own."""

    def __init__(self, desc: dict[str, Any], place: int) -> None:
        """Of a description, the `place`th array, from 1."""
        super().__init__(desc, place)
        self.is_run = True

    def is_in_order(self, frames: dict[int, int]) -> bool:
        """Whether contiguous pages of one group have frames in order, near each other."""
        pages = sorted(frames)
        in_order = [frames[page] for page in pages]
        return (
            pages[-1] - pages[0] == len(pages) - 1
            and pages[0] // self.group == pages[-1] // self.group
            and in_order == sorted(set(in_order))
            and in_order[-1] - in_order[0] < 2 * self.group
        )

    def entry_of(self, leaf: Leaf, line: list[Leaf]) -> Entry:
        """The run around a page: as far down as it goes, then as far up."""
        frames = {leaf.number: leaf.frame}
        alike = {o.number: o.frame for o in line if leaf.order == 0 and o.accessed and o.dirty == leaf.dirty}
        for step in (-1, 1):
            page = leaf.number + step
            while page in alike and self.is_in_order(frames | {page: alike[page]}):
                frames[page] = alike[page]
                page += step
        return Entry(leaf.order, frames, leaf.dirty)

    def join(self, old: Entry, new: Entry) -> Entry | None:
        """Both in one, if they overlap or touch and are in order together."""
        both = old.frames | new.frames
        is_same = all(both[page] == frame for page, frame in old.frames.items())
        return (
            Entry(new.order, both, new.dirty) if is_same and old.dirty == new.dirty and self.is_in_order(both) else None
        )
