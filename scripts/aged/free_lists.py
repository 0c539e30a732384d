"""A guest's free lists, read out of its memory while it waits: by order, migrate type and position in the list."""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from btf import Btf

# Symbols that are needed; with `nokaslr` they are the same at each boot of a kernel.
SYMBOLS = ("node_data", "init_top_pgt", "__start_BTF", "__stop_BTF", "__per_cpu_offset")
# Where the kernel of x86-64 has itself, all of memory, and its descriptions of frames
# (Documentation/arch/x86/x86_64/mm.rst).
TEXT, DIRECT, DIRECT_END, FRAMES = 0xFFFFFFFF80000000, 0xFFFF888000000000, 0xFFFFC88000000000, 0xFFFFEA0000000000
PAGE = 4096
ORDERS, TYPES, CPU_ORDERS = 11, 3, 4
# Of the guests, nearly all memory is in this zone; what is below 16 MB is left out, as if it were in use.
ZONE = "DMA32"


@dataclass
class Lists:
    """Of one guest: `zone[order][type]` and `cpu[order][type]` are first frames in the order of the list."""

    mebibytes: int
    zone: list[list[list[int]]]
    cpu: list[list[list[int]]]


class Memory:
    """What a file that is a guest's memory holds, by the addresses of the guest's kernel."""

    def __init__(self, path: Path, symbols: dict[str, int]) -> None:
        """`symbols` as in the guest's /proc/kallsyms."""
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self.symbols = symbols

    def _physical(self, va: int) -> int:
        if va >= TEXT:
            return va - TEXT
        if DIRECT <= va < DIRECT_END:
            return va - DIRECT
        table = self.symbols["init_top_pgt"] - TEXT
        for shift in (39, 30, 21, 12):
            at = table + (va >> shift & 511) * 8
            (entry,) = struct.unpack("<Q", self._bytes[at : at + 8])
            assert entry & 1, f"{va:#x} is not mapped"
            table = entry & 0x000FFFFFFFFFF000
            if entry & 0x80:
                break
        return (table >> shift << shift) + (va & (1 << shift) - 1)

    def read(self, va: int, size: int) -> bytes:
        """Bytes at an address, which may lie in several pages."""
        out = b""
        while len(out) < size:
            at = va + len(out)
            start = self._physical(at)
            out += self._bytes[start : start + min(size - len(out), PAGE - at % PAGE)]
        return out

    def word(self, va: int) -> int:
        """Eight bytes."""
        (value,) = struct.unpack("<Q", self.read(va, 8))
        return int(value)


def read(memory: Memory, mebibytes: int) -> Lists:
    """Follows all free lists of the zone, and those of its CPU."""
    symbols = memory.symbols
    btf = Btf(memory.read(symbols["__start_BTF"], symbols["__stop_BTF"] - symbols["__start_BTF"]))
    link, frame = btf.field("page", "lru")[0], btf.size("page")
    areas, _ = btf.field("zone", "free_area")
    area = btf.size("free_area")
    node = memory.word(symbols["node_data"])
    first, size = btf.field("pglist_data", "node_zones")
    zones = range(node + first, node + first + size, btf.size("zone"))
    name = btf.field("zone", "name")[0]
    [zone] = [z for z in zones if memory.read(memory.word(z + name), len(ZONE) + 1) == ZONE.encode() + b"\0"]

    def follow(head: int) -> list[int]:
        found, at = [], memory.word(head)
        while at != head:
            found.append((at - link - FRAMES) // frame)
            at = memory.word(at)
        return found

    def lists(order: int) -> list[list[int]]:
        at = zone + areas + order * area
        found = [follow(at + 16 * kind) for kind in range((area - 8) // 16)]
        assert sum(map(len, found)) == memory.word(at + area - 8), "the guest ran meanwhile"
        return found[:TYPES]

    cpu = memory.word(zone + btf.field("zone", "per_cpu_pageset")[0]) + memory.word(symbols["__per_cpu_offset"])
    cpu += btf.field("per_cpu_pages", "lists")[0]
    of_cpu = [[follow(cpu + 16 * (order * TYPES + kind)) for kind in range(TYPES)] for order in range(CPU_ORDERS)]
    return Lists(mebibytes, [lists(order) for order in range(ORDERS)], of_cpu)
