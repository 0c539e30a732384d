"""Random machines, policies and programs, small enough for a slow model and mean enough for a fast one."""

from __future__ import annotations

import json
from random import Random
from typing import Any

K, M, G = 1 << 10, 1 << 20, 1 << 30
# Places a program maps: two neighbouring 2 MiB regions each, one across a 512 GiB border, one in the upper half.
ANON, FILE, SHARED, STACK, UPPER = 0x40000000, 0x400000, 0x7F7FFFE00000, 0x7F0000000000, 0xFFFF800000000000


def toml(value: Any) -> str:
    """A value in TOML; its strings, numbers, booleans and lists look as in JSON."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def document(tables: dict[str, Any]) -> str:
    """A TOML document: plain values first, then tables and lists of tables."""
    lines = [f"{k} = {toml(v)}" for k, v in tables.items() if not isinstance(v, dict | list)]
    for key, value in tables.items():
        if isinstance(value, dict):
            lines += [f"[{key}]", *(f"{k} = {toml(v)}" for k, v in value.items())]
        elif isinstance(value, list):
            for entry in value:
                lines += [f"[[{key}]]", *(f"{k} = {toml(v)}" for k, v in entry.items())]
    return "\n".join(lines) + "\n"


def hashed(random: Random) -> dict[str, Any]:
    """A hashed page table, small, so that it is resized sooner or later."""
    if random.random() < 0.4:
        return {
            "table": {"kind": "hashed"},
            "table.hashed": {
                "lines": 64,
                "grow": random.choice([0.25, 0.5, 0.9]),
                "shrink": random.choice([0.0, 0.125]),
                "sizes": random.choice(["parallel", "sequential"]),
            },
        }
    ways = random.choice([2, 3, 4])
    return {
        "table": {"kind": "elastic-cuckoo"},
        "table.cuckoo": {
            "ways": ways,
            "lines": 64,
            # Two ways cannot be more than half full.
            "grow": random.choice([0.25, 0.4 if ways == 2 else 0.6]),
            "shrink": random.choice([0.0, 0.125]),
            "moves": random.choice([1, 2, 4]),
            "kicks": random.choice([4, 32]),
            "walk_tables": [],
        },
    }


def machine(random: Random, table: dict[str, Any] | None = None) -> str:
    """A machine of small arrays, so that everything is evicted sooner or later.

    `table` is a page table in place of a tree: with it, nothing is there to walk past it.
    """
    arrays: list[dict[str, Any]] = []

    def array(level: int, side: str, sizes: list[str], **more: Any) -> None:
        ways = random.choice([1, 2, 2, 4, 4, 8])
        replacement = random.choice(["lru", "lru", "tree-plru", "random"])
        if replacement != "tree-plru" and random.random() < 0.2:
            ways = random.choice([3, 5, 17])
        # Sets that are no power of two are found by a remainder.
        entries = ways * random.choice([1, 2, 3, 4])
        arrays.append(
            {
                "name": f"T{len(arrays)}",
                "level": level,
                "side": side,
                "entries": entries,
                "ways": "full" if entries == ways and random.random() < 0.5 else ways,
                "sizes": sizes,
                "replacement": replacement,
                **more,
            }
        )

    all_sizes = ["4K", "2M", "1G"]
    for side in random.choice([["both"], ["instruction", "data"]]):
        if random.random() < 0.5:
            array(1, side, all_sizes[: random.choice([2, 3])])
        else:
            array(1, side, ["4K"])
            array(1, side, ["2M"], **({"smash_to": "2M"} if random.random() < 0.5 else {}))
            if random.random() < 0.5:
                array(1, side, ["1G"])
    first = list(arrays)
    for side in random.choice([["both"], ["instruction", "data"], []]):
        probe = random.choice(["parallel", "serial"])
        smash = {"smash_to": "2M"} if random.random() < 0.3 else {}
        array(2, side, all_sizes[: random.choice([2, 3])], hit_cycles=random.choice([0, 7, 9]), probe=probe, **smash)
        if random.random() < 0.3:
            victim = random.choice(first)
            if victim["side"] in (side, "both") and not any(a.get("victim_of") for a in arrays):
                array(2, victim["side"], ["1G", "2M"][: random.choice([1, 2])], victim_of=victim["name"], hit_cycles=8)

    # From a stream of its own: what else a seed makes stays as it was.
    design = Random(document({"tlb": arrays}))
    if design.random() < 0.5:
        for held in (a for a in arrays if "4K" in a["sizes"] and design.random() < 0.7):
            held |= {"design": "zen", "group": design.choice([4, 8])}

    # The same of entries that instructions in flight hold.
    hold = Random("hold" + document({"tlb": arrays}))
    for held in (a for a in arrays if a["level"] == 1 and a["side"] == "instruction" and hold.random() < 0.5):
        held |= {"hold": {"cycles": hold.choice([1, 22]), "instructions": hold.choice([1, 8, 60])}}

    levels = random.choice([4, 5])
    walk_caches = []
    for index, held in enumerate(random.choice([[[2, 3, 4]], [[2], [3], [4]], [[2, 3], [3, 4, 5]], [[3]], []])):
        ways = random.choice([1, 2, 4])
        walk_caches.append(
            {
                "name": f"W{index}",
                "levels": held,
                "entries": ways * random.choice([0, 1, 2, 4]),
                "ways": ways,
                "replacement": random.choice(["lru", "tree-plru"]),
                "hit_cycles": random.choice([0, 1, 2]),
            }
        )
    caches = []
    for index in range(random.choice([0, 1, 2, 3])):
        ways = random.choice([1, 2, 4])
        size = 64 * ways * random.choice([1, 2, 8]) * (1 + 3 * index)
        caches.append(
            {
                "name": f"C{index}",
                "size": str(size),
                "ways": ways,
                "cycles": 4 * (index + 1) ** 2,
                "shared": index > 0,
            }
        )
    return document(
        {
            "name": "random",
            "isa": "x86-64",
            "core": {
                "count": random.choice([1, 1, 2]),
                "frequency_mhz": 1000,
                "base_cpi": random.choice([0.5, 1.0, 1.3]),
                "window": random.choice([0, 40, 200]),
            },
            "memory": {"size": "4G", "max_order": 10},
            **({"table": {"levels": levels}} if table is None else table),
            "tlb": arrays,
            "tlb_rules": {
                "inclusion": random.choice(["none", "none", "inclusive"]),
                "asid_bits": random.choice([0, 1, 2, 12]),
            },
            "walker": {
                "count": random.choice([1, 2]),
                "overhead_cycles": random.choice([0, 0, 9]),
                "read_cycles": random.choice([0, 0, 3]),
            },
            "walker.cache": walk_caches if table is None else [],
            "cache": caches,
            "cache_rules": {"data": random.random() < 0.4, "memory_cycles": 100},
        }
    )


def policy(random: Random) -> str:
    """One of the policies, with its options."""
    kind = random.choice(["linux-4k", "linux-thp", "linux-thp", "hugetlb", "hugetlb"])
    tables: dict[str, Any] = {"name": "random", "kind": kind}
    if kind == "linux-thp":
        tables["thp"] = {
            "enabled": random.choice(["always", "always", "madvise", "never"]),
            "zero_page": random.random() < 0.5,
            "zero_page_write": random.choice(["huge", "split"]),
        }
    if kind == "hugetlb":
        size = random.choice(["2M", "2M", "1G"])
        tables["hugetlb"] = {
            "size": size,
            "pool": {"2M": random.choice(["4M", "64M"]), "1G": "2G"}[size],
            "applies_to": random.choice(["anon", "anon", "all-private"]),
        }
    tables["linux"] = {
        "fault_around": random.choice(["4K", "16K", "64K"]),
        "read_around": random.choice(["4K", "32K", "128K"]),
        "largest_read": random.choice(["4K", "20K", "1280K"]),
        "prefaulted_accessed": random.random() < 0.5,
        "zero_page": random.random() < 0.6,
        "flush_ceiling": random.choice([4, 33]),
        "page_cache": random.choice(["cold", "warm"]),
    }
    # Not drawn: a draw more would change every program that follows.
    tables["linux"]["advice_flush"] = "call" if tables["linux"]["flush_ceiling"] == 4 else "mapping"
    return document(tables)


class Program:
    """A program that does everything there is to do."""

    def __init__(self, random: Random, policy_text: str) -> None:
        """With mappings of the sizes the policy knows."""
        self.random = random
        self.lines: list[str] = []
        self.is_giant = '"1G"' in policy_text
        self.is_pooled = "pool" in policy_text
        self.pids = [1]
        self.pid = 1
        # Pages that were touched: most references go back to one.
        self.pages: list[int] = []

    def say(self, line: str) -> None:
        """A line of the trace."""
        self.lines.append(line)

    def span(self, limit: int = 4 * M) -> tuple[int, int]:
        """An address and a length somewhere in the program's places, page-aligned."""
        random = self.random
        base = random.choice([ANON, ANON, ANON, FILE, SHARED])
        start = base + random.choice([0, 0, 2 * M, M, random.randrange(0, 4 * M, 4 * K)])
        return start, random.choice([4 * K, 4 * K, 16 * K, 256 * K, 2 * M, random.randrange(4 * K, limit, 4 * K)])

    def huge(self) -> tuple[int, int]:
        """An aligned 2 MiB of private memory, or two."""
        return ANON + self.random.choice([0, 2 * M, 4 * M]), self.random.choice([2 * M, 4 * M])

    def mmap(self) -> None:
        """A mapping of some kind."""
        random = self.random
        start, length = self.span()
        rights = random.choice(["rw", "rw", "rw", "r", "rx", "rwx", "-", "w"])
        what = random.choice(["anon", "anon", "anon", "file:/a+0", "file:/a+0", "file:/b+16K"])
        flags = [flag for flag, share in (("shared", 0.25), ("populate", 0.1)) if random.random() < share]
        if "populate" in flags:
            length = min(length, 512 * K)
        self.say(f"mmap {start:#x} {length} {rights} {what} {' '.join(flags)}")

    def place(self) -> int:
        """An address to refer to."""
        random = self.random
        if self.pages and random.random() < 0.8:
            # Not all are equally old: the recent ones more often.
            page = self.pages[-1 - min(int(random.expovariate(0.15)), len(self.pages) - 1)]
        else:
            base, limit = random.choice(
                [(ANON, 6 * M), (ANON, 6 * M), (FILE, M), (SHARED, 4 * M), (STACK - 64 * K, 64 * K), (UPPER, M)]
            )
            page = base + random.choice([random.randrange(0, 32 * K, 4 * K), random.randrange(0, limit, 4 * K)])
            if self.is_giant and random.random() < 0.3:
                page = ANON + random.randrange(0, 2 * G, 4 * K)
            self.pages.append(page)
        return page + random.randrange(0, 4 * K)

    def refer(self) -> None:
        """A reference."""
        va = self.place()
        kind = self.random.choice("frrww")
        self.say(f"f {va:#x} x{self.random.choice([1, 3, 31, 40])}" if kind == "f" else f"{kind} {va:#x}")

    def step(self) -> None:
        """One more thing."""
        random = self.random
        if random.random() < 0.82:
            self.refer()
            return
        start, length = self.span()
        choice = random.randrange(40)
        if choice < 7:
            self.mmap()
        elif choice < 9:
            self.say(f"munmap {start:#x} {length}")
        elif choice < 14:
            self.say(f"mprotect {start:#x} {length} {random.choice(['r', 'rw', 'rw', 'rwx', '-'])}")
        elif choice < 16:
            start, length = self.huge()
            self.say(f"madvise {start:#x} {length} {random.choice(['collapse', 'collapse', 'dontneed', 'hugepage'])}")
        elif choice < 21:
            advice = ["hugepage", "nohugepage", "collapse", "dontneed", "free", "willneed"]
            self.say(f"madvise {start:#x} {length} {random.choice(advice)}")
        elif choice < 24:
            child = random.choice([2, 3, 4])
            self.say(f"fork {child}{random.choice(['', '', ' vm'])}")
            self.pids.append(child)
        elif choice < 31:
            self.pid = random.choice(self.pids)
            # Each process has a thread or two.
            self.say(f"p {self.pid}.{self.pid + 10 * random.choice([0, 0, 1]) if self.pid != 1 else 1}")
        elif choice < 33:
            self.say(f"invlpg {self.place() | 1:#x}")
        elif choice < 34:
            self.say(random.choice(["exit", "exec /a"]))
            if random.random() < 0.8:
                self.begin()
        elif choice < 36:
            self.say(f"brk 0x600010 {0x600010 + random.randrange(0, 3 * M):#x}")
        elif choice < 38 and not self.is_giant:
            to = ANON + 64 * M + random.choice([0, 4 * K, 2 * M]) + start % (2 * M)
            new = random.choice([length, length, max(4 * K, length // 8192 * 4096), length + 16 * K])
            self.say(f"mremap {start:#x} {length} {random.choice([to, start]):#x} {new}{random.choice(['', ' keep'])}")
        else:
            self.say(f"n {random.randrange(1, 300)}")

    def begin(self) -> None:
        """The mappings a program begins with."""
        random = self.random
        self.say(f"mmap {ANON:#x} {2 * G if self.is_giant else 6 * M} rw anon")
        self.say(f"mmap {FILE:#x} 1M rx file:/a+0")
        self.say(f"mmap {SHARED:#x} 4M rw {random.choice(['anon', 'file:/b+0'])} shared")
        self.say(f"mmap {STACK - 16 * K:#x} 16K rw anon growsdown label=[stack]")
        self.say(f"mmap {UPPER:#x} 1M {random.choice(['rwx', 'rx'])} anon global")
        if self.is_pooled and random.random() < 0.5:
            self.say(f"mmap {ANON + 4 * G:#x} 4M rw anon hugetlb={'1G' if self.is_giant else '2M'}")
            self.pages += [ANON + 4 * G, ANON + 4 * G + 2 * M + 12 * K]

    def text(self, steps: int) -> str:
        """The whole trace."""
        self.begin()
        for _ in range(steps):
            self.step()
        return "\n".join(self.lines) + "\n"
