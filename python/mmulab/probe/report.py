"""A probe as text: the machine, its figures, and the reasons why some are missing."""

from math import log
from typing import Any

from rich.console import Console
from rich.table import Table

from mmulab.probe.modelled import Point
from mmulab.tables import plain
from mmulab.units import show_bytes, show_percent

Json = dict[str, Any]
# Noise of a curve's repeats from which on the reader is warned.
NOISY = 0.1
# Points of curves agree within this factor.
NEAR = 1.25
# Names for readers; figures that are not listed keep their key.
NAMES = {
    "frequency_mhz": "clock",
    "l1d_bytes": "first-level data cache",
    "l1d_cycles": "  a hit",
    "l2_bytes": "second-level cache",
    "l2_cycles": "  a hit",
    "l3_bytes": "third-level cache",
    "l3_cycles": "  a hit",
    "caches_bytes": "all caches together, by loads at once",
    "l2_left_bytes": "second-level cache, beside neighbours",
    "l3_fresh_admits": "lines from memory that the third level takes in",
    "l3_fresh_retention_cycles": "  such a line that nobody uses stays for",
    "l3_stream_displaces": "used lines of it that a stream of such lines displaces",
    "memory_cycles": "memory, dependent loads",
    "memory_ns": "  the same in ns",
    "l1d_retention_cycles": "an unused line of the first-level cache stays for",
    "l1d_retention_shape": "  shape: 1 if lines go at random",
    "l2_retention_cycles": "an unused line of the second-level cache stays for",
    "l2_retention_shape": "  shape: 1 if lines go at random",
    "l3_retention_cycles": "an unused line of the third-level cache stays for",
    "l3_retention_shape": "  shape: 1 if lines go at random",
    "memory_alone_cycles": "memory, without walks",
    "memory_slow_cycles": "  one load in a hundred takes longer than",
    "memory_outstanding": "loads of memory at once",
    "stream_cycles": "  dependent loads of lines one after the other",
    "stride_cycles": "  dependent loads with another stride",
    "region_lines": "  lines within which the next one is brought along",
    "window": "instructions in flight with a load of memory",
    "ints_in_flight": "  additions alone: registers",
    "vectors_in_flight": "  additions of vectors alone: their registers",
    "loads_in_flight": "  loads alone",
    "stores_in_flight": "  stores alone",
    "adds_at_once": "independent adds in a cycle",
    "loads_at_once": "  loads",
    "stores_at_once": "  stores",
    "vectors_at_once": "  adds of vector registers",
    "mixed_at_once": "  all of these but stores, in turn",
    "branch_targets": "taken branches that the front end knows",
    "jump_cycles": "a jump that it does not know",
    "l1_dtlb_entries_4k": "first-level data TLB, 4 KB pages",
    "l2_tlb_entries_4k": "second-level TLB, 4 KB pages",
    "l2_tlb_hit_cycles_4k": "  a hit costs",
    "walk_cycles_4k": "  a walk costs",
    "l1_dtlb_entries_2m": "first-level data TLB, 2 MB pages",
    "l2_tlb_entries_2m": "second-level TLB, 2 MB pages",
    "l2_tlb_hit_cycles_2m": "  a hit costs",
    "walk_cycles_2m": "  a walk costs",
    "large_entries": "2 MB pages that have one TLB entry",
    "walks_overlapped_4k": "walks at once, 4 KB pages",
    "walks_overlapped_2m": "walks at once, 2 MB pages",
    "walk_far_cycles_4k": "a walk, pages in random order",
    "walk_near_cycles_4k": "  eight neighbours after each other",
    "walk_near_cycles_2m": "  the same within 2 MB pages",
    "walks_of_loads_4k": "  at once, by independent loads",
    "walk_of_loads_cycles_4k": "  from one to the next, by independent loads",
    "walk_cache_reach_bytes": "reach of the walk cache",
    "walk_cache_miss_cycles": "  a walk beyond it costs more by",
}


def show(value: float, unit: str) -> str:
    """A figure with its unit."""
    if unit == "bytes":
        return show_bytes(value)
    if unit == "share":
        return show_percent(value)
    if unit == "entries":
        return f"{value:,.0f}"
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return text if unit == "at once" else f"{text} {unit}"


def _range(pair: list[float] | None, unit: str) -> str:
    return f"{show(pair[0], unit)} to {show(pair[1], unit)}" if pair else ""


def table(figures: list[Json]) -> Table:
    """One row a figure."""
    made = plain()
    made.add_column("figure", no_wrap=True)
    for name in ("value", "95 % of resamples", "blur of the knee"):
        made.add_column(name, justify="right", no_wrap=True)
    for name in ("confidence", "curve"):
        made.add_column(name, no_wrap=True)
    for figure in figures:
        unit, value = figure["unit"], figure["value"]
        made.add_row(
            NAMES.get(figure["name"], figure["name"]),
            "not found" if value is None else show(value, unit),
            _range(figure["interval"], unit),
            _range(figure["blur"], unit),
            "" if value is None else figure["confidence"],
            figure["curve"],
        )
    return made


def walks(compared: list[Json]) -> Table:
    """The chases of walks on this computer, and on its description."""
    made = plain()
    made.add_column("walks", no_wrap=True)
    for name in ("pages", "cycles, timed", "modelled", "ratio"):
        made.add_column(name, justify="right", no_wrap=True)
    for one in compared:
        timed, modelled = one["timed"], one["modelled"]
        made.add_row(one["curve"], f"{one['pages']:,}", f"{timed:.0f}", f"{modelled:.0f}", f"{modelled / timed:.2f}")
    return made


def modelled(curves: dict[str, list[Point]]) -> Table:
    """How far the description's curves are from the computer's."""
    made = plain()
    made.add_column("curve", no_wrap=True)
    for name in ("points", "within 25 %", "furthest at", "cycles, timed", "modelled", "ratio"):
        made.add_column(name, justify="right", no_wrap=True)
    for name, points in curves.items():
        if not points:
            continue
        worst = max(points, key=lambda p: abs(log(p.ratio)))
        near = sum(abs(log(p.ratio)) <= log(NEAR) for p in points)
        at = show(worst.x, "bytes") if name == "footprint" else f"{worst.x:,} pages"
        figures = [f"{worst.timed:.1f}", f"{worst.modelled:.1f}", f"{worst.ratio:.2f}"]
        made.add_row(name, str(len(points)), str(near), at, *figures)
    return made


def headline(system: Json) -> str:
    """The processor, and whether it is a virtual machine."""
    p = system["processor"]
    name = p["name"] or "unnamed processor"
    identity = f"{p['vendor']} family {p['family']} model {p['model']} stepping {p['stepping']}"
    if p["hypervisor"]:
        where = f"a virtual machine ({p['hypervisor']}): nested paging is in the cost of walks"
    else:
        where = "no sign of a hypervisor"
    return f"{name} ({identity}), {p['cpus']} CPUs, {show_bytes(p['memory_bytes'])}; {where}"


def remarks(probe: Json) -> list[str]:
    """What a reader must know beside the table."""
    figures = {f["name"]: f for f in probe["figures"]}
    found = [f"{NAMES.get(k, k).strip()}: {f['note']}" for k, f in figures.items() if f["value"] is None]
    # Of a size and a cost that miss for one reason, once.
    found = list({text.partition(": ")[2]: text for text in reversed(found)}.values())[::-1]
    large = figures.get("large_entries", {}).get("value")
    if large is not None:
        found.insert(0, _large(large, bool(probe["system"]["processor"]["hypervisor"])))
    return found


def _large(share: float, virtual: bool) -> str:
    if share >= 0.5:
        return "2 MB entries exist: lines in many base pages of a large page cost no second-level hits."
    cause = "the host backs this guest with small pages" if virtual else "the processor splits them"
    return (
        f"2 MB entries do not exist here: lines in one large page cost a TLB entry for each base page ({cause}). "
        "Large pages then save a part of each walk, not the misses, and the figures for 2 MB pages count base pages."
    )


def noisy(probe: Json) -> dict[str, float]:
    """Curves whose repeats scatter."""
    return {name: noise for name, noise in probe["noise"].items() if noise is not None and noise > NOISY}


def print_probe(out: Console, probe: Json) -> None:
    """All of it."""
    out.print(headline(probe["system"]), markup=False, soft_wrap=True)
    out.print()
    out.print(table(probe["figures"]))
    for text in remarks(probe):
        out.print(text, markup=False, soft_wrap=True)
    if probe["walks"]:
        out.print()
        out.print(walks(probe["walks"]))
