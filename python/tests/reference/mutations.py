"""Models that are wrong in one place each: what the comparison must find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reference import faults, hashed, machine, space, store, tables, tlb, walker
from reference.kernel import Kernel
from reference.tables import Leaf

Patch = Callable[[pytest.MonkeyPatch], None]


def nothing(*_: Any) -> None:
    """What a step that is left out does."""


def use_twice(self: store.Set, way: int) -> None:
    """The order of use, upside down."""
    self.order.remove(way)
    self.order.insert(0, way)


def always_dirty(patch: pytest.MonkeyPatch) -> None:
    """Every entry lets stores through at once."""
    fill = tlb.Tlbs.fill

    def wrong(self: tlb.Tlbs, va: int, kind: str, entry: tlb.Entry, found: tlb.Found) -> None:
        entry.dirty = True
        fill(self, va, kind, entry, found)

    patch.setattr(tlb.Tlbs, "fill", wrong)


def any_group(self: machine.Machine, va: int, walk: walker.Walk, order: int) -> Leaf | None:
    """Accessed and dirty bits do not matter."""
    first = va // 4096 % 8 >> order << order
    members = walk.line[first : first + (1 << order)]
    return members[0] if members and all(members) else None


def forgetful_walk_caches(patch: pytest.MonkeyPatch) -> None:
    """Walks never begin below the root."""
    patch.setattr(walker.Walker, "nearest", lambda *_: None)


def one_level_too_high(patch: pytest.MonkeyPatch) -> None:
    """The walk cache is searched from the root down."""
    nearest = walker.Walker.nearest

    def wrong(self: walker.Walker, levels: int, tag: int, va: int) -> Any:
        found = nearest(self, levels, tag, va)
        return found if found and found[0] > 2 else None

    patch.setattr(walker.Walker, "nearest", wrong)


MUTATIONS: dict[str, Patch] = {
    "the most recently used entry goes": lambda p: p.setattr(store.Set, "use", use_twice),
    "entries are never used again": lambda p: p.setattr(store.Set, "use", nothing),
    "another random generator": lambda p: p.setattr(store.Pcg, "below", lambda self, n: 0),
    "TLBs are never invalidated": lambda p: p.setattr(tlb.Tlbs, "invalidate", nothing),
    "walk caches are never invalidated": lambda p: p.setattr(walker.Walker, "invalidate", nothing),
    "evictions have no consequences": lambda p: p.setattr(tlb.Tlbs, "evicted", nothing),
    "stores need no dirty bit": always_dirty,
    "second levels take no time": lambda p: p.setattr(tlb.Array, "cycles", lambda *_: 0),
    "no instruction holds an entry": lambda p: p.setattr(tlb.Tlbs, "is_held", lambda *_: False),
    "every entry is held": lambda p: p.setattr(tlb.Tlbs, "is_held", lambda *_: True),
    "nothing coalesces": lambda p: p.setattr(machine.Machine, "group", lambda *_: None),
    "any pages make a group": lambda p: p.setattr(machine.Machine, "group", any_group),
    "no walk caches": forgetful_walk_caches,
    "the entry nearest the leaf is not used": one_level_too_high,
    "no window hides a walk": lambda p: p.setattr(
        walker.Clock, "wait", lambda self, end, is_data: max(0, end - self.now)
    ),
    "one walker only": lambda p: p.setattr(
        walker.Clock, "walk", lambda self, cycles, is_data: self.wait(self.now + cycles, is_data)
    ),
    "caches remember nothing": lambda p: p.setattr(walker.Caches, "read", lambda self, *_: ("memory", 100)),
    "no huge pages": lambda p: p.setattr(faults, "choose", lambda *_: (0, "")),
    "no fault-around": lambda p: p.setattr(faults, "around", lambda *_: False),
    "stacks do not grow": lambda p: p.setattr(faults, "grow_stack", lambda *_: False),
    "shared pages are written": lambda p: p.setattr(Kernel, "is_exclusive", lambda *_: True),
    "frames are never given back": lambda p: p.setattr(Kernel, "drop", nothing),
    "address spaces have one tag": lambda p: p.setattr(Kernel, "tag", lambda self, s: setattr(s, "asid", 1)),
    "huge pages are never split": lambda p: p.setattr(space.Space, "split_at", nothing),
    "flushes are never gathered": lambda p: p.setattr(space.Gather, "flush", lambda *_: {"flush": "all"}),
    "empty tables stay": lambda p: p.setattr(
        tables.Tree, "unmap", lambda self, va: self.path(va)[-1][1].entries.pop(tables.index(va, self.path(va)[-1][0]))
    ),
}

# Of what only programs over hashed tables come to see.
HASHED_MUTATIONS: dict[str, Patch] = {
    "no line moves while a table is resized": lambda p: p.setattr(hashed.Cuckoo, "steps", lambda self: None),
    "lines are pushed to the first way": lambda p: p.setattr(hashed, "draws", lambda seed: lambda: 0),
    "a table with open addressing is searched from its second slot": lambda p: p.setattr(
        hashed.Open, "reads", lambda self, key: ([place] for place in list(self.probes(key))[1:])
    ),
    "another hash": lambda p: p.setattr(hashed, "hashed", lambda key, way: key),
}
