"""Page tables found by hashing, as docs/concepts/page-tables.md has them: pages by number, and where their lines lie.

Memory is always found in one block for each way, and elastic cuckoo tables have no cuckoo walk tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from reference.frames import PAGE, Block
from reference.store import draws
from reference.tables import Leaf, Searched, down, number

# Orders of pages, smallest first: a table each.
ORDERS = (0, 9, 18)
# Pages of a line, as a power of two, and its bytes.
LINE_ORDER, LINE = 3, 64
# Ways tried in vain before a cuckoo table is resized, and once it cannot be.
TRIES, LAST_TRIES = 16, 1024
MASK = (1 << 64) - 1
# Hears of a table that has another size from now on: lines of a way before, and then.
Tell = Callable[[int, int], None]


def hashed(key: int, way: int) -> int:
    """SplitMix64, as docs/scenarios/hashed-tables.md works it out."""
    z = key + (way + 1) * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


class Way:
    """Places for lines: their numbers, and the memory they are in."""

    def __init__(self, slots: int) -> None:
        """Empty."""
        self.slots: list[int | None] = [None] * slots
        self.block = Block(max(0, (slots * LINE // PAGE).bit_length() - 1), "table")

    def free(self) -> None:
        """Its memory goes."""
        self.block.use, self.block.users = "gone", 0


@dataclass
class Place:
    """A slot of a way."""

    way: Way
    slot: int

    @property
    def key(self) -> int | None:
        """The line that is there."""
        return self.way.slots[self.slot]

    @key.setter
    def key(self, key: int | None) -> None:
        self.way.slots[self.slot] = key


class Open:
    """Open addressing: a line is in its slot, or the next that is free."""

    def __init__(self, desc: dict[str, Any], draw: Callable[[], int], tell: Tell) -> None:
        """Of a description; `tell` hears of sizes."""
        del draw
        self.desc = desc
        self.tell = tell
        tell(0, desc["lines"])
        self.way = Way(desc["lines"])

    @property
    def ways(self) -> list[Way]:
        """All memory."""
        return [self.way]

    @property
    def lines(self) -> int:
        """Lines in use."""
        return sum(key is not None for key in self.way.slots)

    def probes(self, key: int) -> Iterator[Place]:
        """Where the line may be, in order."""
        count = len(self.way.slots)
        return (Place(self.way, (hashed(key, 0) + n) % count) for n in range(count))

    def reads(self, key: int) -> Iterator[list[Place]]:
        """What hardware reads at once, until it knows."""
        for place in self.probes(key):
            yield [place]
            if place.key in (None, key):
                return

    def resize(self, slots: int) -> None:
        """All lines go to a table of another size, in the order they lie in."""
        old = self.way
        self.tell(len(old.slots), slots)
        self.way = Way(slots)
        for key in old.slots:
            if key is not None:
                next(place for place in self.probes(key) if place.key is None).key = key
        old.free()

    def insert(self, key: int) -> None:
        """A new line."""
        if (self.lines + 1) > len(self.way.slots) * self.desc["grow"]:
            self.resize(2 * len(self.way.slots))
        next(place for place in self.probes(key) if place.key is None).key = key

    def remove(self, key: int) -> None:
        """The line goes: those behind it, up to a free slot, are put anew, first to last."""
        hole = next(place for place in self.probes(key) if place.key == key)
        hole.key = None
        count, behind = len(self.way.slots), []
        slot = (hole.slot + 1) % count
        while (moved := self.way.slots[slot]) is not None:
            behind.append(moved)
            self.way.slots[slot] = None
            slot = (slot + 1) % count
        for moved in behind:
            next(place for place in self.probes(moved) if place.key is None).key = moved
        if count > self.desc["lines"] and self.lines < count * self.desc["shrink"]:
            self.resize(count // 2)


class Cuckoo:
    """Elastic cuckoo: a line has one place in each way."""

    def __init__(self, desc: dict[str, Any], draw: Callable[[], int], tell: Tell) -> None:
        """Of a description; `draw` draws 64 bits, `tell` hears of sizes."""
        self.desc = desc
        self.tell = tell
        tell(0, desc["lines"])
        self.draw = draw
        self.now = [Way(desc["lines"]) for _ in range(desc["ways"])]
        self.next: list[Way] = []
        # Slots of each way that have been moved.
        self.moved = [0] * desc["ways"]

    @property
    def ways(self) -> list[Way]:
        """All memory."""
        return [*self.now, *self.next]

    @property
    def lines(self) -> int:
        """Lines in use."""
        return sum(key is not None for way in self.ways for key in way.slots)

    def home(self, key: int, way: int) -> Place:
        """Its one place in a way: in the new one, if its old place has been moved."""
        slot = hashed(key, way) % len(self.now[way].slots)
        if self.next and slot < self.moved[way]:
            return Place(self.next[way], hashed(key, way) % len(self.next[way].slots))
        return Place(self.now[way], slot)

    def reads(self, key: int) -> Iterator[list[Place]]:
        """All ways at once."""
        yield [self.home(key, way) for way in range(len(self.now))]

    def room(self, key: int, way: int | None = None) -> Place | None:
        """An empty place for a line: those on a chain of places go to the next each, if it ends."""
        count = len(self.now)
        way = self.draw() % count if way is None else way
        chain = [self.home(key, way)]
        while (aside := chain[-1].key) is not None:
            if len(chain) > self.desc["kicks"] or chain[-1] in chain[:-1]:
                return None
            way = (way + 1 + self.draw() % (count - 1)) % count
            chain.append(self.home(aside, way))
        for to, come in zip(chain[:0:-1], chain[-2::-1], strict=True):
            to.key, come.key = come.key, None
        return chain[0]

    def tries(self, key: int, count: int) -> Place | None:
        """As many times."""
        return next((place for _ in range(count) if (place := self.room(key)) is not None), None)

    def begin(self, slots: int) -> None:
        """Lines are to move to ways of another size."""
        self.tell(len(self.now[0].slots), slots)
        self.next = [Way(slots) for _ in self.now]

    def step(self) -> bool:
        """One line moves, of the way that is behind. Whether it could."""
        way = self.moved.index(min(self.moved))
        slots = self.now[way].slots
        is_stuck = False
        while self.moved[way] < len(slots):
            slot = self.moved[way]
            key = slots[slot]
            self.moved[way] += 1
            if key is None:
                continue
            slots[slot] = None
            place = self.room(key, way) or self.tries(key, TRIES)
            if place:
                place.key = key
            else:
                self.moved[way], slots[slot], is_stuck = slot, key, True
            break
        if all(moved == len(slots) for moved in self.moved):
            for old in self.now:
                old.free()
            self.now, self.next, self.moved = self.next, [], [0] * len(self.now)
        return not is_stuck

    def steps(self) -> None:
        """Those that go with each new line."""
        for _ in range(self.desc["moves"]):
            if not self.next or not self.step():
                return

    def run_through(self) -> None:
        """To the end of a resize."""
        while self.next and self.step():
            pass

    def insert(self, key: int) -> None:
        """A new line."""
        size = len((self.next or self.now)[0].slots)
        is_full = self.lines + 1 > size * len(self.now) * self.desc["grow"]
        if self.next and is_full:
            self.run_through()
        elif self.next:
            self.steps()
        if not self.next and is_full:
            self.begin(2 * len(self.now[0].slots))
            self.steps()
        place = self.tries(key, TRIES)
        if place is None:
            self.run_through()
            if not self.next:
                self.begin(2 * len(self.now[0].slots))
                self.run_through()
            place = self.tries(key, LAST_TRIES)
        assert place is not None
        place.key = key

    def remove(self, key: int) -> None:
        """The line goes."""
        place = next(p for p in (self.home(key, way) for way in range(len(self.now))) if p.key == key)
        place.key = None
        count = len(self.now[0].slots)
        is_sparse = self.lines < count * len(self.now) * self.desc["shrink"]
        if not self.next and count > self.desc["lines"] and is_sparse:
            self.begin(count // 2)


class Hashed(Searched):
    """The page table of an address space: what `Tree` is, found by hashing."""

    def __init__(self, levels: int, table: dict[str, Any], told: list[dict[str, Any]]) -> None:
        """Of a machine's table; what happens to it is `told`."""
        self.told = told
        self.levels = levels
        is_open = table["kind"] == "hashed"
        self.desc = table["hashed" if is_open else "cuckoo"]
        self.made: type[Open] | type[Cuckoo] = Open if is_open else Cuckoo
        self.is_at_once = not is_open or self.desc["sizes"] == "parallel"
        self.draw = draws(0)
        self.leaves: dict[tuple[int, int], Leaf] = {}
        self.stores: dict[int, Open | Cuckoo] = {}
        self.make(0)

    def make(self, order: int) -> None:
        """The table of a size is there from now on."""

        def tell(was: int, now: int) -> None:
            level = ORDERS.index(order) + 1
            self.told.append({"event": "table_resized", "level": level, "from": was, "to": now, "pieces": 1})

        self.stores[order] = self.made(self.desc, self.draw, tell)

    def key(self, va: int, order: int) -> int:
        """The number of the line of pages of `order` that holds `va`."""
        return number(va, order + LINE_ORDER)

    def line(self, va: int, order: int) -> list[Leaf | None]:
        """The eight pages of a line."""
        first = number(va, order) // 8 * 8
        return [self.leaves.get((order, page)) for page in range(first, first + 8)]

    def find(self, va: int) -> Leaf | None:
        """The leaf that maps `va`."""
        found = (self.leaves.get((order, number(va, order))) for order in ORDERS)
        return next((leaf for leaf in found if leaf), None)

    def hole(self, va: int) -> int:
        """Where nothing is mapped: the order of the largest page around `va` that is empty."""
        holes = (
            order
            for order in reversed(ORDERS)
            if not any(number(page << 12 + of, order) == number(va, order) for of, page in self.leaves)
        )
        return next(holes, 0)

    def map(self, va: int, leaf: Leaf) -> None:
        """Puts a leaf where nothing is."""
        if leaf.order not in self.stores:
            self.make(leaf.order)
        if not any(self.line(va, leaf.order)):
            self.stores[leaf.order].insert(self.key(va, leaf.order))
        assert (leaf.order, number(va, leaf.order)) not in self.leaves
        self.leaves[leaf.order, number(va, leaf.order)] = leaf

    def set(self, va: int, leaf: Leaf) -> Leaf:
        """Rewrites a leaf; what it was."""
        was = self.leaves[leaf.order, number(va, leaf.order)]
        self.leaves[leaf.order, number(va, leaf.order)] = leaf
        return was

    def take(self, va: int, order: int) -> Leaf:
        """Takes a leaf out, and its line if that is empty then."""
        leaf = self.leaves.pop((order, number(va, order)))
        if not any(self.line(va, order)):
            self.stores[order].remove(self.key(va, order))
        return leaf

    def unmap(self, va: int) -> Leaf:
        """Takes the leaf of an address out."""
        leaf = self.find(va)
        assert leaf
        return self.take(va, leaf.order)

    def split(self, va: int) -> None:
        """Replaces a large leaf by leaves one size smaller."""
        leaf = self.find(va)
        assert leaf
        part, start = leaf.order - 9, down(va, leaf.order)
        for n in range(512):
            piece = Leaf(
                leaf.block, leaf.index + (n << part), part, leaf.prot, leaf.accessed, leaf.dirty, leaf.is_global
            )
            self.map(start + n * (PAGE << part), piece)
        self.take(start, leaf.order)

    def free(self) -> None:
        """Gives all memory back."""
        for store in self.stores.values():
            for way in store.ways:
                way.free()

    def search(self, va: int) -> Iterator[list[tuple[int, Place]]]:
        """What hardware reads, in groups that are read at once: of each line the order of its pages, and its place."""
        looks = {order: self.stores[order].reads(self.key(va, order)) for order in ORDERS if order in self.stores}
        while looks:
            group = []
            for order in list(looks)[: None if self.is_at_once else 1]:
                reads = next(looks[order], None)
                if reads is None:
                    del looks[order]
                else:
                    group += [(order, place) for place in reads]
            if group:
                yield group
