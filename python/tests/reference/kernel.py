"""The kernel: docs/concepts/kernel.md, without its counters and without what it costs."""

from __future__ import annotations

from typing import Any

from reference import events, faults
from reference.frames import Block
from reference.hashed import Hashed
from reference.space import Gather, Space
from reference.tables import Leaf, Tree
from reference.tlb import ORDERS
from reference.vma import Object
from reference.walker import size


class Kernel:
    """Processes, their address spaces, the page cache, the pool."""

    def __init__(self, machine: dict[str, Any], policy: dict[str, Any]) -> None:
        """Boots."""
        self.of_table = machine["table"]
        self.policy = policy
        self.linux = policy["linux"]
        self.asid_bits: int = machine["tlb_rules"]["asid_bits"]
        self.owners: dict[int, Space] = {}
        self.next_asid = 1
        # By core: the address space whose translations it may hold, where there are no tags. And the core that acts.
        self.running: dict[int, Space] = {}
        self.core = 0
        # Whether what is flushed is the acting core's affair alone.
        self.is_local = False
        self.spaces: dict[int, Space] = {}
        self.serials = 0
        self.files: dict[str, Object] = {}
        self.zero = Block(0, "zero")
        self.huge_zero = Block(9, "zero")
        pool = policy.get("hugetlb")
        self.pool_order = ORDERS[pool["size"]] if pool else None
        self.pool = size(pool["pool"]) // (4096 << ORDERS[pool["size"]]) if pool else 0
        # What the operation at hand did.
        self.told: list[dict[str, Any]] = []
        # What happened to tables, told after all else.
        self.table_news: list[dict[str, Any]] = []
        self.flushes: list[dict[str, Any]] = []

    # Processes and tags ---------------------------------------------------------------------------------------------

    def space(self, pid: int) -> Space:
        """The address space of a process, made if there is none."""
        if pid not in self.spaces:
            self.enter(pid, self.new_space(pid))
            self.tag(self.spaces[pid])
        return self.spaces[pid]

    def new_space(self, pid: int) -> Space:
        """An empty one."""
        self.serials += 1
        return Space(self, pid, self.serials)

    def table(self) -> Tree | Hashed:
        """An empty page table."""
        levels, kind = self.of_table["levels"], self.of_table["kind"]
        return Tree(levels) if kind == "x86-64-radix" else Hashed(levels, self.of_table, self.table_news)

    def enter(self, pid: int, space: Space) -> None:
        """The process runs in it."""
        self.spaces[pid] = space
        space.users += 1

    def leave(self, pid: int) -> None:
        """The process leaves its address space, which goes with its last."""
        space = self.spaces.pop(pid, None)
        if space is None:
            return
        space.users -= 1
        if space.users:
            return
        gather = Gather()
        gather.whole = True
        for vma in space.vmas.all:
            space.zap(vma.start, vma.end, gather)
        space.send(gather)
        space.tree.free()
        events.forget(self, [vma.kind.object for vma in space.vmas.all])
        self.owners = {tag: owner for tag, owner in self.owners.items() if owner is not space}

    def tag(self, space: Space) -> None:
        """Makes sure that it has a tag; without tags, that the TLBs hold nothing of the last one's."""
        if self.asid_bits == 0:
            space.asid = 1
            if self.running.get(self.core, space) is not space:
                self.flushes.append({"flush": "space", "asid": 1})
                self.is_local = True
            self.running[self.core] = space
            return
        if space.asid is not None:
            return
        tags = (1 << self.asid_bits) - 1
        in_turn = [(self.next_asid - 1 + i) % tags + 1 for i in range(tags)]
        asid = next((t for t in in_turn if t not in self.owners), self.next_asid)
        self.next_asid = asid % tags + 1
        self.told.append({"event": "asid", "pid": space.pid, "asid": asid})
        if asid in self.owners:
            self.owners[asid].asid = None
            self.flushes.append({"flush": "space", "asid": asid})
        self.owners[asid] = space
        space.asid = asid

    # Frames ---------------------------------------------------------------------------------------------------------

    def share(self, leaf: Leaf) -> None:
        """One leaf more of these frames."""
        self.count(leaf, 1)

    def drop(self, leaf: Leaf) -> None:
        """One leaf less of them."""
        self.count(leaf, -1)

    def count(self, leaf: Leaf, change: int) -> None:
        """Users come and go."""
        block = leaf.block
        if block.use == "zero":
            return
        if block.is_whole:
            block.users += change
            gone = block.users == 0
        else:
            for i in range(leaf.index, leaf.index + (1 << leaf.order)):
                block.users_of[i] = block.count(i) + change
            gone = len(block.users_of) == block.frames and not any(block.users_of.values())
        if gone and block.pooled:
            self.pool += 1

    def is_exclusive(self, leaf: Leaf) -> bool:
        """Whether this is the only leaf of these frames."""
        frames = range(leaf.index, leaf.index + (1 << leaf.order))
        return leaf.block.users == 1 if leaf.block.is_whole else all(leaf.block.count(i) == 1 for i in frames)

    def take_pooled(self) -> Block | None:
        """A page of the pool."""
        if not self.pool:
            return None
        assert self.pool_order is not None
        self.pool -= 1
        block = Block(self.pool_order, "anon")
        block.pooled = True
        return block

    # What others do to it -------------------------------------------------------------------------------------------

    def refuse(self, why: str, va: int) -> None:
        """A larger page was not mapped."""
        self.told.append({"event": "refused", "why": why, "va": va})

    def fail(self, error: str) -> None:
        """An event could not be obeyed."""
        self.told.append({"event": "failed", "error": error})

    def event(self, pid: int, words: list[str]) -> None:
        """Obeys a line of the trace."""
        error = events.obey(self, pid, words)
        if error:
            self.fail(error)

    def fault(self, pid: int, va: int, kind: str) -> str:
        """Serves a page fault: `served`, `unmapped`, `forbidden` or `out-of-memory`."""
        return faults.fault(self.spaces[pid], va, kind) if pid in self.spaces else "unmapped"
