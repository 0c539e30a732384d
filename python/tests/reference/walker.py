"""The page walker: walk caches, the caches that table lines hit in, walks in time, and the core's clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reference.frames import Memory, Mismatch
from reference.hashed import LINE as HASHED_LINE
from reference.hashed import Hashed
from reference.store import Store
from reference.tables import Leaf, R, Table, Tree, W, X, covers, down, index, number

LINE = 64


def size(text: str) -> int:
    """A number of bytes, as descriptions write it."""
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    return int(text[:-1], 0) << units[text[-1]] if text[-1] in units else int(text, 0)


class Caches:
    """The caches of all cores, and memory."""

    def __init__(self, machine: dict[str, Any]) -> None:
        """Of the description."""
        self.memory_cycles = machine["cache_rules"]["memory_cycles"]
        self.levels = []
        # An instruction cache serves fetches in time, and no walk.
        for desc in (cache for cache in machine["cache"] if not cache.get("code")):
            copies = 1 if desc["shared"] else machine["core"]["count"]
            lines = size(desc["size"]) // LINE
            self.levels.append((desc, [Store(lines, desc["ways"], "lru") for _ in range(copies)]))

    def read(self, core: int, pa: int) -> tuple[str, int]:
        """Who had the line, and its latency; all levels that had not have it now."""
        line = pa // LINE
        for desc, copies in self.levels:
            place = copies[core % len(copies)].set(line)
            was_there = place.find(line) is not None
            place.put(line, None)
            if was_there:
                return desc["name"], desc["cycles"]
        return "memory", self.memory_cycles


@dataclass
class Walk:
    """How a walk ended: with a leaf that allows the access, or a fault."""

    leaf: Leaf | None
    cycles: int
    # Of a fault: the level of the entry that ended it, and whether that was for its rights.
    level: int = 1
    denied: bool = False
    # The eight entries of the leaf's line, if it is one of the last level.
    line: list[Leaf | None] = field(default_factory=list)


class Walker:
    """The walker of a core."""

    def __init__(self, machine: dict[str, Any], core: int, caches: Caches, memory: Memory) -> None:
        """Of the description."""
        self.core = core
        self.caches = caches
        self.memory = memory
        self.overhead = int(machine["walker"].get("overhead_cycles", 0))
        self.of_read = int(machine["walker"].get("read_cycles", 0))
        self.walk_caches = [
            (desc, Store(desc["entries"], desc["ways"], desc["replacement"], place))
            for place, desc in enumerate(machine["walker"]["cache"], 1)
            if desc["entries"]
        ]

    def walk(
        self,
        tree: Tree | Hashed,
        tag: int,
        va: int,
        kind: str,
        steps: list[dict[str, Any]],
        given: list[dict[str, Any]],
    ) -> Walk:
        """Walks; every entry goes to `steps`. `given` is what the engine read, for the addresses of new tables."""
        if isinstance(tree, Hashed):
            return self.look(tree, va, kind, steps, given)

        def step(level: int, table: Table, at: int) -> int:
            """The address of the entry that `level` is about to be read in, checked against the engine's."""
            if len(steps) >= len(given):
                raise Mismatch(f"the engine's walk ends where an entry of level {level} is read")
            return self.memory.address(table.frame, 8 * index(va, at), given[len(steps)]["pa"])

        cycles = self.overhead
        level, table = tree.levels, tree.root
        found = self.nearest(tree.levels, tag, va)
        if found is not None:
            held, desc, table = found
            level = held - 1
            pa = step(held, table, level)
            steps.append({"level": held, "pa": pa, "cached": desc["name"], "cycles": desc["hit_cycles"]})
            cycles += desc["hit_cycles"]
        while True:
            pa = step(level, table, level)
            server, latency = self.caches.read(self.core, pa)
            steps.append({"level": level, "pa": pa, "cached": server, "cycles": latency})
            cycles += latency + self.of_read
            entry = table.entries.get(index(va, level))
            if entry is None:
                return Walk(None, cycles, level)
            if isinstance(entry, Leaf):
                if not entry.prot & {"fetch": X, "write": W, "read": R | W | X}[kind]:
                    return Walk(None, cycles, level, denied=True)
                entry.accessed = True
                entry.dirty = entry.dirty or kind == "write"
                first = index(va, level) // 8 * 8
                beside = [table.entries.get(at) for at in range(first, first + 8)] if level == 1 else []
                return Walk(entry, cycles, line=[e if isinstance(e, Leaf) else None for e in beside])
            for desc, store in self.walk_caches:
                if level in desc["levels"]:
                    order = covers(level)
                    store.set(number(va, order)).put((level, tag, down(va, order)), entry)
            level, table = level - 1, entry

    def look(self, table: Hashed, va: int, kind: str, steps: list[dict[str, Any]], given: list[dict[str, Any]]) -> Walk:
        """Walks a hashed table: every group of lines that is read at once takes as long as its slowest."""
        cycles, is_first = self.overhead, True
        for group in table.search(va):
            slowest = 0
            for at, (order, place) in enumerate(group):
                if len(steps) >= len(given):
                    raise Mismatch(f"the engine's walk ends where a line of order {order} is read")
                pa = self.memory.address(place.way.block, place.slot * HASHED_LINE, given[len(steps)]["pa"])
                server, latency = self.caches.read(self.core, pa)
                step = {"level": 1 + order // 9, "pa": pa, "cached": server, "cycles": latency}
                steps.append(({"first": True} if is_first else {}) | step | ({"pace": "together"} if at else {}))
                slowest, is_first = max(slowest, latency), False
            cycles += slowest + self.of_read
            for order, place in group:
                if place.key != table.key(va, order):
                    continue
                line = table.line(va, order)
                leaf = line[number(va, order) % len(line)]
                if leaf is None:
                    continue
                if not leaf.prot & {"fetch": X, "write": W, "read": R | W | X}[kind]:
                    return Walk(None, cycles, 1 + order // 9, denied=True)
                leaf.accessed = True
                leaf.dirty = leaf.dirty or kind == "write"
                return Walk(leaf, cycles, line=line if order == 0 else [])
        return Walk(None, cycles)

    def nearest(self, levels: int, tag: int, va: int) -> tuple[int, dict[str, Any], Table] | None:
        """The walk-cache entry nearest the leaf: its level, its cache, the table it points to."""
        for level in range(2, levels + 1):
            for desc, store in self.walk_caches:
                if level not in desc["levels"]:
                    continue
                place = store.set(number(va, covers(level)))
                way = place.find((level, tag, down(va, covers(level))))
                if way is not None:
                    place.use(way)
                    held = place.ways[way]
                    assert held
                    return level, desc, held[1]
        return None

    def invalidate(self, what: dict[str, Any]) -> None:
        """Forgets walk-cache entries on the path of what changed."""
        for _, store in self.walk_caches:
            for place in store.sets:
                for way, held in enumerate(place.ways):
                    if held is None:
                        continue
                    level, tag, start = held[0]  # type: ignore[misc]
                    end = start + (4096 << covers(level))
                    if what["flush"] == "all":
                        stale = True
                    elif what["flush"] == "space":
                        stale = tag == what["asid"]
                    elif what["flush"] == "range":
                        r = what["range"]
                        stale = tag == what["asid"] and start < r["end"] and r["start"] < end
                    else:
                        order = {"4K": 0, "2M": 9, "1G": 18}[what["size"]]
                        first = down(what["va"], order)
                        stale = tag == what["asid"] and start < first + (4096 << order) and first < end
                    if stale:
                        place.ways[way] = None


class Clock:
    """Time of one core, and when its walkers are free."""

    def __init__(self, machine: dict[str, Any]) -> None:
        """Of the description."""
        self.cpi = machine["core"]["base_cpi"]
        self.window = int(machine["core"]["window"] * self.cpi)
        self.free = [0] * machine["walker"]["count"]
        self.instructions = 0
        self.stalls = 0

    @property
    def now(self) -> int:
        """Cycles passed."""
        return int(self.instructions * self.cpi) + self.stalls

    def wait(self, end: int, is_data: bool) -> int:
        """Waits for something that takes until `end`: what the window does not hide. Returns the stall."""
        stall = max(0, end - self.now - (self.window if is_data else 0))
        self.stalls += stall
        return stall

    def walk(self, cycles: int, is_data: bool) -> int:
        """A walk, on the walker that is free first. Returns the stall."""
        first = self.free.index(min(self.free))
        self.free[first] = max(self.now, self.free[first]) + cycles
        return self.wait(self.free[first], is_data)
