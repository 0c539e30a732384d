"""What the authors of paper 3 published of their measurements (Figures 8 to 11), beside what was found here.

The data are in `data/`, with their source. mTHP and HawkEye are not among them.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeVar

from mmulab.markdown import grid, percent
from mmulab.reproduce.shared.bounds import between
from mmulab.units import parse_bytes

BASE = "4K"
# The figures of fresh and fragmented memory, and of virtual machines.
NATIVE, VIRTUAL = ("8", "11"), ("10",)
# Systems of the experiment, by their names in the data.
SYSTEMS = {"THP": "THP", "online": "+Leshy, online", "offline": "+offline hints, faults"}
T = TypeVar("T")
# A program and a level of fragmentation.
Place = tuple[str, int]


@dataclass(frozen=True)
class Measured:
    """A program's run under one system."""

    cycles: int
    misses: int


@dataclass(frozen=True)
class Here:
    """The same of our own."""

    speedups: tuple[float, ...]
    # Of those under 4K.
    misses: float
    # Translation sizes in percent of what the program has under 4K.
    shares: Mapping[str, float]


def _lines(name: str) -> Iterator[dict[str, str]]:
    text = (resources.files("mmulab.reproduce.elastic") / "data" / name).read_text(encoding="utf-8")
    yield from csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))


@cache
def runs() -> dict[str, dict[Place, dict[str, Measured]]]:
    """By figure, place and system."""
    found: dict[str, dict[Place, dict[str, Measured]]] = {}
    for line in _lines("measured.csv"):
        place = (line["program"], int(line["fragmented_percent"]))
        systems = found.setdefault(line["figure"], {}).setdefault(place, {})
        systems[line["system"]] = Measured(int(line["cycles"]), int(line["l2_tlb_misses"]))
    return found


@cache
def sizes() -> dict[str, dict[str, dict[str, float]]]:
    """By program, system and translation size: percent of what the program has under 4K."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for line in _lines("sizes.csv"):
        pages = {key.removeprefix("pages_"): int(count) for key, count in line.items() if key.startswith("pages_")}
        held = {size: float(count * (parse_bytes(size) or 0)) for size, count in pages.items()}
        found.setdefault(line["program"], {})[line["system"]] = held
    for systems in found.values():
        whole = sum(systems[BASE].values())
        for held in systems.values():
            held.update({size: 100 * size_bytes / whole for size, size_bytes in held.items()})
    return found


def speedup(systems: Mapping[str, Measured], name: str) -> float:
    """Cycles under 4K over those of a system, less 1."""
    return systems[BASE].cycles / systems[name].cycles - 1


def misses(systems: Mapping[str, Measured], name: str) -> float:
    """Misses of the second level, as a share of those under 4K."""
    return systems[name].misses / systems[BASE].misses


def show_shares(shares: Mapping[str, float]) -> str:
    """Translation sizes in percent, but for those of less than half a percent."""
    return ", ".join(f"{size} {share:.0f}" for size, share in shares.items() if share >= 0.5)


def gains(virtual: bool) -> dict[tuple[str, int, str], float]:
    """How much faster programs were than under 4K, by program, level and our name of the system."""
    places = [item for figure in (VIRTUAL if virtual else NATIVE) for item in runs()[figure].items()]
    return {
        (*place, ours): speedup(systems, name)
        for place, systems in places
        for name, ours in SYSTEMS.items()
        if name in systems
    }


def tables(here: Mapping[tuple[str, int, str], Here], virtual: bool) -> dict[str, str]:
    """The published numbers beside ours, by the names of tables on a page; ours by program, level and system."""
    figures = VIRTUAL if virtual else NATIVE
    places = {place: systems for figure in figures for place, systems in runs()[figure].items()}
    found = {
        "paper-time": _grid(here, places, lambda s, name: percent(speedup(s, name)), lambda row: between(row.speedups)),
        "paper-misses": _grid(here, places, lambda s, name: f"{misses(s, name):.1%}", lambda row: f"{row.misses:.1%}"),
    }
    if not virtual:
        fresh = {(program, 0): systems for program, systems in sizes().items()}
        shown = _grid(here, fresh, lambda s, name: show_shares(s[name]), lambda row: show_shares(row.shares))
        found["paper-sizes"] = shown
    return found


def _grid(
    here: Mapping[tuple[str, int, str], Here],
    paper: Mapping[Place, Mapping[str, T]],
    theirs: Callable[[Mapping[str, T], str], str],
    ours: Callable[[Here], str],
) -> str:
    lines = []
    for place, systems in sorted(paper.items(), key=lambda item: _order(here, item[0])):
        rows = {name: here.get((*place, ours_is)) for name, ours_is in SYSTEMS.items()}
        if not any(rows.values()):
            continue
        cells = [
            f"{theirs(systems, name) if name in systems else '–'} / {ours(row) if row else '–'}"
            for name, row in rows.items()
        ]
        lines.append([place[0], f"{place[1]} %", *cells])
    return grid(("program", "fragmented", *(f"{name}, paper / here" for name in SYSTEMS.values())), lines, text=2)


def _order(here: Mapping[tuple[str, int, str], Here], place: Place) -> int:
    """Where a place stands among ours."""
    return next((n for n, key in enumerate(here) if key[:2] == place), len(here))
