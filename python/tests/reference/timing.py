"""A naive model of a core in time, by the rules of docs/concepts/timing.md: lists and dictionaries, one rule a line.

It takes TLB misses, walks and physical addresses from the output of `explain` for the same trace, because they do not
depend on time. It works out all times itself.
"""

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from reference.hashed import hashed

Json = dict[str, Any]
LINE = 64
PAGE = 4096
MEMORY = 3
# Bytes of a block of code: where the next one lies.
BLOCK = 256


@dataclass
class Inst:
    """An instruction: its class, registers by role, and its accesses (whether each stores, and its bytes)."""

    cls: str
    sources: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    address: list[str] = field(default_factory=list)
    bumped: list[str] = field(default_factory=list)
    ops: list[tuple[bool, int]] = field(default_factory=list)

    def text(self) -> str:
        """As text traces have it."""
        words = [self.cls]
        for mark, regs in ((">", self.results), ("", self.sources), ("@", self.address), ("!", self.bumped)):
            words += [mark + reg for reg in regs]
        return " ".join(words + [("w" if store else "r") + str(size) for store, size in self.ops])


def number(text: Any) -> int:
    """An address as `explain` writes it."""
    return text if isinstance(text, int) else int(text, 16)


def is_int(reg: str) -> bool:
    """Whether the register is kept in the integer file."""
    return reg.startswith("i")


def is_vector(reg: str) -> bool:
    """Whether the register is kept in the vector file."""
    return reg[0] in "vks"


def fused(first: Inst, second: Inst, rule: Json | None) -> bool:
    """Whether a branch is one operation with the instruction before it."""
    if rule is None or (second.cls, "flags" in second.sources) != ("conditional", True):
        return False
    if second.ops or any(is_int(reg) or is_vector(reg) for reg in second.results + second.bumped):
        return False
    if first.cls != "int" or "flags" not in first.results or "flags" in first.sources:
        return False
    writes = any(is_int(reg) for reg in first.results + first.bumped)
    if any(store for store, _ in first.ops):
        return False
    return (rule["arithmetic"] or not writes) and (rule["memory"] or not first.ops)


class Caches:
    """One cache level of true LRU before memory, or two."""

    def __init__(
        self,
        lines: int,
        cycles: int,
        memory: int,
        second: tuple[int, int] | None = None,
        spread: list[list[float]] | None = None,
    ) -> None:
        """`second`: lines and cycles of a second level. `spread`: quantiles of memory's latency."""
        # A load takes one of 1024 latencies, each as likely as any other.
        ratios = [quantile(spread, (part + 0.5) / 1024) for part in range(1024)] if spread else []
        self.latencies = [int(memory * 1024 * ratio / sum(ratios) + 0.5) for ratio in ratios]
        self.drawn = self.now = 0
        # Pages by number modulo 64: the page, when its line on the way is there, and how long that takes.
        self.pages: dict[int, tuple[int, int, int]] = {}
        self.levels = [(lines, cycles), *([second] if second else [])]
        self.cycles, self.memory = cycles, memory
        self.held: list[list[int]] = [[] for _ in self.levels]

    def populate(self, frames: list[int]) -> None:
        """A kernel stores to pages: all lines of the last of them, as many pages as the levels hold together."""
        kept = -(-sum(lines for lines, _ in self.levels) * LINE // PAGE)
        for frame in frames[-kept:]:
            for line in range(PAGE // LINE):
                self.look(frame * PAGE + line * LINE, first=1)

    def read(self, pa: int, first: int = 0) -> tuple[int, int]:
        """The latency, and how far away the line was. It is in all levels from `first` on then."""
        found = self.look(pa, first)
        if found is not None:
            return found
        if not self.latencies:
            return self.memory, MEMORY
        page = pa // PAGE + 1
        kept, until, cycles = self.pages.get(page % 64, (0, 0, 0))
        if self.now == 0 or kept != page or self.now >= until:
            self.drawn += 1
            cycles = self.latencies[hashed(0, self.drawn - 1) % 2**64 // 2**54]
            self.pages[page % 64] = (page, self.now + cycles, cycles)
        return cycles, MEMORY

    def look(self, pa: int, first: int) -> tuple[int, int] | None:
        """The same; None if memory sends the line."""
        line = pa // LINE
        for depth in range(first, len(self.levels)):
            (lines, cycles), held = self.levels[depth], self.held[depth]
            found = line in held
            if found:
                held.remove(line)
            held.insert(0, line)
            del held[lines:]
            if found:
                return cycles, depth
        return None


def quantile(spread: list[list[float]], wanted: float) -> float:
    """What the share `wanted` of loads does not exceed: linear between the points."""
    for (low, fast), (high, slow) in itertools.pairwise(spread):
        if low <= wanted <= high:
            return fast + (slow - fast) * (wanted - low) / (high - low)
    raise AssertionError("a spread goes from 0 to 1")


def places(width: float, cycle: int) -> int:
    """Of a width that is not whole, in sixteenths: the places of a cycle."""
    parts = max(1, round(width * 16))
    return (cycle + 1) * parts // 16 - cycle * parts // 16


class Units:
    """`width` units that begin an instruction each in a cycle; 4096 cycles are kept."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.used: dict[int, tuple[int, int]] = {}

    def take(self, earliest: int) -> int:
        """The first cycle with a free unit."""
        cycle = earliest
        while True:
            kept, used = self.used.get(cycle % 4096, (0, 0))
            if kept > cycle:
                return cycle
            if kept < cycle:
                used = 0
            if used < places(self.width, cycle):
                self.used[cycle % 4096] = (cycle, used + 1)
                return cycle
            cycle += 1


class Strides:
    """Loads whose last steps were equal, by instruction; those that fall on one place forget each other."""

    def __init__(self, places: int, distance: int, stream_distance: int) -> None:
        self.places, self.distance, self.stream_distance = places, distance, stream_distance
        self.loads: dict[int, Json] = {}

    def see(self, load: int, line: int, at: int) -> tuple[int, bool] | None:
        """When the load's prefetch began, and whether it is one of a stream."""
        if not self.places:
            return None
        place = ((load * 0x9E3779B97F4A7C15 % 2**64) >> 32) * self.places >> 32
        known = self.loads.get(place)
        if known is None or known["load"] != load:
            self.loads[place] = {"load": load, "line": line, "step": None, "times": []}
            return None
        step = line - known["line"]
        if step == 0:
            return None
        known["line"] = line
        if step != known["step"]:
            # The first step of a stride is believed at its second.
            known.update(step=step, times=[])
            return None
        times = known["times"]
        ahead = self.stream_distance if abs(step) == 1 else self.distance
        times.append(at)
        begun = max(0, len(times) - 1 - ahead)
        return None if begun == len(times) - 1 else (min(at, times[begun]), abs(step) == 1)


class Regions:
    """Lines near a load's own that are used after it, by instruction. Instructions on one place forget each other."""

    WATCHED = 16

    def __init__(self, places: int, reach: int) -> None:
        self.places, self.reach = places if reach else 0, reach
        # By place: the instruction, and a count of each distance.
        self.loads: dict[int, tuple[int, dict[int, int]]] = {}
        # The regions opened last, the latest first: place, instruction, first line, distances used.
        self.watched: list[tuple[int, int, int, set[int]]] = []

    def see(self, load: int, line: int) -> list[int]:
        """The lines that are brought when `load` misses with `line`."""
        if not self.places:
            return []
        for _, _, first, used in self.watched:
            if abs(line - first) <= self.reach:
                used.add(line - first)
                return []
        place = ((load * 0x9E3779B97F4A7C15 % 2**64) >> 32) * self.places >> 32
        if len(self.watched) == self.WATCHED:
            self.close(*self.watched.pop())
        self.watched.insert(0, (place, load, line, set()))
        known = self.loads.get(place)
        if known is None or known[0] != load:
            self.loads[place] = (load, {})
            return []
        near = [line + further for further in sorted(known[1]) if further != 0 and known[1][further] >= 2]
        return [one for one in near if one * LINE // PAGE == line * LINE // PAGE]

    def close(self, place: int, load: int, _: int, used: set[int]) -> None:
        """The load learns which lines of a region were used."""
        known = self.loads.get(place)
        if known is None or known[0] != load:
            return
        for further in set(known[1]) | used:
            count = known[1].get(further, 0)
            known[1][further] = min(3, count + 1) if further in used else max(0, count - 1)


class Targets:
    """Branch target buffers, nearest first: each a list of branches by set, the latest in front."""

    def __init__(self, buffers: list[Json], decode_cycles: int) -> None:
        self.buffers: list[tuple[Json, list[list[int]]]] = [
            (buffer, [[] for _ in range(buffer["entries"] // buffer["ways"])]) for buffer in buffers
        ]
        self.decode_cycles = decode_cycles

    def look(self, branch: int, taken: bool) -> int | None:
        """Cycles that are lost where the nearest buffer has it; a taken one is in all buffers afterwards."""
        mixed = branch * 0x9E3779B97F4A7C15 % 2**64
        places = [sets[(mixed >> 32) * len(sets) >> 32] for _, sets in self.buffers]
        nearest = next((depth for depth, held in enumerate(places) if branch in held), None)
        if nearest is not None:
            places[nearest].remove(branch)
            places[nearest].insert(0, branch)
        if taken:
            for held, (buffer, _) in list(zip(places, self.buffers, strict=True))[:nearest]:
                held.insert(0, branch)
                del held[buffer["ways"] :]
        return None if nearest is None else int(self.buffers[nearest][0]["bubbles"])


class Calendar:
    """Units that are busy for a while with each job, which may ask in another order than they begin."""

    def __init__(self, units: int) -> None:
        self.units = units
        self.busy: Counter[int] = Counter()

    def take(self, earliest: int, cycles: int) -> int:
        """The first cycle at `earliest` or later from which on one of the units is free for `cycles`."""
        start = earliest
        while full := [at for at in range(start, start + cycles) if self.busy[at] >= self.units]:
            start = full[-1] + 1
        self.busy.update(range(start, start + cycles))
        return start


class Core:
    """A core in time."""

    def __init__(self, desc: Json, caches: Caches, walkers: int) -> None:
        """`desc`: a `[core.timing]` table, with the cycles of `[walker]`."""
        self.desc, self.caches = desc, caches
        units = desc["units"]
        self.units = {name: Units(units[name]) for name in units}
        self.busy = {"div": Calendar(1), "fp-div": Calendar(1)}
        self.walkers = Calendar(walkers)
        self.buffers = Calendar(desc["memory"]["fill_buffers"])
        # By place: a line that was asked for, when it is there, and how far away it was.
        self.coming: dict[int, tuple[int, int, int]] = {}
        self.ready: dict[str, int] = {}
        # When each instruction was dispatched and retired, each load and register write retired, each store drained.
        self.dispatched: list[int] = []
        self.retired: list[int] = []
        self.loads: list[int] = []
        self.drains: list[int] = []
        self.writes: dict[bool, list[int]] = {True: [], False: []}
        self.blocks: list[int] = []
        self.granules: dict[int, tuple[int, int, int]] = {}
        self.fetch_next = self.floor = self.delivered = 0
        # Of the last block: when its translation was known, how many blocks had theirs then, and what lies behind it.
        self.translated = self.at_once = 0
        self.behind: int | None = None
        # The line of the last store that is in the cache, if it was a small one.
        self.drained_line: int | None = None
        memory = desc["memory"]
        self.strides = Strides(memory["strides"], memory["stride_distance"], memory["stream_distance"])
        self.regions = Regions(memory["regions"], memory["region_reach"])
        # Where the block's code is, and its loads so far.
        self.code = self.nth = 0
        buffers = desc["branch_targets"]
        self.targets = Targets(**buffers) if buffers else None
        # Of the block before: its branch, where the code behind it lies, and when its result was ready.
        self.branch: tuple[str, int, int] | None = None

    def now(self) -> int:
        """The cycle in which the last instruction retired."""
        return self.retired[-1] if self.retired else 0

    def line(self, at: int, pa: int) -> tuple[int, int]:
        """When a line wanted at `at` is there, and how far away it is."""
        cycles, far = self.caches.read(pa)
        line = pa // LINE
        kept, coming, by = self.coming.get(line % 4096, (-1, 0, 0))
        on_its_way = kept == line and coming > at
        if far == 0:
            there = at + cycles
        else:
            there = self.buffers.take(at, cycles) + cycles
            self.coming[line % 4096] = (line, there, far)
        if on_its_way and coming > there:
            there, far = coming, by
            self.coming[line % 4096] = (line, coming, by)
        return there, far

    def stream(self, at: int, pa: int) -> int:
        """When a line of a stream is there: it waits in no buffer of the core."""
        if pa // LINE in self.caches.held[0]:
            return self.line(at, pa)[0]
        cycles, far = self.caches.read(pa)
        self.coming[pa // LINE % 4096] = (pa // LINE, at + cycles, far)
        return at + cycles

    def bring(self, at: int, line: int) -> None:
        """A prefetch into the second level."""
        cycles, far = self.caches.read(line * LINE, first=1)
        if far > 1:
            self.coming[line % 4096] = (line, at + cycles, far)

    def load(self, at: int, seen: Json) -> tuple[int, int]:
        """When a load's translation is known that is asked for at `at`, and when its data are there."""
        va, pa = number(seen["va"]), number(seen["pa"])
        load = (self.code << 4) + self.nth
        ahead = self.strides.see(load, va // LINE, at)
        self.nth += 1
        if ahead is None:
            translated = self.translate(at, seen)
            there, far = self.line(translated, pa)
            if far > 0:
                for line in self.regions.see(load, pa // LINE):
                    self.bring(translated, line)
            return translated, there
        began, is_stream = ahead
        begun = self.translate(began, seen)
        there = self.stream(begun, pa) if is_stream else self.line(begun, pa)[0]
        translated = max(at, begun)
        return translated, max(there, translated + self.caches.cycles)

    def translate(self, at: int, seen: Json) -> int:
        """When the translation of a reference is known that was asked for at `at`."""
        self.caches.now = at
        if not seen["walk"]:
            return at
        reads = sum(self.caches.read(number(step["pa"]))[0] for step in seen["walk"])
        cycles = reads + len(seen["walk"]) * self.desc["read_cycles"] + self.desc["overhead_cycles"]
        return self.walkers.take(at, cycles + self.desc["turnaround_cycles"]) + cycles

    def place(self, times: list[int], earliest: int, width: float) -> int:
        """The first place at `earliest` or later, in order, `width` in a cycle."""
        cycle = max(earliest, times[-1] if times else 0)
        while times.count(cycle) >= places(width, cycle):
            cycle += 1
        return cycle

    def resolve(self, start: int) -> None:
        """The branch that ended the block before has gone to `start`."""
        if self.branch is None or not self.targets:
            return
        kind, behind, done = self.branch
        taken = kind != "conditional" or start != behind
        bubbles = self.targets.look(behind, taken)
        if bubbles is None and taken and kind == "conditional":
            anew = done + self.desc["mispredict_cycles"]
            self.fetch_next, self.floor = max(self.fetch_next, anew), max(self.floor, anew)
        elif bubbles is None and taken:
            self.fetch_next = max(self.fetch_next, self.delivered + self.targets.decode_cycles)
        elif taken:
            self.fetch_next += bubbles or 0

    def block(self, insts: list[Inst], seen: list[Json]) -> None:
        """Runs a block; `seen`: its fetch and its accesses as `explain` has them."""
        desc, ahead = self.desc, self.desc["fetch_ahead"]
        start = number(seen[0]["va"])
        self.resolve(start)
        self.branch = None
        at = self.fetch_next
        if (start, at) == (self.behind, self.translated + 1) and self.at_once < desc["fetch_blocks"]:
            # Nothing has sent the front end elsewhere.
            at = self.translated
        at = max(at, self.blocks[-ahead] if len(self.blocks) >= ahead else 0)
        translated = self.translate(at, seen[0])
        self.at_once = self.at_once + 1 if translated == self.translated else 1
        self.translated = translated
        there = max(translated, self.line(translated, number(seen[0]["pa"]))[0] - self.caches.cycles)
        self.fetch_next = translated + 1
        self.code, self.nth = start, 0
        self.delivered = max(self.delivered, there)
        accesses = iter(seen[1:])
        for index, inst in enumerate(insts):
            if index and fused(insts[index - 1], inst, desc["fusion"]):
                self.branch = (inst.cls, self.code + BLOCK, self.ready["flags"])
                continue
            loads = [op for op in inst.ops if not op[0]]
            stores = [op for op in inst.ops if op[0]]
            earliest = max(self.delivered, self.floor)

            def waits(times: list[int], places: int) -> int:
                return times[-places] if len(times) >= places else 0

            earliest = max(earliest, waits(self.retired, desc["window"]))
            if loads:
                earliest = max(earliest, waits(self.loads, desc["loads"]))
            if stores:
                earliest = max(earliest, waits(self.drains, desc["stores"]))
            for reg in self.written(inst):
                if is_int(reg):
                    earliest = max(earliest, waits(self.writes[True], desc["int_registers"]))
                elif is_vector(reg):
                    earliest = max(earliest, waits(self.writes[False], desc["vector_registers"]))
            if inst.cls == "serial":
                earliest = max(earliest, self.now())
            dispatched = self.place(self.dispatched, earliest, desc["width"])
            self.dispatched.append(dispatched)
            if index == 0:
                self.blocks.append(dispatched)
            self.one(inst, dispatched, accesses)
        goes_elsewhere = self.branch is not None and self.branch[0] != "conditional"
        self.behind = None if goes_elsewhere else start + BLOCK

    def written(self, inst: Inst) -> list[str]:
        """The registers that it takes new ones for."""
        moves = inst.cls == "move" and inst.sources and not inst.ops
        return [] if moves and self.desc["moves_share_registers"] else inst.results + inst.bumped

    def one(self, inst: Inst, dispatched: int, accesses: Any) -> None:
        """What follows the dispatch of an instruction."""
        desc, latencies = self.desc, self.desc["latencies"]
        address = max([dispatched + 1] + [self.ready.get(reg, 0) for reg in inst.address])
        inputs = max([dispatched + 1] + [self.ready.get(reg, 0) for reg in inst.sources])
        if inst.cls == "atomic":
            address = max(address, self.drains[-1] if self.drains else 0)
        translated_stores, lines = 0, []
        for store, size in inst.ops:
            at = self.units["store" if store else "load"].take(address)
            seen = next(accesses)
            if store:
                translated = self.translate(at, seen)
                there, _ = self.line(translated, number(seen["pa"]))
            else:
                translated, there = self.load(at, seen)
            va = number(seen["va"])
            granules = range(va // 8, (va + size - 1) // 8 + 1)
            if store:
                translated_stores = max(translated_stores, translated)
                lines.append((granules, there, va // LINE if size <= 8 else None))
                continue
            known = [self.granules.get(g % 1024) for g in granules]
            young = [k[1] for g, k in zip(granules, known, strict=True) if k and k[0] == g and k[2] > at]
            if young:
                there = max(max(young), translated) + desc["forward_cycles"]
            inputs = max(inputs, there)
        unit = {"int": "int", "branch": "int", "jump": "int", "conditional": "int", "atomic": "int", "mul": "mul"}
        if inst.cls == "move":
            done = inputs
        elif inst.cls == "serial":
            done = inputs + latencies["serial"]
        elif inst.cls in ("div", "fp-div"):
            cycles = latencies[inst.cls.replace("-", "_")]
            start = self.busy[inst.cls].take(inputs, cycles if inst.cls == "div" else cycles // 2)
            done = start + cycles
        else:
            name = "int" if inst.cls in ("jump", "conditional") else inst.cls.replace("-", "_")
            done = self.units[unit.get(inst.cls, "vector")].take(inputs) + latencies[name]
        if inst.cls in ("jump", "conditional"):
            self.branch = (inst.cls, self.code + BLOCK, done)
        self.ready.update(dict.fromkeys(inst.results, done))
        self.ready.update(dict.fromkeys(inst.bumped, address + desc["bump_cycles"]))
        retired = self.place(self.retired, max(done, translated_stores), desc["retire_width"])
        self.retired.append(retired)
        if inst.cls == "serial":
            self.floor = max(self.floor, retired)
        for reg in self.written(inst):
            if is_int(reg) or is_vector(reg):
                self.writes[is_int(reg)].append(retired)
        self.loads += [retired] * sum(not store for store, _ in inst.ops)
        for granules, there, small in lines:
            # Small stores of one line go together.
            joins = small is not None and small == self.drained_line
            self.drained_line = small
            last = (self.drains[-1] if self.drains else 0) + (not joins)
            drained = self.place(self.drains, max(retired, there, last), desc["units"]["store"])
            self.drains.append(drained)
            self.granules.update({g % 1024: (g, done, drained) for g in granules})
