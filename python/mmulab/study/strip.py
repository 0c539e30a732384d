"""The pages of code that ran, window by window, as an SVG strip: rows are places of code, columns parts of the run."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from mmulab.result import Result, address
from mmulab.units import show_bytes, show_count

# Bytes and pages of a row as the engine gives it.
ROW_BYTES, ROW_PAGES = 64 << 10, 16
# Rows that are drawn at most; a row stands for twice as much code until they fit.
ROWS = 96
# Shades, by the share of a row's pages that ran.
SHADES = (0.25, 0.5, 0.75, 1.0)
# Height of a label, in units of the drawing.
LABEL = 9
_TEXT = 'style="font-size: 8px; fill: var(--ink)"'
# In units of the drawing: the strip, its labels, the curve above it.
WIDTH, LABELS, CURVE, ROW, GAP = 760, 200, 90, 6, 14


@dataclass(frozen=True)
class Row:
    """Code of a file, or of memory without one."""

    name: str
    offset: int
    pages: tuple[int, ...]


@dataclass(frozen=True)
class Strip:
    """The code that ran, by place and by part of the run."""

    instructions: int
    pages: tuple[int, ...]
    total: int
    rows: tuple[Row, ...]
    row_bytes: int

    @property
    def peak(self) -> int:
        """Pages of the window with the most."""
        return max(self.pages)

    @property
    def mean(self) -> float:
        """Pages of a window on average."""
        return sum(self.pages) / len(self.pages)


def strip(windows: dict[str, Any], result: Result) -> Strip:
    """The strip of a run: its windows, with names by the regions of a result."""
    found: dict[tuple[str, int], list[int]] = {}
    regions = [r for r in result.regions if not r.get("vm")]
    for row in windows["rows"]:
        start = int(row["addr"])
        # The newest mapping that holds any of it: a program that was started later has other code at the same place.
        inside = (
            r
            for r in reversed(regions)
            if r["pid"] == row["pid"] and address(r["start"]) < start + ROW_BYTES and start < address(r["end"])
        )
        region = next(inside, None)
        if region is None:
            name, offset = "other code", 0
        elif region.get("file"):
            name = Path(str(region["file"])).name
            offset = max(0, start - address(region["start"]) + int(region["offset"]))
        else:
            name, offset = str(region["name"]), start
        key = (name, offset // ROW_BYTES)
        # Processes that run the same code share a row: the one that ran most of it counts.
        known = found.setdefault(key, [0] * len(row["pages"]))
        found[key] = [max(a, b) for a, b in zip(known, row["pages"], strict=True)]
    scale = 1
    while len({(name, number // scale) for name, number in found}) > ROWS and scale < 1 << 20:
        scale *= 2
    rows: dict[tuple[str, int], list[int]] = {}
    for (name, number), pages in found.items():
        known = rows.setdefault((name, number // scale), [0] * len(pages))
        rows[name, number // scale] = [a + b for a, b in zip(known, pages, strict=True)]
    weight: dict[str, int] = {}
    for (name, _), pages in rows.items():
        weight[name] = weight.get(name, 0) + sum(pages)
    order = sorted(rows, key=lambda key: (-weight[key[0]], key))
    return Strip(
        int(windows["instructions"]),
        tuple(windows["pages"]),
        int(windows["total_pages"]),
        tuple(Row(name, number * scale * ROW_BYTES, tuple(rows[name, number])) for name, number in order),
        scale * ROW_BYTES,
    )


def svg(drawn: Strip) -> str:
    """The drawing, in the colours of the page it stands in."""
    columns, most = len(drawn.pages), ROW_PAGES * (drawn.row_bytes // ROW_BYTES)
    step = (WIDTH - LABELS) / columns
    height = CURVE + GAP + ROW * len(drawn.rows) + 2 * GAP
    paths: dict[float, list[str]] = {shade: [] for shade in SHADES}
    labels, before, below = [], "", 0
    for number, row in enumerate(drawn.rows):
        y = CURVE + GAP + ROW * number
        if row.name != before and y + ROW >= below:
            # A name that would be written over the one above is left out: its file has a row or two.
            below = y + ROW + LABEL
            labels.append(f'<text x="0" y="{y + ROW}" {_TEXT}>{escape(row.name[:34])}</text>')
        before = row.name
        for column, shade, width in _runs(row.pages, most):
            paths[shade].append(f"M{LABELS + column * step:.1f} {y}h{width * step:.1f}v{ROW - 1}h-{width * step:.1f}z")
    points = " ".join(
        f"{LABELS + (column + 0.5) * step:.1f},{CURVE - (CURVE - GAP) * pages / max(drawn.peak, 1):.1f}"
        for column, pages in enumerate(drawn.pages)
    )
    shown = f"{show_count(drawn.instructions * columns)} instructions"
    return "".join(
        [
            f'<svg role="img" aria-label="Pages of code that ran, by part of the run" viewBox="0 0 {WIDTH} {height}">',
            f'<polyline points="{points}" style="fill: none; stroke: var(--series-1)"/>',
            f'<text x="0" y="{GAP}" {_TEXT}>{drawn.peak:,} pages at most</text>',
            f'<text x="0" y="{CURVE}" {_TEXT}>0</text>',
            *(
                f'<path d="{"".join(parts)}" style="fill: var(--series-0); fill-opacity: {shade}"/>'
                for shade, parts in paths.items()
                if parts
            ),
            *labels,
            f'<text x="{LABELS}" y="{height - 4}" {_TEXT}>0</text>',
            f'<text x="{WIDTH}" y="{height - 4}" text-anchor="end" {_TEXT}>{shown}</text>',
            "</svg>",
        ]
    )


def _runs(pages: tuple[int, ...], most: int) -> list[tuple[int, float, int]]:
    """Windows next to each other with one shade: the first, the shade, how many."""
    shades = [next((s for s in SHADES if count <= s * most), SHADES[-1]) if count else 0.0 for count in pages]
    found: list[tuple[int, float, int]] = []
    for column, shade in enumerate(shades):
        if found and found[-1][1] == shade and sum(found[-1][::2]) == column:
            found[-1] = (found[-1][0], shade, found[-1][2] + 1)
        elif shade:
            found.append((column, shade, 1))
    return found


def words(drawn: Strip) -> str:
    """What the strip shows, in a sentence."""
    return (
        f"{drawn.total:,} pages of code ran ({show_bytes(drawn.total << 12)}); in a window of "
        f"{show_count(drawn.instructions)} instructions {drawn.mean:,.0f} on average, {drawn.peak:,} at most. "
        f"A row is {show_bytes(drawn.row_bytes)} of code."
    )
