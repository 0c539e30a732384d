"""An address space, and the elementary changes to its page table, flushed together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reference.frames import PAGE, Block
from reference.hashed import Hashed
from reference.tables import Leaf, R, Tree, W, down
from reference.vma import Vma, Vmas

if TYPE_CHECKING:
    from reference.kernel import Kernel

SIZES = {0: "4K", 9: "2M", 18: "1G"}


class Gather:
    """What one operation changed."""

    def __init__(self) -> None:
        """Nothing."""
        self.start: int | None = None
        self.end = 0
        self.order = 0
        self.whole = False
        self.is_global = False

    def note(self, va: int, order: int) -> None:
        """The page of `order` at `va` changed."""
        end = va + (PAGE << order)
        if self.start is None:
            self.start, self.end, self.order = va, end, order
        else:
            self.start, self.end, self.order = min(self.start, va), max(self.end, end), min(self.order, order)

    def flush(self, asid: int, ceiling: int) -> dict[str, Any] | None:
        """The invalidation to send."""
        everything: dict[str, Any] = {"flush": "all"} if self.is_global else {"flush": "space", "asid": asid}
        if self.whole:
            return everything
        if self.start is None:
            return None
        pages = (self.end - self.start) // (PAGE << self.order)
        if pages == 1:
            return {"flush": "page", "asid": asid, "va": self.start, "size": SIZES[self.order]}
        if pages <= ceiling:
            return {"flush": "range", "asid": asid, "range": {"start": self.start, "end": self.end}}
        return everything


class Space:
    """An address space."""

    def __init__(self, kernel: Kernel, pid: int, serial: int) -> None:
        """Empty."""
        self.kernel = kernel
        self.pid = pid
        self.serial = serial
        self.tree: Tree | Hashed = kernel.table()
        self.asid: int | None = None
        self.users = 0
        self.vmas = Vmas()
        # Pages without any rights, kept aside: by their first address.
        self.hidden: dict[int, Leaf] = {}
        self.heap: tuple[int, int] | None = None

    def send(self, gather: Gather) -> None:
        """Delivers what was gathered; of a space without a tag no TLB knows anything."""
        if self.asid is not None:
            what = gather.flush(self.asid, self.kernel.linux["flush_ceiling"])
            if what:
                self.kernel.flushes.append(what)

    def leaf(self, vma: Vma, block: Block, order: int, prot: int, dirty: bool) -> Leaf:
        """A leaf with the usual bits; what is mapped can be read."""
        return Leaf(block, 0, order, prot | R, True, dirty, vma.kind.is_global)

    def rights(self, vma: Vma, leaf: Leaf) -> int:
        """What a leaf of a mapping may allow: no store that must fault first."""
        kind = vma.kind
        if not kind.prot & W:
            return kind.prot | R
        if kind.shared:
            stores = kind.object is None or kind.object.is_memory or leaf.dirty
        else:
            stores = leaf.block.use == "anon" and self.kernel.is_exclusive(leaf)
        return kind.prot | R if stores else (kind.prot | R) & ~W

    def unmap(self, va: int, gather: Gather) -> Leaf:
        """Takes a leaf out of the table; its users are the caller's affair."""
        leaf = self.tree.unmap(va)
        gather.is_global |= leaf.is_global
        gather.note(va, leaf.order)
        return leaf

    def changed(self, va: int, leaf: Leaf, gather: Gather) -> None:
        """A leaf was rewritten."""
        gather.note(va, leaf.order)
        gather.is_global |= leaf.is_global

    def split(self, va: int, leaf: Leaf) -> None:
        """A large leaf becomes leaves one size smaller."""
        leaf.block.is_whole = leaf.block.is_whole and leaf.block.use == "zero"
        self.tree.split(va)
        if leaf.block.use == "zero":
            for at in range(va, va + leaf.bytes, PAGE):
                self.tree.set(at, self.zero_part(leaf))
        gather = Gather()
        gather.note(va, leaf.order)
        self.send(gather)
        self.kernel.told.append({"event": "split", "va": va, "size": SIZES[leaf.order]})

    def split_at(self, at: int) -> None:
        """No page may lie across `at`."""
        while (leaf := self.tree.find(at)) and at % leaf.bytes:
            self.split(down(at, leaf.order), leaf)
        for first, leaf in list(self.hidden.items()):
            if first < at < first + leaf.bytes:
                self.split_hidden(first)

    def split_hidden(self, first: int) -> None:
        """A hidden page becomes base pages."""
        leaf = self.hidden.pop(first)
        leaf.block.is_whole = leaf.block.is_whole and leaf.block.use == "zero"
        for i in range(leaf.bytes // PAGE):
            part = Leaf(leaf.block, leaf.index + i, 0, leaf.prot, leaf.accessed, leaf.dirty, leaf.is_global)
            self.hidden[first + i * PAGE] = self.zero_part(leaf) if leaf.block.use == "zero" else part

    def zero_part(self, leaf: Leaf) -> Leaf:
        """What each base page of the huge zero page becomes when it is split: the one small zero page."""
        return Leaf(self.kernel.zero, 0, 0, leaf.prot, leaf.accessed, leaf.dirty, leaf.is_global)

    def zap(self, start: int, end: int, gather: Gather) -> None:
        """Unmaps all pages of a range."""
        at = start
        while found := self.tree.next(at, end):
            va, leaf = found
            self.unmap(va, gather)
            self.kernel.drop(leaf)
            at = va + leaf.bytes
        for _, leaf in self.take_hidden(start, end):
            self.kernel.drop(leaf)

    def take_hidden(self, start: int, end: int) -> list[tuple[int, Leaf]]:
        """Removes the hidden pages of a range."""
        return [(va, self.hidden.pop(va)) for va in sorted(self.hidden) if start <= va < end]

    def cuts_hugetlb(self, start: int, end: int) -> bool:
        """Whether an end of the range lies inside a page of a MAP_HUGETLB mapping."""
        for at in (start, end):
            vma = self.vmas.find(at)
            if vma and vma.start < at and vma.kind.hugetlb is not None and at % (PAGE << vma.kind.hugetlb):
                return True
        return False

    def clear(self, start: int, end: int) -> None:
        """Removes all mappings of a range."""
        if not self.vmas.over(start, end):
            return
        self.split_at(start)
        self.split_at(end)
        gather = Gather()
        for vma in self.vmas.cut(start, end):
            self.zap(vma.start, vma.end, gather)
        self.send(gather)
