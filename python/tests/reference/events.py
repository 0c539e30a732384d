"""Events of the trace: the system calls of a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from reference import faults
from reference.frames import PAGE, Block, OutOfMemory
from reference.space import SIZES, Gather, Space
from reference.tables import Leaf, R, W, X, down
from reference.tlb import ORDERS
from reference.vma import Kind, Object, Vma
from reference.walker import size

if TYPE_CHECKING:
    from reference.kernel import Kernel

HUGE = PAGE << 9


def rights(text: str) -> int:
    """Of a text trace."""
    return sum(bit for letter, bit in (("r", R), ("w", W), ("x", X)) if letter in text)


def up(n: int, to: int = PAGE) -> int:
    """Rounded up."""
    return -(-n // to) * to


def obey(kernel: Kernel, pid: int, words: list[str]) -> str:
    """Obeys an event; the name of its error, if it failed."""
    verb, args = words[0], words[1:]
    space = kernel.space(int(args[0].split(".")[0]) if verb == "p" else pid)
    if verb == "p":
        kernel.tag(space)
        return ""
    if verb == "fork":
        return fork(kernel, space, int(args[0]), len(args) > 1)
    if verb in ("exit", "exec"):
        kernel.leave(pid)
        if verb == "exec":
            kernel.space(pid)
        return ""
    if verb in ("clone", "exit-thread", "tick", "image", "malloc", "free", "code", "resume"):
        return ""
    if verb == "brk":
        return brk(space, int(args[0], 16), int(args[1], 16))
    start, length = int(args[0], 16), size(args[1])
    if verb == "mmap":
        return mmap(space, start, length, args[2:])
    if start % PAGE:
        return "einval"
    end = up(start + length)
    if verb == "munmap":
        if length == 0 or space.cuts_hugetlb(start, end):
            return "einval"
        return clear(space, start, end)
    if verb == "mprotect":
        return mprotect(space, start, end, rights(args[2]))
    if verb == "mremap":
        to = int(args[2], 16)
        return "einval" if to % PAGE else mremap(space, start, end, to, up(to + size(args[3])), len(args) > 4)
    assert verb == "madvise"
    return madvise(space, start, end, args[2])


def clear(space: Space, start: int, end: int) -> str:
    """Unmaps a range; shared memory goes with its last mapping."""
    gone = [v.kind.object for v in space.vmas.over(start, end)]
    space.clear(start, end)
    forget(space.kernel, gone)
    return ""


def forget(kernel: Kernel, objects: list[Object | None]) -> None:
    """Shared memory that nobody maps gives its frames back."""
    shown = {v.kind.object for s in kernel.spaces.values() for v in s.vmas.all}
    for thing in set(objects):
        if thing and thing.is_memory and thing not in shown:
            for block in thing.pages.values():
                assert isinstance(block, Block)
                block.users -= 1
            thing.pages = {}


def mmap(space: Space, start: int, length: int, words: list[str]) -> str:
    """A mapping appears."""
    kernel = space.kernel
    flags = dict(w.partition("=")[::2] for w in words[2:])
    wanted = ORDERS[flags["hugetlb"]] if "hugetlb" in flags else None
    hugetlb = wanted if wanted is not None and wanted == kernel.pool_order else None
    if wanted is not None and hugetlb is None:
        kernel.fail("no_hugetlb_pool")
    end, start = up(start + length), down(start, 0)
    if length == 0 or (hugetlb is not None and start % (PAGE << hugetlb)):
        return "einval"
    if hugetlb is not None:
        end = up(end, PAGE << hugetlb)
    if space.cuts_hugetlb(start, end):
        return "einval"
    clear(space, start, end)
    thing, first = None, 0
    if words[1].startswith("file:"):
        path, _, offset = words[1][5:].rpartition("+")
        thing = kernel.files.setdefault(path, Object(is_memory=False))
        first = size(offset) // PAGE
        thing.end = max(thing.end, first + (end - start) // PAGE)
    elif "shared" in flags and hugetlb is None:
        thing = Object(is_memory=True)
    kind = Kind(
        rights(words[0]),
        "shared" in flags,
        "growsdown" in flags,
        "global" in flags,
        hugetlb,
        "",
        thing,
        first - start // PAGE if thing else 0,
    )
    space.vmas.insert(Vma(start, end, kind))
    if "populate" in flags and kind.prot:
        access = "write" if kind.prot & W and not kind.shared else "read"
        try:
            populate(space, start, end, access)
        except OutOfMemory:
            kernel.fail("populate_short")
    return ""


def populate(space: Space, start: int, end: int, access: str) -> None:
    """Faults all pages of a range in."""
    while start < end:
        if not space.tree.find(start):
            faults.serve(space, start, access)
        leaf = space.tree.find(start)
        assert leaf
        start = down(start, leaf.order) + leaf.bytes


def brk(space: Space, start: int, end: int) -> str:
    """The heap ends elsewhere."""
    kernel = space.kernel
    wanted = up(end)
    first, last = space.heap or (up(start), up(start))
    goal = wanted if wanted > first else first
    if kernel.pool_order and kernel.policy["hugetlb"]["round_heap"] and wanted > first:
        goal = up(wanted, PAGE << kernel.pool_order)
    if goal < last:
        if space.cuts_hugetlb(goal, last):
            return "einval"
        clear(space, goal, last)
    elif goal > last:
        above = space.vmas.over(last, goal)
        if above:
            goal = above[0].start
            if goal < wanted:
                return "enomem"
        if goal > last:
            space.vmas.insert(Vma(last, goal, Kind(R | W)))
    space.heap = (first, goal)
    return ""


def mprotect(space: Space, start: int, end: int, prot: int) -> str:
    """Rights change, up to the first hole."""
    if space.cuts_hugetlb(start, end):
        return "einval"
    last = space.vmas.hole(start, end)
    split_borders(space, [v for v in space.vmas.over(start, last) if v.kind.prot != prot], start, last)
    gather = Gather()
    for vma in space.vmas.cut(start, last):
        before = vma.kind.prot
        vma.kind = replace(vma.kind, prot=prot)
        first, stop = vma.start, vma.end
        space.vmas.insert(replace(vma))
        if before == prot:
            continue
        if before == 0:
            for va, leaf in space.take_hidden(first, stop):
                leaf.prot = space.rights(vma, leaf)
                space.tree.map(va, leaf)
            continue
        at = first
        while found := space.tree.next(at, stop):
            va, leaf = found
            at = va + leaf.bytes
            if prot == 0:
                space.hidden[va] = space.unmap(va, gather)
                continue
            new = space.rights(vma, leaf)
            if leaf.prot & ~new:
                space.changed(va, leaf, gather)
            leaf.prot = new
    space.send(gather)
    return "enomem" if last < end else ""


def split_borders(space: Space, vmas: list[Vma], start: int, end: int) -> None:
    """No huge page may lie across the new borders of these mappings."""
    for first, last in [(max(v.start, start), min(v.end, end)) for v in vmas]:
        space.split_at(first)
        space.split_at(last)


def madvise(space: Space, start: int, end: int, advice: str) -> str:
    """Advice on a range."""
    if start == end:
        return ""
    kernel = space.kernel
    vmas = space.vmas.over(start, end)
    has_hole = space.vmas.hole(start, end) < end
    if advice in ("hugepage", "nohugepage"):
        if any(v.kind.hugetlb is not None for v in vmas):
            return "einval"
        split_borders(space, [v for v in vmas if v.kind.advice != advice], start, end)
        for vma in space.vmas.cut(start, end):
            vma.kind = replace(vma.kind, advice=advice)
            space.vmas.insert(vma)
    elif advice == "collapse":
        collapse_all(space, start, end)
    elif advice == "dontneed":
        if space.cuts_hugetlb(start, end):
            return "einval"
        space.split_at(start)
        space.split_at(end)
        each_mapping(space, vmas, lambda vma, g: space.zap(max(vma.start, start), min(vma.end, end), g))
    elif advice == "free":
        if any(not v.kind.is_anon or v.kind.hugetlb is not None for v in vmas):
            return "einval"
        space.split_at(start)
        space.split_at(end)
        each_mapping(space, vmas, lambda vma, g: look_untouched(space, max(vma.start, start), min(vma.end, end), g))
    elif advice == "willneed":
        for vma in vmas:
            if vma.kind.object and not vma.kind.object.is_memory:
                first, last = max(vma.start, start), min(vma.end, end)
                most = max(size(kernel.linux["largest_read"]), size(kernel.linux["read_around"])) // PAGE
                faults.read(space, vma, vma.page(first), min(vma.page(last), vma.page(first) + most))
    return "enomem" if has_hole else ""


def each_mapping(space: Space, vmas: list[Vma], carry_out: Callable[[Vma, Gather], None]) -> None:
    """Advice on mappings, flushed one by one or at the end of the call."""
    gather = Gather()
    for vma in vmas:
        carry_out(vma, gather)
        if space.kernel.linux["advice_flush"] == "mapping":
            space.send(gather)
            gather = Gather()
    space.send(gather)


def look_untouched(space: Space, start: int, end: int, gather: Gather) -> None:
    """Clears the accessed and dirty bits of what has contents."""
    while found := space.tree.next(start, end):
        va, leaf = found
        start = va + leaf.bytes
        if (leaf.accessed or leaf.dirty) and leaf.block.use != "zero":
            leaf.accessed = leaf.dirty = False
            space.changed(va, leaf, gather)


def collapse_all(space: Space, start: int, end: int) -> None:
    """MADV_COLLAPSE of every aligned 2 MiB of a range."""
    kernel = space.kernel
    if kernel.policy["kind"] != "linux-thp":
        kernel.refuse("thp_never", start)
        return
    for vma in space.vmas.over(start, end):
        first, last = up(max(vma.start, start), HUGE), down(min(vma.end, end), 9)
        why = ""
        if not vma.kind.is_anon:
            why = "thp_not_anonymous"
        elif vma.kind.advice == "nohugepage":
            why = "thp_nohugepage"
        elif vma.kind.prot == 0:
            why = "collapse_empty"
        elif first >= last:
            why = "thp_outside_vma"
        if why:
            kernel.refuse(why, max(vma.start, start))
            continue
        for at in range(first, last, HUGE):
            collapse(space, vma, at)


def collapse(space: Space, vma: Vma, at: int) -> None:
    """Base pages become a huge page."""
    there = space.tree.find(at)
    if there and there.order >= 9:
        return
    if not space.tree.next(at, at + HUGE):
        space.kernel.refuse("collapse_empty", at)
        return
    dirty, va = False, at
    while found := space.tree.next(va, at + HUGE):
        dirty |= found[1].dirty
        va = found[0] + found[1].bytes
    gather = Gather()
    space.zap(at, at + HUGE, gather)
    gather.note(at, 9)
    space.send(gather)
    block = Block(9, "anon")
    space.tree.map(at, space.leaf(vma, block, 9, vma.kind.prot, dirty))
    faults.mark_private(space, at)
    space.kernel.told.append({"event": "collapsed", "va": at, "size": SIZES[9], "pfn": (block, 0)})


def mremap(space: Space, start: int, end: int, to: int, to_end: int, keep_old: bool) -> str:
    """A mapping moves, or changes size."""
    if end == start or to_end == to:
        return "einval"
    vma = space.vmas.find(start)
    if vma is None or vma.end < end:
        return "efault"
    if vma.kind.hugetlb is not None or space.cuts_hugetlb(to, to_end):
        return "einval"
    thing = vma.kind.object
    if start == to:
        if to_end < end:
            space.clear(to_end, end)
        elif to_end > end:
            if space.vmas.over(end, to_end):
                return "enomem"
            extend(space, Vma(end, to_end, vma.kind, vma.has_private))
        return ""
    if start < to_end and to < end:
        return "einval"
    space.clear(to, to_end)
    kept = min(end - start, to_end - to)
    space.split_at(start)
    space.split_at(start + kept)
    shift = vma.kind.shift + (start - to) // PAGE if thing else 0
    extend(space, Vma(to, to_end, replace(vma.kind, shift=shift), vma.has_private))
    move(space, start, to, kept)
    if not keep_old:
        space.clear(start, end)
    return ""


def extend(space: Space, vma: Vma) -> None:
    """A mapping continues, or begins."""
    if vma.kind.object:
        vma.kind.object.end = max(vma.kind.object.end, vma.page(vma.end))
    space.vmas.insert(vma)


def move(space: Space, start: int, to: int, length: int) -> None:
    """Leaves move with their A and D."""
    gather, at = Gather(), start
    while found := space.tree.next(at, start + length):
        va, leaf = found
        if (to - start) % leaf.bytes:
            space.split(va, leaf)
            continue
        space.unmap(va, gather)
        space.tree.map(va + to - start, leaf)
        at = va + leaf.bytes
    for va, leaf in space.take_hidden(start, start + length):
        space.hidden[va + to - start] = leaf
        if (to - start) % leaf.bytes:
            space.split_hidden(va + to - start)
    space.send(gather)


def fork(kernel: Kernel, parent: Space, child: int, shares: bool) -> str:
    """A child with a copy of the address space."""
    if child in kernel.spaces:
        return "einval"
    if shares:
        kernel.enter(child, parent)
        return ""
    space = kernel.new_space(child)
    kernel.enter(child, space)
    if kernel.asid_bits:
        kernel.tag(space)
    space.vmas = parent.vmas.copy()
    space.heap = parent.heap
    lost = False

    def copy(vma: Vma, leaf: Leaf) -> Leaf:
        """A leaf for the child; both may no longer be stored to."""
        kernel.share(leaf)
        if not vma.kind.shared:
            leaf.prot &= ~W
        return replace(leaf)

    for vma in parent.vmas.all:
        if not vma.has_private:
            continue
        at = vma.start
        while found := parent.tree.next(at, vma.end):
            va, leaf = found
            lost |= bool(leaf.prot & W) and not vma.kind.shared
            mine = copy(vma, leaf)
            mine.accessed = False
            space.tree.map(va, mine)
            at = va + leaf.bytes
    for va, leaf in parent.hidden.items():
        vma = parent.vmas.find(va)
        if vma and vma.has_private:
            space.hidden[va] = copy(vma, leaf)
    gather = Gather()
    gather.whole = lost
    parent.send(gather)
    return ""
