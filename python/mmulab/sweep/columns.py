"""Columns of a sweep's tables: their names, units, meanings and values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mmulab.result import LEVEL_NAMES, LEVELS, Result, address


@dataclass(frozen=True)
class Column:
    """One column: `kind` is `int`, `float`, `bool` or `str`."""

    name: str
    kind: str
    unit: str
    meaning: str
    value: Callable[[Any], int | float | bool | str | None]


def _level(level: str) -> list[Column]:
    name = f"{LEVEL_NAMES[level]} TLB"
    return [
        Column(f"{level}_accesses", "int", "lookups", f"lookups in the {name}", lambda r: r.tlb(level)["accesses"]),
        Column(f"{level}_misses", "int", "misses", f"misses of the {name}", lambda r: r.tlb(level)["misses"]),
        Column(
            f"{level}_miss_ratio",
            "float",
            "misses per lookup",
            f"misses of the {name} over its lookups; empty without lookups",
            lambda r: r.tlb(level)["misses"] / r.tlb(level)["accesses"] if r.tlb(level)["accesses"] else None,
        ),
        Column(
            f"{level}_mpki",
            "float",
            "misses per 1000 instructions",
            f"misses of the {name} per 1000 instructions",
            lambda r: r.mpki(level),
        ),
    ]


def _walk_reads(result: Result) -> int:
    return result.walks("instruction")["accesses"] + result.walks("data")["accesses"]


def _faults(result: Result) -> int:
    return sum(int(count) for count in result.counts["kernel"]["faults"].values())


# Of each job, after the values of the axes. Names are the same in every sweep, so that tables can be put together.
COLUMNS: tuple[Column, ...] = (
    Column("complete", "bool", "", "whether the job ran to the end that was asked for", lambda r: r.complete),
    Column("ended", "str", "", "why the job ended: end, limit, or what stopped it", lambda r: r.ended),
    Column("instructions", "int", "instructions", "instructions counted", lambda r: r.instructions),
    Column("references", "int", "references", "data accesses and block fetches", lambda r: r.references),
    *(column for level in LEVELS for column in _level(level)),
    Column("walks", "int", "walks", "page walks", lambda r: r.walk_count),
    Column("walk_reads", "int", "reads", "page-table entries that walks read", _walk_reads),
    Column(
        "accesses_per_walk",
        "float",
        "reads per walk",
        "page-table entries read per walk",
        lambda r: r.accesses_per_walk,
    ),
    Column("page_faults", "int", "faults", "page faults that the kernel served", _faults),
    Column("cycles", "int", "cycles", "all cycles, kernel work included; modelled", lambda r: r.total_cycles),
    Column("user_cycles", "int", "cycles", "cycles without kernel work; modelled", lambda r: r.user_cycles),
    Column(
        "translation_cycles", "int", "cycles", "cycles that translation adds; modelled", lambda r: r.translation_cycles
    ),
    Column(
        "translation_share",
        "float",
        "share of user cycles",
        "translation's share of user time, from 0 to 1; modelled",
        lambda r: r.translation_share,
    ),
    Column(
        "resident_bytes", "int", "bytes", "memory in use at the peak, page cache included", lambda r: r.resident_peak
    ),
    Column("table_bytes", "int", "bytes", "page tables at the peak", lambda r: r.table_peak),
    Column(
        "bloat_bytes",
        "int",
        "bytes",
        "private memory that is resident but was never accessed; empty unless options.touched is set",
        lambda r: r.bloat,
    ),
    Column(
        "energy_nj",
        "float",
        "nanojoules",
        "energy of translation, leakage included; modelled",
        lambda r: float(r.data["energy"]["total_nj"]),
    ),
)


def _region(name: str, kind: str, unit: str, meaning: str, *path: str) -> Column:
    def value(region: dict[str, Any]) -> Any:
        found: Any = region
        for key in path or (name,):
            found = found[key]
        return found

    return Column(name, kind, unit, meaning, value)


# Of each region of a job.
REGION_COLUMNS: tuple[Column, ...] = (
    _region("region", "int", "", "number of the region within its job", "id"),
    _region("pid", "int", "", "process"),
    _region("program", "str", "", "program of the process"),
    _region("region_kind", "str", "", "kind of memory: heap, stack, file and others", "kind"),
    _region("region_name", "str", "", "name of the mapping", "name"),
    Column("first_address", "str", "", "first address, hexadecimal", lambda region: f"{address(region['start']):#x}"),
    _region("l1i_misses", "int", "misses", "misses of the L1 instruction TLB"),
    _region("l1d_misses", "int", "misses", "misses of the L1 data TLB"),
    _region("walks", "int", "walks", "page walks"),
    _region("walk_reads", "int", "reads", "page-table entries that walks read"),
    _region("walk_cycles", "int", "cycles", "latency of all walks"),
    _region("stall_cycles", "int", "cycles", "cycles for which the core stalled on translations; modelled"),
    _region("resident_bytes", "int", "bytes", "memory in use at the peak", "resident", "peak"),
)

# Of each function of a job that keeps a profile (`study.places.Function`).
FUNCTION_COLUMNS: tuple[Column, ...] = (
    Column(
        "function", "str", "", "name of the function; without a symbol, its file and where it begins", lambda f: f.name
    ),
    Column(
        "code_file",
        "str",
        "",
        "file or mapping that the code is in; empty for the sum of all other code",
        lambda f: f.file,
    ),
    Column("is_named", "bool", "", "whether a symbol or the program itself names the function", lambda f: f.known),
    Column(
        "file_offset",
        "int",
        "bytes",
        "where the function begins in its file; empty if that is not known",
        lambda f: f.start,
    ),
    Column("l1_misses", "int", "misses", "misses of the L1 instruction and data TLBs while it ran", lambda f: f.misses),
    Column("walks", "int", "walks", "page walks while it ran, for its instructions and its data", lambda f: f.walks),
    Column(
        "stall_cycles",
        "int",
        "cycles",
        "cycles for which the core stalled on translations; modelled",
        lambda f: f.cycles,
    ),
)

# Of each job, from its description alone (`Areas.cells`).
AREA = Column(
    "tlb_area",
    "float",
    "cells of static memory",
    "area of all TLB arrays of a core; modelled",
    lambda cells: cells,
)

# Names that no axis can have.
RESERVED = frozenset(
    ["job", "key", AREA.name, *(column.name for column in (*COLUMNS, *REGION_COLUMNS, *FUNCTION_COLUMNS))]
)
