"""Heat maps of an address space (Figures 3 and 7 of paper 3): TLB misses and accessed bits by 2 MiB, with hints.

Mapped memory is a small part of an address space, so bins without samples are left out. Bins that are neighbours in the
plot may be far apart. A line stands where addresses jump by more than a gigabyte.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

from mmulab import engine, svg
from mmulab.engine import Json
from mmulab.result import address
from mmulab.study.places import size_bytes

_BIN = 2 << 20
# Where the distance between two bins with samples is drawn as a line.
_JUMP = 1 << 30
_COLOURS = {"64K": "#2e7d4f", "2M": "#c2571a", "32M": "#8a3f8f", "1G": "#777777"}


def heat_map(misses: Path, accessed: Path | None, hints: list[Json]) -> str:
    """The plot as SVG."""
    panels: list[tuple[str, list[Json]]] = [("TLB misses", engine.leshy_heat(str(misses), "2M"))]
    if accessed is not None:
        panels.append(("epochs in which pages were accessed", engine.leshy_heat(str(accessed), "2M")))
    places = sorted({(row["pid"], row["start"]) for _, rows in panels for row in rows})
    at = {place: n for n, place in enumerate(places)}
    figure, row = svg.start(len(panels), 5.2 * len(panels), 3.2)
    axes = list(row[0])
    for (title, rows), one in zip(panels, axes, strict=True):
        total = sum(row["misses"] for row in rows) or 1
        shares = [0.0] * len(places)
        for found in rows:
            shares[at[found["pid"], found["start"]]] = 100 * found["misses"] / total
        one.fill_between(range(len(places)), shares, step="mid", color=svg.COLOURS[0], linewidth=0)
        one.set_title(f"{title} by 2 MB")
        one.set_xlabel("2 MB bins with samples, by address")
        one.set_ylabel("share (%)")
        one.set_xlim(-0.5, max(len(places) - 0.5, 0.5))
        top = max(shares, default=1.0) or 1.0
        one.set_ylim(-0.16 * top, 1.05 * top)
        for n, (before, after) in enumerate(pairwise(places)):
            if before[0] != after[0] or after[1] - before[1] > _JUMP:
                one.axvline(n + 0.5, color=svg.GRID, linewidth=0.6)
        _draw_hints(one, hints, places, top)
    return svg.finish(figure, axes, legend="upper right")


def _draw_hints(axes: Any, hints: list[Json], places: list[tuple[int, int]], top: float) -> None:
    """A bar below the bins that a hint covers, in a lane for each size."""
    lanes: dict[str, list[tuple[float, float]]] = {}
    by_pid: dict[int, list[tuple[int, int]]] = {}
    for n, (pid, start) in enumerate(places):
        by_pid.setdefault(pid, []).append((start, n))
    for hint in hints:
        start, length = address(hint["start"]), size_bytes(hint["size"])
        inside = [n for at, n in by_pid.get(hint["pid"], []) if at < start + length and start < at + _BIN]
        if inside:
            lanes.setdefault(hint["size"], []).append((min(inside) - 0.5, max(inside) - min(inside) + 1.0))
    for lane, size in enumerate(sorted(lanes, key=size_bytes)):
        bottom = -0.05 * top * (lane + 1)
        label = f"{len(lanes[size]):,} hints of {size}"
        axes.broken_barh(
            lanes[size], (bottom, 0.04 * top), facecolors=_COLOURS.get(size, "#000000"), label=label, linewidth=0
        )
