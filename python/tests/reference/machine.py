"""The machine: every line of a trace, one reference after another, told as the engine tells it."""

from __future__ import annotations

from functools import partial
from typing import Any

from reference.frames import PAGE, Memory, Mismatch
from reference.kernel import Kernel
from reference.space import Space
from reference.tables import Leaf
from reference.tlb import Entry, Tlbs
from reference.vma import Kind, Vma
from reference.walker import Caches, Clock, Walk, Walker, size

KINDS = {"f": "fetch", "r": "read", "w": "write"}
# As the engine: more faults than that for one reference would be a defect.
MAX_FAULTS = 8


class Machine:
    """A machine with its kernel. `given` are the engine's lines, for the numbers of frames."""

    def __init__(self, resolved: dict[str, Any], unmapped: str, given: list[dict[str, Any]]) -> None:
        """Of a resolved description."""
        machine = resolved["machine"]
        self.unmapped = unmapped
        self.given = given
        self.lines: list[dict[str, Any]] = []
        self.line: dict[str, Any] = {"filled": [], "events": []}
        self.memory = Memory(size(machine["memory"]["size"]))
        self.kernel = Kernel(machine, resolved["policy"])
        self.through_caches = machine["cache_rules"]["data"]
        self.caches = Caches(machine)
        cores = range(machine["core"]["count"])
        self.tlbs = [Tlbs(machine, self.line) for _ in cores]
        self.walkers = [Walker(machine, core, self.caches, self.memory) for core in cores]
        self.clocks = [Clock(machine) for _ in cores]
        self.pid, self.tid = 1, 1
        self.pinned = {1: 0}
        self.kernel.event(1, ["p", "1.1"])
        self.kernel.told.clear()
        self.kernel.table_news.clear()
        self.kernel.flushes.clear()
        self.is_over = False
        self.start_line()

    @property
    def core(self) -> int:
        """Where the acting thread runs."""
        return self.pinned[self.tid]

    def start_line(self) -> None:
        """What happens from here on belongs to the next reference."""
        self.walk: list[dict[str, Any]] = []
        self.walks: list[dict[str, Any]] = []
        self.faults: list[dict[str, Any]] = []
        self.line["filled"], self.line["events"] = [], []

    def run(self, text: str) -> list[dict[str, Any]]:
        """All of a trace."""
        for raw in text.splitlines():
            words = raw.split("#")[0].split()
            if not words or self.is_over:
                continue
            if words[0] in KINDS:
                count = int(words[2][1:]) if len(words) > 2 else 1
                # A word of the trace carries at most 31 instructions; the others come after the reference.
                first = min(count, 31) if words[0] == "f" else 0
                self.clocks[self.core].instructions += first
                self.reference(KINDS[words[0]], int(words[1], 16))
                self.clocks[self.core].instructions += count - first if words[0] == "f" else 0
                self.tlbs[self.core].begun += count if words[0] == "f" else 0
            elif words[0] == "n":
                self.clocks[self.core].instructions += int(words[1])
                self.tlbs[self.core].begun += int(words[1])
            elif words[0] == "invlpg":
                self.invlpg(int(words[1], 16))
            else:
                self.event(words)
        if self.faults or self.line["events"]:
            self.tell(None, None, None, {"pa": None, "size": 0, "l1": "-", "l2": "-"}, 0)
        return self.lines

    # The kernel -----------------------------------------------------------------------------------------------------

    def event(self, words: list[str]) -> None:
        """The program did something to its address space, or another thread acts."""
        if words[0] == "p":
            pid, _, tid = words[1].partition(".")
            self.pid, self.tid = int(pid), int(tid or pid)
            self.pinned.setdefault(self.tid, len(self.pinned) % len(self.clocks))
        self.kernel.core = self.core
        self.kernel.event(self.pid, words)
        self.apply()

    def apply(self) -> None:
        """Delivers what the kernel asked for, and tells what it did."""
        cores = [self.core] if self.kernel.is_local else range(len(self.tlbs))
        for what in self.kernel.flushes:
            for core in cores:
                self.tlbs[core].invalidate(what)
                self.walkers[core].invalidate(what)
        self.kernel.is_local = False
        for told in (*self.kernel.told, *self.kernel.table_news):
            if told["event"] == "fault":
                self.faults.append({**told, "pfn": self.frame_of_fault(*told["pfn"])})
            elif told["event"] == "collapsed":
                self.line["events"].append({**told, "pfn": self.frame_of_collapse(told["va"], *told["pfn"])})
            else:
                self.line["events"].append(told)
        self.line["events"].extend(self.kernel.flushes)
        self.kernel.told.clear()
        self.kernel.table_news.clear()
        self.kernel.flushes.clear()

    def frame_of_fault(self, block: Any, index: int) -> int:
        """The number of the frame that a fault mapped."""
        given = self.told_now()["fault"]
        if len(self.faults) >= len(given):
            raise Mismatch("the engine tells of fewer faults")
        pfn: int = given[len(self.faults)]["pfn"]
        return self.memory.address(block, index * PAGE, pfn * PAGE) // PAGE

    def frame_of_collapse(self, va: int, block: Any, index: int) -> int:
        """The number of the first frame that a collapse gave the page at `va`."""
        given = [e for e in self.told_now()["events"] if e.get("event") == "collapsed" and e["va"] == va]
        done = [e for e in self.line["events"] if e.get("event") == "collapsed" and e["va"] == va]
        if len(done) >= len(given):
            raise Mismatch("the engine tells of fewer collapses")
        pfn: int = given[len(done)]["pfn"]
        return self.memory.address(block, index * PAGE, pfn * PAGE) // PAGE

    def told_now(self) -> dict[str, Any]:
        """What the engine says of the reference at hand."""
        if len(self.lines) >= len(self.given):
            raise Mismatch("the engine tells of fewer references")
        return self.given[len(self.lines)]

    def invlpg(self, va: int) -> None:
        """The core that runs drops a page of its own."""
        space = self.space()
        if space:
            what = {"flush": "page", "asid": space.asid, "va": va, "size": "4K"}
            self.tlbs[self.core].invalidate(what)
            self.walkers[self.core].invalidate(what)
            self.line["events"].append(what)

    def space(self) -> Space | None:
        """The address space the core translates for; none while the process has none, or no tag."""
        space = self.kernel.spaces.get(self.pid)
        return space if space and space.asid is not None else None

    # A reference ----------------------------------------------------------------------------------------------------

    def reference(self, kind: str, va: int) -> None:
        """Looks in the TLBs, else walks, else faults."""
        clock, pid = self.clocks[self.core], self.pid
        is_data = kind != "fetch"
        space = self.space()
        tag = (space.asid if space else None) or 0
        answer = self.tlbs[self.core].access(tag, va, kind)
        seen: dict[str, Any] = {"pa": None, "size": 0}
        seen["l1"] = "hit" if answer.level == 1 else "miss"
        seen["l2"] = {0: "miss", 1: "-", 2: "hit"}[answer.level]
        stall = clock.wait(clock.now + answer.cycles, is_data)
        if answer.outcome == "hit":
            assert answer.entry
            self.translated(seen, va, answer.entry)
        else:
            stall += self.translate(seen, va, kind)
        self.tell(pid, kind, va, seen, stall)

    def translate(self, seen: dict[str, Any], va: int, kind: str) -> int:
        """Walks and faults until there is a translation, or there cannot be one; the cycles stalled."""
        stall = 0
        for _ in range(MAX_FAULTS):
            if self.space() is None:
                self.kernel.event(self.pid, ["p", f"{self.pid}.{self.tid}"])
                self.apply()
            space = self.space()
            assert space
            assert space.asid is not None
            given = self.told_now()["walk"]
            before = len(self.walk)
            walk = self.walkers[self.core].walk(space.tree, space.asid, va, kind, self.walk, given)
            self.walk[before]["first"] = True
            ended = {"level": walk.level, "reason": "denied" if walk.denied else "not_present"}
            self.walks.append({"outcome": "mapped"} if walk.leaf else {"outcome": "fault", **ended})
            stall += self.clocks[self.core].walk(walk.cycles, kind != "fetch")
            leaf = walk.leaf
            if leaf:
                tag = 0 if leaf.is_global else space.asid
                start = va - va % leaf.bytes
                entry = Entry(tag, start, leaf.order, leaf.block, leaf.index, leaf.prot, leaf.dirty)
                self.translated(seen, va, entry)
                self.tlbs[self.core].fill(va, kind, entry, partial(self.group, va, walk))
                return stall
            failed = self.fault(va, kind)
            if failed:
                seen["failed"] = failed
                return stall
        raise Mismatch(f"{va:#x} keeps faulting")

    def group(self, va: int, walk: Walk, order: int) -> Leaf | None:
        """The first leaf of the aligned group that holds `va`, if all of it may be one entry (coalescing.md)."""
        if not walk.line or not walk.leaf:
            return None
        pages = 1 << order
        first = va // PAGE % 8 // pages * pages
        members = [leaf for leaf in walk.line[first : first + pages] if leaf and leaf.accessed]
        if len(members) < pages:
            return None
        attributes = {(leaf.prot, leaf.is_global, leaf.dirty) for leaf in members}
        if len(attributes) > 1:
            return None
        own, at = self.frame(walk.leaf), va // PAGE % pages
        assert own is not None
        frames = [self.frame(leaf) for leaf in members]
        fits = all(f is None or f == own - at + n for n, f in enumerate(frames)) and (own - at) % pages == 0
        if not fits:
            return None
        if None in frames:
            # Frames that nobody has seen yet: what the engine does with them tells where they lie.
            if all(f["bytes"] != PAGE << order for f in self.told_now()["filled"]):
                return None
            for n, leaf in enumerate(members):
                self.memory.address(leaf.block, leaf.index * PAGE, (own - at + n) * PAGE)
        return members[0]

    @staticmethod
    def frame(leaf: Leaf) -> int | None:
        """The number of its first frame, where it is known."""
        return None if leaf.block.number is None else leaf.block.number + leaf.index

    def translated(self, seen: dict[str, Any], va: int, entry: Entry | Leaf) -> None:
        """The reference has its physical address."""
        seen["size"] = PAGE << entry.order
        offset = entry.index * PAGE + va % seen["size"]
        given = self.told_now()["pa"]
        if given is None:
            raise Mismatch("the engine has no translation")
        seen["pa"] = self.memory.address(entry.block, offset, given)
        if self.through_caches:
            self.caches.read(self.core, seen["pa"])

    def fault(self, va: int, kind: str) -> str:
        """The kernel serves a page fault, if it can; else the reason why not."""
        outcome = self.kernel.fault(self.pid, va, kind)
        self.apply()
        if outcome == "unmapped" and self.unmapped == "map":
            self.map_implicit(va)
            outcome = self.kernel.fault(self.pid, va, kind)
            self.apply()
        if outcome == "out-of-memory" or (outcome != "served" and self.unmapped == "stop"):
            self.is_over = True
        return "" if outcome == "served" else outcome

    def map_implicit(self, va: int) -> None:
        """Maps the aligned span around an address that no event mapped."""
        space = self.kernel.spaces[self.pid]
        span = size(self.kernel.linux["implicit_vma"])
        start = va - va % span
        below = max((v.end for v in space.vmas.all if v.end <= va), default=start)
        above = min((v.start for v in space.vmas.all if v.start > va), default=start + span)
        space.vmas.insert(Vma(max(start, below), min(start + span, above), Kind(7)))

    def tell(self, pid: int | None, kind: str | None, va: int | None, seen: dict[str, Any], cycles: int) -> None:
        """One line."""
        line: dict[str, Any] = {"i": len(self.lines) if kind else None}
        if kind:
            line |= {"pid": pid, "kind": kind}
        line |= {"va": va, **seen, "walk": self.walk, "walks": self.walks, "fault": self.faults}
        line |= {"filled": self.line["filled"], "events": self.line["events"], "cycles": cycles}
        self.lines.append(line)
        self.start_line()
