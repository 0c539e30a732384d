"""TLBs for all page sizes, as docs/concepts/all-page-sizes.md has them: sets of pages, without a thought for time.

They are given a table in which every page is known, and say of each reference which level answers it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from reference.anchor import Anchor
from reference.complete_subblock import CompleteSubblock
from reference.gap_tolerant import GapTolerant
from reference.groups import Grouped
from reference.leaves import ORDERS, PAGE, Leaf, Table, find
from reference.partial_subblock import PartialSubblock
from reference.store import Set, Store


@dataclass
class Entry:
    """Pages of one size that are told together."""

    order: int
    distance: int
    dirty: bool
    pages: frozenset[int]

    def has(self, va: int) -> bool:
        """Whether it translates the address."""
        return (va // PAGE >> self.order) in self.pages

    def lets(self, kind: str) -> bool:
        """Whether the access goes through."""
        return kind != "w" or self.dirty


class Mix:
    """Design mix, with bitmaps or lengths, blind or merged, with groups of small pages or not; or colt++."""

    def __init__(self, desc: dict[str, Any], place: int) -> None:
        """Of a description, the `place`th array, from 1."""
        mix = desc.get("mix") or {}
        self.plus = desc["design"] == "colt++"
        self.orders = sorted(ORDERS[size] for size in desc["sizes"])
        self.group = {
            order: desc["group"] if self.plus or order else mix.get("small_group") or 1 for order in self.orders
        }
        bundle = mix.get("bundle") or ("bitmap" if desc["level"] == 1 else "length")
        self.runs = {order: order != 0 and bundle == "length" and not self.plus for order in self.orders}
        self.anywhere = mix.get("span") == "anywhere"
        self.aligned_frames = mix.get("frames") == "aligned"
        self.merged = mix.get("mirrors") == "merged"
        small = self.group[0].bit_length() - 1
        self.index = {o: o + self.group[o].bit_length() - 1 if self.plus else small for o in self.orders}
        self.store = Store(desc["entries"], desc["ways"], desc["replacement"], place)

    def sets_of(self, entry: Entry) -> list[Set]:
        """Every set that a part of one of its pages falls in."""
        index = self.index[entry.order]
        numbers = set()
        for page in entry.pages:
            first = page << entry.order
            numbers |= {base >> index for base in range(first, first + (1 << entry.order), min(1 << index, 512))}
        count = len(self.store.sets)
        return [self.store.sets[number] for number in sorted({number % count for number in numbers})]

    def probed(self, va: int, order: int) -> Set:
        """The set that the address names."""
        return self.store.set(va // PAGE >> self.index[order])

    def near(self, entry: Entry, va: int) -> bool:
        """Whether the entry's tag is that of the address: holes count."""
        number = va // PAGE >> entry.order
        if self.runs[entry.order]:
            return number in entry.pages
        group = self.group[entry.order]
        return number // group == min(entry.pages) // group

    def search(self, va: int) -> Entry | None:
        """The entry that translates the address, used; copies that its set holds become one."""
        for order in sorted({*self.index.values()}):
            place = self.store.set(va // PAGE >> order)
            alike = [way for way, held in enumerate(place.ways) if held and self.near(held[1], va)]
            if len(alike) > 1:
                self.unite(place, alike, va)
            for way in alike:
                held = place.ways[way]
                if held and held[1].has(va):
                    place.use(way)
                    return held[1]  # type: ignore[no-any-return]
        return None

    def unite(self, place: Set, alike: list[int], va: int) -> None:
        """The first takes in what the others know; of two that cannot be one and both translate, the larger stays."""
        for at, keep in enumerate(alike):
            for way in alike[at + 1 :]:
                mine, other = place.ways[keep], place.ways[way]
                if not mine or not other or not self.near(mine[1], va) or not self.near(other[1], va):
                    continue
                joined = self.join_copies(mine[1], other[1])
                both = mine[1].has(va) and other[1].has(va)
                if joined:
                    place.ways[keep] = ("entry", joined)
                elif both and len(other[1].pages) > len(mine[1].pages):
                    place.ways[keep] = other
                elif not both:
                    continue
                place.ways[way] = None

    def allowed(self, order: int, distance: int) -> bool:
        """Whether pages may share an entry that are so far from their frames."""
        return not self.aligned_frames or distance % (self.group[order] << order) == 0

    def fits(self, order: int, pages: frozenset[int]) -> bool:
        """Whether these pages may be one entry."""
        group = self.group[order]
        first, last = min(pages), max(pages)
        if self.runs[order]:
            whole = len(pages) == last - first + 1 <= group
            return whole and (self.anywhere or first // group == last // group)
        return first // group == last // group

    def join(self, old: Entry, new: Entry) -> Entry | None:
        """Both in one, if they may be."""
        if (old.order, old.distance) != (new.order, new.distance):
            return None
        if self.plus and old.dirty != new.dirty:
            return None
        pages = old.pages | new.pages
        if not self.fits(new.order, pages):
            return None
        if len(pages) > 1 and not self.allowed(new.order, new.distance):
            return new if old.pages == new.pages else None
        return replace(new, pages=pages, dirty=new.dirty and (old.dirty or new.pages >= old.pages))

    def join_copies(self, one: Entry, other: Entry) -> Entry | None:
        """Two copies in one, if they may be: dirty if each page is in a dirty copy."""
        joined = self.join(one, other)
        known = frozenset().union(*(entry.pages for entry in (one, other) if entry.dirty))
        return replace(joined, dirty=joined.pages <= known) if joined else None

    def entry_of(self, leaf: Leaf, line: list[Leaf]) -> Entry:
        """What a page gives together with those of its line that belong to it."""
        group, number = self.group[leaf.order], leaf.number
        alike = {
            other.number: other
            for other in line
            if other.accessed and other.distance == leaf.distance and (not self.plus or other.dirty == leaf.dirty)
        }
        if group == 1 or not self.allowed(leaf.order, leaf.distance):
            alike = {number: leaf}
        if not (self.runs[leaf.order] and self.anywhere):
            alike = {n: other for n, other in alike.items() if n // group == number // group}
        if self.runs[leaf.order]:
            low = high = number
            # What lies behind goes first, where runs may begin anywhere.
            while low - 1 in alike and number - (low - 1) < group:
                low -= 1
            while high + 1 in alike and high + 1 - low < group:
                high += 1
            alike = {n: alike[n] for n in range(low, high + 1)}
        dirty = all(other.dirty for other in alike.values())
        return Entry(leaf.order, leaf.distance, dirty, frozenset(alike))

    def fill(self, va: int, leaf: Leaf, line: list[Leaf]) -> None:
        """Takes in what a walk, or the second level, knows."""
        new = self.entry_of(leaf, line)
        probed = self.probed(va, leaf.order)
        kept, was_held = None, False
        for way, held in enumerate(probed.ways):
            if not held:
                continue
            old: Entry = held[1]
            had = old.has(va)
            was_held = was_held or had
            joined = self.join(old, new)
            if joined and kept is None:
                new, kept = joined, way
            elif not joined and had:
                self.forget(probed, way, old.order, va)
        if kept is None:
            self.admit(probed, new)
        else:
            probed.ways[kept] = ("entry", new)
            probed.use(kept)
        for place in [] if was_held else self.sets_of(new):
            if place is not probed:
                self.mirror(place, new)

    def mirror(self, place: Set, new: Entry) -> None:
        """A copy in another set: blindly, or over what it can join."""
        for way, held in enumerate(place.ways):
            if self.merged and held and (joined := self.join(held[1], new)):
                place.ways[way] = ("entry", joined)
                place.use(way)
                return
        self.admit(place, new)

    def admit(self, place: Set, new: Entry) -> None:
        """Into the first empty way, or the victim's."""
        way = place.ways.index(None) if None in place.ways else place.victim()
        place.ways[way] = ("entry", new)
        place.use(way)

    def forget(self, place: Set, way: int, order: int, va: int) -> None:
        """The page leaves the entry; a run goes whole."""
        held = place.ways[way]
        assert held
        rest = held[1].pages - {va // PAGE >> order}
        place.ways[way] = ("entry", replace(held[1], pages=rest)) if rest and not self.runs[order] else None

    def line(self, entry: Entry, va: int) -> list[Leaf]:
        """What an entry knows of the eight pages around one."""
        first = (va // PAGE >> entry.order) // 8 * 8
        pages = [page for page in range(first, first + 8) if page in entry.pages]
        frame = entry.distance >> entry.order
        return [Leaf(entry.order, page, page + frame, entry.dirty) for page in pages]

    def drop(self, start: int, end: int) -> None:
        """An invalidation of a range of addresses."""
        for place in self.store.sets:
            for way, held in enumerate(place.ways):
                if not held:
                    continue
                size = PAGE << held[1].order
                hit = {page for page in held[1].pages if page * size < end and (page + 1) * size > start}
                if hit:
                    rest = held[1].pages - hit
                    whole = self.runs[held[1].order] or not rest
                    place.ways[way] = None if whole else ("entry", replace(held[1], pages=frozenset(rest)))


class Sized:
    """Design plain, of one size or several: each page an entry, in the set of its own number."""

    def __init__(self, desc: dict[str, Any], place: int) -> None:
        """Of a description, the `place`th array, from 1."""
        self.orders = sorted(ORDERS[size] for size in desc["sizes"])
        self.store = Store(desc["entries"], desc["ways"], desc["replacement"], place)

    def search(self, va: int) -> Entry | None:
        """Size by size."""
        for order in self.orders:
            place = self.store.set(va // PAGE >> order)
            way = place.find((order, va // PAGE >> order))
            if way is not None:
                place.use(way)
                held = place.ways[way]
                assert held
                entry: Entry = held[1]
                return entry
        return None

    def fill(self, va: int, leaf: Leaf, line: list[Leaf]) -> None:
        """The page alone."""
        del va, line
        entry = Entry(leaf.order, leaf.distance, leaf.dirty, frozenset([leaf.number]))
        self.store.set(leaf.number).put((leaf.order, leaf.number), entry)

    def line(self, entry: Entry, va: int) -> list[Leaf]:
        """Of itself alone."""
        number = va // PAGE >> entry.order
        return [Leaf(entry.order, number, number + (entry.distance >> entry.order), entry.dirty)]

    def drop(self, start: int, end: int) -> None:
        """An invalidation of a range of addresses."""
        for place in self.store.sets:
            for way, held in enumerate(place.ways):
                size = PAGE << held[1].order if held else 0
                if held and any(page * size < end and (page + 1) * size > start for page in held[1].pages):
                    place.ways[way] = None


class Skewed:
    """Design skew: each way hashes by itself, and a size has its share of the ways."""

    GOLDEN = 0x9E3779B97F4A7C15

    def __init__(self, desc: dict[str, Any], place: int) -> None:
        """Of a description."""
        del place
        self.orders = sorted(ORDERS[size] for size in desc["sizes"])
        self.ways = desc["ways"] // len(self.orders)
        self.sets = desc["entries"] // desc["ways"]
        # By way and set, what is there and when it was used.
        self.held: dict[tuple[int, int], tuple[Entry, int]] = {}
        self.now = 0

    def places(self, va: int, order: int) -> list[tuple[int, int]]:
        """Where a page of some size may be."""
        turn = va // PAGE >> self.orders[-1]
        first = (self.orders.index(order) + turn) % len(self.orders) * self.ways
        page = va // PAGE >> order
        hashes = [(w, page * (self.GOLDEN * (2 * w + 1)) % (1 << 64)) for w in range(first, first + self.ways)]
        return [(way, number * self.sets >> 64) for way, number in hashes]

    def search(self, va: int) -> Entry | None:
        """In the places of each size."""
        for order in self.orders:
            for place in self.places(va, order):
                entry, _ = self.held.get(place, (None, 0))
                if entry and entry.order == order and entry.has(va):
                    self.now += 1
                    self.held[place] = (entry, self.now)
                    return entry
        return None

    def fill(self, va: int, leaf: Leaf, line: list[Leaf]) -> None:
        """In its place, else in that which was used longest ago: an empty one, if there is any."""
        del line
        places = self.places(va, leaf.order)
        entry = Entry(leaf.order, leaf.distance, leaf.dirty, frozenset([leaf.number]))
        own = [
            p
            for p in places
            if p in self.held and (self.held[p][0].order, self.held[p][0].pages) == (entry.order, entry.pages)
        ]
        self.now += 1
        place = own[0] if own else min(places, key=lambda p: self.held[p][1] if p in self.held else 0)
        self.held[place] = (entry, self.now)

    def line(self, entry: Entry, va: int) -> list[Leaf]:
        """Of itself alone."""
        number = va // PAGE >> entry.order
        return [Leaf(entry.order, number, number + (entry.distance >> entry.order), entry.dirty)]

    def drop(self, start: int, end: int) -> None:
        """An invalidation of a range of addresses."""
        for place, (entry, _) in list(self.held.items()):
            size = PAGE << entry.order
            if any(page * size < end and (page + 1) * size > start for page in entry.pages):
                del self.held[place]


Array = Mix | Sized | Skewed | Grouped | CompleteSubblock | Anchor
DESIGNS: dict[str, type[Array]] = {
    "mix": Mix,
    "colt++": Mix,
    "skew": Skewed,
    "plain": Sized,
    "colt-sa": Grouped,
    "colt-fa": Grouped,
    "clustered": Grouped,
    "complete-subblock": CompleteSubblock,
    "partial-subblock": PartialSubblock,
    "gap-tolerant": GapTolerant,
    "anchor": Anchor,
}


class Tlbs:
    """The data side of a core: one or two levels, each of arrays that take a size each, or all."""

    def __init__(self, arrays: list[dict[str, Any]]) -> None:
        """Of a resolved description's arrays."""
        self.levels: list[list[Array]] = [[], []]
        for place, desc in enumerate(arrays, 1):
            if desc["side"] != "instruction":
                self.levels[desc["level"] - 1].append(DESIGNS[desc["design"]](desc, place))

    def access(self, table: Table, va: int, kind: str) -> tuple[str, str]:
        """What each level answers; what walks and hits bring is there afterwards."""
        leaf = find(table, va)
        for level, arrays in enumerate(self.levels):
            entry, array = next(((e, a) for a in arrays if (e := a.search(va)) is not None), (None, None))
            if entry is None or array is None:
                continue
            if level:
                known = array.line(entry, va)
                this = next(other for other in known if other.number == va // PAGE >> entry.order)
                self.write(0, va, this, known)
            if not entry.lets(kind):
                self.walk(table, va, leaf, kind)
            return ("miss", "hit") if level else ("hit", "-")
        self.walk(table, va, leaf, kind)
        return "miss", "miss"

    def walk(self, table: Table, va: int, leaf: Leaf, kind: str) -> None:
        """Sets the dirty bit of a store, and brings the line."""
        leaf.accessed = True
        leaf.dirty = leaf.dirty or kind == "w"
        first = leaf.number // 8 * 8
        line = [table[leaf.order, n] for n in range(first, first + 8) if (leaf.order, n) in table]
        for level in (1, 0):
            self.write(level, va, leaf, line)

    def write(self, level: int, va: int, leaf: Leaf, line: list[Leaf]) -> None:
        """To the array of a level that takes the size, if any does."""
        for array in self.levels[level]:
            if leaf.order in array.orders:
                array.fill(va, leaf, line)
                return

    def drop(self, start: int, end: int) -> None:
        """An invalidation of a range of addresses."""
        for arrays in self.levels:
            for array in arrays:
                array.drop(start, end)
