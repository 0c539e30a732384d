"""Page faults."""

from __future__ import annotations

from reference.frames import PAGE, Block, OutOfMemory
from reference.space import SIZES, Gather, Space
from reference.tables import Leaf, R, W, X, down
from reference.vma import Vma
from reference.walker import size

ALLOWS = {"fetch": X, "write": W, "read": R | W | X}


def fault(space: Space, va: int, kind: str) -> str:
    """Makes `va` usable, or says why it cannot be."""
    kernel = space.kernel
    if not space.vmas.find(va) and not grow_stack(space, va):
        return "unmapped"
    vma = space.vmas.find(va)
    assert vma
    if not vma.kind.prot & ALLOWS[kind]:
        return "forbidden"
    try:
        what = serve(space, va, kind)
    except OutOfMemory:
        return "out-of-memory"
    leaf = space.tree.find(va)
    assert leaf
    kernel.told.append(
        {
            "event": "fault",
            "kind": what,
            "va": down(va, leaf.order),
            "size": SIZES[leaf.order],
            "pfn": (leaf.block, leaf.index),
            "prot": leaf.prot,
        }
    )
    return "served"


def is_canonical(space: Space, va: int) -> bool:
    """Whether the bits above those the table translates are copies of the highest."""
    upper = va >> (12 + 9 * space.tree.levels - 1)
    return upper in (0, (1 << 64 - (12 + 9 * space.tree.levels - 1)) - 1)


def grow_stack(space: Space, va: int) -> bool:
    """Grows the stack above `va` down to it, if there is one and it may."""
    above = next((v for v in space.vmas.all if v.end > va), None)
    if not is_canonical(space, va) or above is None or not above.kind.grows_down:
        return False
    linux, lower = space.kernel.linux, down(va, 0)
    if above.end - lower > size(linux["stack_limit"]):
        return False
    below = next((v for v in reversed(space.vmas.all) if v.end <= va), None)
    if below and below.kind.prot and not below.kind.grows_down and lower - below.end < size(linux["stack_guard"]):
        return False
    above.start = lower
    space.kernel.told.append({"event": "stack_growth", "start": lower})
    return True


def serve(space: Space, va: int, kind: str) -> str:
    """Serves an access the mapping allows: the kind of fault it was."""
    vma = space.vmas.find(va)
    assert vma
    leaf = space.tree.find(va)
    if leaf is None:
        return populate(space, vma, va, kind)
    if kind == "write" and not leaf.prot & W:
        return store(space, vma, va, leaf)
    flush_one(space, down(va, leaf.order), leaf.order)
    return "spurious"


def flush_one(space: Space, va: int, order: int) -> None:
    """Sends the flush of one page."""
    gather = Gather()
    gather.note(va, order)
    space.send(gather)


# Where nothing was ----------------------------------------------------------------------------------------------------


def populate(space: Space, vma: Vma, va: int, kind: str) -> str:
    """Maps something where nothing was."""
    order, refusal = choose(space, vma, va)
    if order:
        what = pooled(space, vma, va, kind, order) if space.kernel.pool_order else large(space, vma, va, kind, order)
        if what:
            return what
        refusal = "hugetlb_pool_empty"
    if refusal:
        space.kernel.refuse(refusal, va)
    return anon(space, vma, va, kind) if vma.kind.is_anon else of_object(space, vma, va, kind)


def choose(space: Space, vma: Vma, va: int) -> tuple[int, str]:
    """What the policy says: an order above 0, or why not."""
    policy, kind = space.kernel.policy, vma.kind
    if policy["kind"] == "linux-4k":
        return 0, ""
    if policy["kind"] == "linux-thp":
        enabled = policy["thp"]["enabled"]
        if not kind.is_anon:
            return 0, "thp_not_anonymous"
        if enabled == "never":
            return 0, "thp_never"
        if kind.advice == "nohugepage":
            return 0, "thp_nohugepage"
        if enabled == "madvise" and kind.advice != "hugepage":
            return 0, "thp_not_advised"
        if not vma.fits(va, PAGE << 9):
            return 0, "thp_outside_vma"
        return (9, "") if space.tree.hole(va) >= 9 else (0, "thp_already_populated")
    order = space.kernel.pool_order
    assert order is not None
    applies_to = policy["hugetlb"]["applies_to"]
    applies = (
        kind.hugetlb == order
        or (applies_to == "anon" and kind.is_anon and not kind.grows_down)
        or (applies_to == "all-private" and not kind.shared and not kind.is_global)
    )
    if not applies:
        return 0, "hugetlb_not_applied"
    if down(va, order) < vma.start:
        return 0, "hugetlb_head"
    if not vma.fits(va, PAGE << order):
        return 0, "hugetlb_tail"
    return (order, "") if space.tree.hole(va) >= order else (0, "hugetlb_already_populated")


def private(space: Space, vma: Vma, va: int, block: Block, dirty: bool) -> None:
    """Maps a page of the process's own."""
    at = down(va, block.order)
    space.tree.map(at, space.leaf(vma, block, block.order, vma.kind.prot, dirty))
    mark_private(space, at)


def mark_private(space: Space, va: int) -> None:
    """Fork will copy this mapping's leaves."""
    vma = space.vmas.find(va)
    assert vma
    vma.has_private = True


def anon(space: Space, vma: Vma, va: int, kind: str) -> str:
    """A base page of private memory."""
    if kind != "write" and space.kernel.linux["zero_page"] and vma.kind.hugetlb is None:
        space.tree.map(down(va, 0), space.leaf(vma, space.kernel.zero, 0, vma.kind.prot & ~W, False))
        return "zero_page"
    private(space, vma, va, Block(0, "anon"), kind == "write")
    return "anon"


def large(space: Space, vma: Vma, va: int, kind: str, order: int) -> str:
    """A transparent huge page. Memory is large enough in these tests for one to be always free."""
    if kind != "write" and space.kernel.policy["thp"]["zero_page"]:
        leaf = space.leaf(vma, space.kernel.huge_zero, order, vma.kind.prot & ~W, False)
        space.tree.map(down(va, order), leaf)
        return "zero_page"
    private(space, vma, va, Block(order, "anon"), kind == "write")
    return "anon"


def pooled(space: Space, vma: Vma, va: int, kind: str, order: int) -> str:
    """A page of the pool, if it has one."""
    block = space.kernel.take_pooled()
    if block is None:
        return ""
    assert block.order == order
    private(space, vma, va, block, kind == "write")
    return "anon" if vma.kind.is_anon else "file_private"


# Files and shared memory ----------------------------------------------------------------------------------------------


def of_object(space: Space, vma: Vma, va: int, kind: str) -> str:
    """A page of a file or of shared memory."""
    at, page = down(va, 0), vma.page(va)
    what = "file_cached"
    if kind != "write":
        warm(space, vma, at)
        if around(space, vma, at):
            return what
    if bring(space, vma, page):
        what = "file_read"
    if kind == "write" and not vma.kind.shared:
        private(space, vma, at, Block(0, "anon"), True)
        return "file_private"
    cached(space, vma, at, kind == "write", True)
    return what


def window(space: Space, vma: Vma, at: int) -> range:
    """The pages that fault-around may map."""
    width = size(space.kernel.linux["fault_around"])
    start = at - at % width
    return range(max(start, vma.start), min(start + width, vma.end), PAGE)


def warm(space: Space, vma: Vma, at: int) -> None:
    """In a warm cache the window is there already."""
    thing = vma.kind.object
    assert thing
    if space.kernel.linux["page_cache"] == "warm" and not thing.is_memory:
        for va in window(space, vma, at):
            thing.pages.setdefault(vma.page(va), Block(0, "cache"))


def around(space: Space, vma: Vma, at: int) -> bool:
    """Maps what the cache has of the window; whether `at` was among it."""
    thing = vma.kind.object
    assert thing
    if size(space.kernel.linux["fault_around"]) <= PAGE:
        return False
    neighbours, is_mapped = 0, False
    for va in window(space, vma, at):
        if vma.page(va) not in thing.pages or space.tree.find(va):
            continue
        cached(space, vma, va, False, va == at or space.kernel.linux["prefaulted_accessed"])
        is_mapped = is_mapped or va == at
        neighbours += va != at
    if neighbours:
        first = window(space, vma, at).start
        space.kernel.told.append({"event": "around", "va": first, "pages": neighbours})
    return is_mapped


def cached(space: Space, vma: Vma, at: int, is_store: bool, accessed: bool) -> None:
    """Maps a page of the cache."""
    kind = vma.kind
    assert kind.object
    stores = kind.shared and (is_store or kind.object.is_memory)
    block = kind.object.pages[vma.page(at)]
    assert isinstance(block, Block)
    leaf = space.leaf(vma, block, 0, kind.prot if stores else kind.prot & ~W, is_store)
    leaf.accessed = accessed
    space.kernel.share(leaf)
    space.tree.map(at, leaf)


def bring(space: Space, vma: Vma, page: int) -> bool:
    """Brings a page into the cache; whether it had to be read."""
    thing = vma.kind.object
    assert thing
    if page in thing.pages:
        return False
    if thing.is_memory or space.kernel.linux["page_cache"] == "warm":
        thing.pages[page] = Block(0, "cache")
        return False
    n = max(1, size(space.kernel.linux["read_around"]) // PAGE)
    first = max(0, page - n // 2)
    read(space, vma, first, first + n)
    return True


def read(space: Space, vma: Vma, first: int, last: int) -> None:
    """Reads pages of a file that are not in the cache, as far as it is known to go."""
    thing = vma.kind.object
    assert thing
    pages = [p for p in range(first, min(last, thing.end)) if p not in thing.pages]
    thing.pages.update({p: Block(0, "cache") for p in pages})
    space.kernel.told.append({"event": "read", "page": first, "pages": len(pages)})


# A store to a protected page ------------------------------------------------------------------------------------------


def store(space: Space, vma: Vma, va: int, leaf: Leaf) -> str:
    """A store that the leaf forbids and the mapping allows."""
    kernel = space.kernel
    at = down(va, leaf.order)
    if vma.kind.shared:
        return widen(space, vma, at, leaf, "write_notify")
    if leaf.block.use == "zero":
        if leaf.order:
            if kernel.policy["kind"] == "linux-thp" and kernel.policy["thp"]["zero_page_write"] == "huge":
                return replace(space, vma, at, leaf, Block(leaf.order, "anon"), "zero_page_write")
            space.split(at, leaf)
            return serve(space, va, "write")
        return replace(space, vma, at, leaf, Block(0, "anon"), "zero_page_write")
    if leaf.block.use == "anon" and kernel.is_exclusive(leaf):
        return widen(space, vma, at, leaf, "reuse")
    if leaf.order == 0:
        return replace(space, vma, at, leaf, Block(0, "anon"), "copy_on_write")
    if leaf.block.pooled and leaf.order == leaf.block.order:
        block = kernel.take_pooled()
        if block:
            return replace(space, vma, at, leaf, block, "copy_on_write")
        if vma.kind.hugetlb is not None:
            raise OutOfMemory
        kernel.refuse("hugetlb_pool_empty", va)
    space.split(at, leaf)
    return serve(space, va, "write")


def widen(space: Space, vma: Vma, at: int, leaf: Leaf, what: str) -> str:
    """The leaf allows the store from now on; only the page that faulted is dropped."""
    leaf.prot, leaf.accessed, leaf.dirty = vma.kind.prot | R, True, True
    flush_one(space, at, leaf.order)
    return what


def replace(space: Space, vma: Vma, at: int, leaf: Leaf, block: Block, what: str) -> str:
    """A page of the process's own takes the place of another."""
    old = space.tree.set(at, space.leaf(vma, block, block.order, vma.kind.prot, True))
    gather = Gather()
    space.changed(at, old, gather)
    space.send(gather)
    space.kernel.drop(old)
    mark_private(space, at)
    return what
