"""The TLBs of a core: docs/concepts/tlbs.md, word by word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from reference.frames import PAGE, Block
from reference.store import Store
from reference.tables import Leaf, R, W, X, down, number

ORDERS = {"4K": 0, "2M": 9, "1G": 18}
# Of a group of 4 or 8 pages.
GROUPS = {4: 2, 8: 3}
# The first leaf of the group of an order that a walk found, if it may be one entry.
Found = Callable[[int], Leaf | None]


@dataclass
class Entry:
    """A translation. What is dirty or not belongs to the copy."""

    tag: int
    va: int
    order: int
    block: Block
    index: int
    prot: int
    dirty: bool

    def allows(self, kind: str) -> bool:
        """Whether its rights allow it."""
        return bool(self.prot & {"fetch": X, "write": W, "read": R | W | X}[kind])


@dataclass
class Answer:
    """What a lookup came to."""

    outcome: str
    level: int
    cycles: int
    entry: Entry | None


class Array:
    """One array."""

    def __init__(self, desc: dict[str, Any], seed: int, coalescing: str) -> None:
        """Of its description; `coalescing`: on which sides."""
        self.desc = desc
        self.name = desc["name"]
        self.level = desc["level"]
        self.orders = sorted(ORDERS[s] for s in desc["sizes"])
        is_on = coalescing in ("both", desc["side"])
        self.group = GROUPS[desc["group"]] if desc["design"] == "zen" and is_on else None
        if self.group:
            # Searched before all others.
            self.orders.insert(0, self.group)
        self.smash = ORDERS[desc["smash_to"]] if desc.get("smash_to") else None
        self.victim_of = desc.get("victim_of")
        self.store = Store(desc["entries"], desc["ways"], desc["replacement"], seed)

    def serves(self, side: str) -> bool:
        """Whether lookups of the side go there."""
        return self.desc["side"] in (side, "both")

    def set_of(self, va: int, order: int) -> Any:
        """The set of the page of `order` that holds `va`."""
        return self.store.set(number(va, order))

    def search(self, tag: int, va: int) -> Entry | None:
        """The entry that matches, used."""
        for order in self.orders:
            place = self.set_of(va, order)
            for wanted in (tag, 0):
                way = place.find((order, down(va, order), wanted))
                if way is not None:
                    place.use(way)
                    entry: Entry = place.ways[way][1]
                    return entry
        return None

    def cycles(self, order: int | None) -> int:
        """Latency of a hit of `order`, or of finding nothing."""
        place = len(self.orders) if order is None else self.orders.index(order) + 1
        return int(self.desc["hit_cycles"]) * (place if self.desc["probe"] == "serial" else 1)


class Tlbs:
    """The arrays of a core."""

    def __init__(self, machine: dict[str, Any], line: dict[str, Any]) -> None:
        """`line` takes what is filled and what else happens."""
        on = machine["tlb_rules"]["coalescing"]
        self.arrays = [Array(desc, place, on) for place, desc in enumerate(machine["tlb"], 1)]
        self.inclusive = machine["tlb_rules"]["inclusion"] == "inclusive"
        self.line = line
        # Instructions that began, and each page with the number of its last one. Then the page that they come from now,
        # and the wait of the fetch in flight.
        self.begun = 0
        self.last: dict[tuple[int, int], int] = {}
        self.page: tuple[int, int] | None = None
        self.wait = 0

    def turn(self, tag: int, va: int) -> None:
        """Instructions come from this page now."""
        if self.page is not None:
            self.last[self.page] = self.begun
        self.page = (tag, va // PAGE)

    def is_held(self, array: Array, entry: Entry) -> bool:
        """Whether one of the entry's pages has an instruction in flight, but for the page fetched now."""
        pages = range(entry.va // PAGE, entry.va // PAGE + (1 << entry.order))
        most = array.desc["hold"]["instructions"]
        return any(
            page in pages and entry.tag in (0, tag) and self.begun - last < most
            for (tag, page), last in self.last.items()
            if (tag, page) != self.page
        )

    def beside(self, level: int, side: str) -> list[Array]:
        """The arrays of a level that serve a side."""
        return [a for a in self.arrays if a.level == level and a.serves(side)]

    def access(self, tag: int, va: int, kind: str) -> Answer:
        """Looks a reference up."""
        side = "instruction" if kind == "fetch" else "data"
        if kind == "fetch":
            self.turn(tag, va)
        for level in (1, 2):
            for array in self.beside(level, side):
                entry = array.search(tag, va)
                if entry is None:
                    continue
                cycles = array.cycles(entry.order) if level == 2 else 0
                if level == 2:
                    self.wait = 0
                    self.write(1, side, va, replace(entry, tag=0 if entry.tag == 0 else tag))
                    cycles += self.wait
                if not entry.allows(kind):
                    return Answer("denied", level, cycles, None)
                if kind == "write" and not entry.dirty:
                    return Answer("need-dirty", level, cycles, None)
                return Answer("hit", level, cycles, entry)
        return Answer("miss", 0, max((a.cycles(None) for a in self.beside(2, side)), default=0), None)

    def fill(self, va: int, kind: str, entry: Entry, found: Found) -> None:
        """Takes in what a walk found."""
        side = "instruction" if kind == "fetch" else "data"
        self.write(2, side, va, entry, found)
        self.write(1, side, va, entry, found)

    def write(self, level: int, side: str, va: int, entry: Entry, found: Found | None = None) -> None:
        """Writes an entry into the array of a level that takes it, if any does; `found`: what a walk saw beside it."""
        takers = [a for a in self.beside(level, side) if a.victim_of is None]
        if entry.order in (0, *GROUPS.values()):
            for array in takers:
                if 0 in array.orders:
                    self.put_near(array, va, entry, found)
                    return
        for array in takers:
            if entry.order in array.orders:
                self.put(array, entry)
                return
        for array in takers:
            if array.smash is not None and array.smash < entry.order:
                part = down(va, array.smash)
                moved = entry.index + (part - entry.va) // PAGE
                self.put(array, replace(entry, va=part, order=array.smash, index=moved))
                return

    def put_near(self, array: Array, va: int, entry: Entry, found: Found | None) -> None:
        """Writes as much of what is known of a base page and its group as the array can hold in one entry."""
        group = array.group
        if group and found is None and entry.order >= group:
            self.put_part(array, va, entry, group)
            return
        leaf = found(group) if group and found else None
        if group and leaf:
            self.put(array, Entry(entry.tag, down(va, group), group, leaf.block, leaf.index, leaf.prot, leaf.dirty))
            return
        if group and found:
            # An entry for the group would answer before this one.
            place = array.set_of(va, group)
            for tag in {entry.tag, 0}:
                way = place.find((group, down(va, group), tag))
                if way is not None:
                    self.tell("invalidated", array, place.ways[way][1])
                    place.ways[way] = None
        self.put_part(array, va, entry, 0)

    def put_part(self, array: Array, va: int, entry: Entry, order: int) -> None:
        """The part of an entry of this order that holds `va`."""
        part = down(va, order)
        self.put(array, replace(entry, va=part, order=order, index=entry.index + (part - entry.va) // PAGE))

    def put(self, array: Array, entry: Entry) -> None:
        """Writes an entry into an array."""
        self.line["filled"].append(
            {
                "array": array.name,
                "level": array.level,
                "va": entry.va,
                "bytes": PAGE << entry.order,
                "writable": bool(entry.prot & W) and entry.dirty,
            }
        )
        # Each array has its own copy.
        gone = array.set_of(entry.va, entry.order).put((entry.order, entry.va, entry.tag), replace(entry))
        if gone is not None:
            self.evicted(array, gone[1])

    def evicted(self, array: Array, entry: Entry) -> None:
        """What follows from an eviction."""
        self.tell("evicted", array, entry)
        if array.desc.get("hold") and self.is_held(array, entry):
            self.wait = array.desc["hold"]["cycles"]
        for below in self.arrays:
            if below.victim_of == array.name and entry.order in below.orders:
                self.put(below, entry)
        if self.inclusive and array.level == 2:
            for above in self.arrays:
                if above.level == 1:
                    self.drop(above, entry.va, entry.va + (PAGE << entry.order), entry.tag)

    def invalidate(self, what: dict[str, Any]) -> None:
        """Forgets what must not be used any more."""
        for array in self.arrays:
            if what["flush"] == "page":
                first = down(what["va"], ORDERS[what["size"]])
                self.drop(array, first, first + (PAGE << ORDERS[what["size"]]), what["asid"])
            elif what["flush"] == "range":
                self.drop(array, what["range"]["start"], what["range"]["end"], what["asid"])
            elif what["flush"] == "space":
                self.drop(array, 0, 1 << 64, what["asid"], spare_global=True)
            else:
                self.drop(array, 0, 1 << 64, None)

    def drop(self, array: Array, start: int, end: int, tag: int | None, spare_global: bool = False) -> None:
        """Drops entries that overlap `start..end`, of a tag or global."""
        for place in array.store.sets:
            for way, held in enumerate(place.ways):
                if held is None:
                    continue
                entry: Entry = held[1]
                is_tagged = tag is None or entry.tag == tag or (entry.tag == 0 and not spare_global)
                if is_tagged and entry.va < end and start < entry.va + (PAGE << entry.order):
                    place.ways[way] = None
                    self.tell("invalidated", array, entry)

    def tell(self, what: str, array: Array, entry: Entry) -> None:
        """Narrates."""
        self.line["events"].append({"tlb": what, "array": array.name, "va": entry.va, "bytes": PAGE << entry.order})
