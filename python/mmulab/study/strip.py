"""Code that ran and data that were accessed, window by window, as SVG: rows are places, columns parts of the run."""

from bisect import bisect_left
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from mmulab.result import Result, address
from mmulab.units import show_bytes, show_count

# Bytes of a row of code as the engine gives it, and of a page of it. The third are those of a row of data, which has no
# parts.
ROW_BYTES, PAGE_BYTES = 64 << 10, 4 << 10
BLOCK_BYTES = 2 << 20
# Rows that are drawn at most; a row stands for twice as much until they fit.
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
    """A place in a file, or in memory without one, and by window how many of its parts were used."""

    name: str
    offset: int
    pages: tuple[int, ...]


@dataclass(frozen=True)
class Strip:
    """What was used, by place and by part of the run: pages of code, or blocks of data."""

    instructions: int
    pages: tuple[int, ...]
    total: int
    rows: tuple[Row, ...]
    row_bytes: int
    part_bytes: int = PAGE_BYTES

    @property
    def peak(self) -> int:
        """Parts of the window with the most."""
        return max(self.pages)

    @property
    def mean(self) -> float:
        """Parts of a window on average."""
        return sum(self.pages) / len(self.pages)


def strip(windows: dict[str, Any], result: Result) -> Strip:
    """The strip of a run: its windows, with names by the regions of a result."""
    found: dict[Key, list[int]] = {}
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
        _put(found, (name, offset // ROW_BYTES), list(row["pages"]))
    rows, row_bytes = _fitted(found, ROW_BYTES)
    return Strip(int(windows["instructions"]), tuple(windows["pages"]), int(windows["total_pages"]), rows, row_bytes)


def data_strip(windows: dict[str, Any], result: Result) -> Strip | None:
    """The same of data, in blocks of 2 MB; None if there are none. The curve has the blocks that are listed."""
    count = len(windows["pages"])
    named = _names_of_blocks(windows["blocks"], result)
    found: dict[Key, list[int]] = {}
    pages = [0] * count
    for block, key in zip(windows["blocks"], named, strict=True):
        bits = int(block["windows"], 16)
        used = [bits >> window & 1 for window in range(count)]
        pages = [a + b for a, b in zip(pages, used, strict=True)]
        _put(found, key, used)
    if not found or not max(pages):
        return None
    rows, row_bytes = _fitted(found, BLOCK_BYTES)
    total = int(windows["total_blocks"])
    return Strip(int(windows["instructions"]), tuple(pages), total, rows, row_bytes, BLOCK_BYTES)


# A name, and which row of the file or memory of that name.
Key = tuple[str, int]


def _names_of_blocks(blocks: list[dict[str, Any]], result: Result) -> list[Key]:
    """By block: what lies there, by the mapping that holds most of it; the newest of those that hold as much."""
    at = {(int(s["pid"]), int(s["addr"])): i for i, s in enumerate(blocks)}
    starts: dict[int, list[int]] = {}
    for pid, start in sorted(at):
        starts.setdefault(pid, []).append(start)
    keys: list[Key] = [("other memory", int(s["addr"]) // BLOCK_BYTES) for s in blocks]
    most = [0] * len(blocks)
    for region in result.regions:
        first, end = address(region["start"]), address(region["end"])
        own = starts.get(int(region["pid"]), []) if not region.get("vm") else []
        for start in own[bisect_left(own, first - BLOCK_BYTES + 1) : bisect_left(own, end)]:
            i, shared = at[int(region["pid"]), start], min(end, start + BLOCK_BYTES) - max(first, start)
            if shared < most[i]:
                continue
            most[i] = shared
            if region.get("file"):
                name, offset = Path(str(region["file"])).name, max(0, start - first + int(region["offset"]))
            else:
                name, offset = str(region["name"]).replace("anon", "anonymous memory", 1), start
            keys[i] = (name, offset // BLOCK_BYTES)
    return keys


def _put(found: dict[Key, list[int]], key: Key, pages: list[int]) -> None:
    """Processes that use the same place share a row: the one that used most of it counts."""
    known = found.setdefault(key, [0] * len(pages))
    found[key] = [max(a, b) for a, b in zip(known, pages, strict=True)]


def _fitted(found: dict[Key, list[int]], row_bytes: int) -> tuple[tuple[Row, ...], int]:
    """No more rows than can be drawn, those of the names with the most first; and the bytes of one."""
    scale = 1
    while len({(name, number // scale) for name, number in found}) > ROWS and scale < 1 << 40:
        scale *= 2
    rows: dict[Key, list[int]] = {}
    for (name, number), pages in found.items():
        known = rows.setdefault((name, number // scale), [0] * len(pages))
        rows[name, number // scale] = [a + b for a, b in zip(known, pages, strict=True)]
    weight: dict[str, int] = {}
    for (name, _), pages in rows.items():
        weight[name] = weight.get(name, 0) + sum(pages)
    order = sorted(rows, key=lambda key: (-weight[key[0]], key))
    listed = (Row(name, number * scale * row_bytes, tuple(rows[name, number])) for name, number in order)
    return tuple(listed), scale * row_bytes


def svg(drawn: Strip) -> str:
    """The drawing, in the colours of the page it stands in."""
    columns, most = len(drawn.pages), drawn.row_bytes // drawn.part_bytes
    parts, label = (
        ("pages", "Pages of code that ran")
        if drawn.part_bytes == PAGE_BYTES
        else (
            f"blocks of {show_bytes(drawn.part_bytes)}",
            "Memory that data accesses used",
        )
    )
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
            f'<svg role="img" aria-label="{label}, by part of the run" viewBox="0 0 {WIDTH} {height}">',
            f'<polyline points="{points}" style="fill: none; stroke: var(--series-1)"/>',
            f'<text x="0" y="{GAP}" {_TEXT}>{drawn.peak:,} {parts} at most</text>',
            f'<text x="0" y="{CURVE}" {_TEXT}>0</text>',
            *(
                f'<path d="{"".join(path)}" style="fill: var(--series-0); fill-opacity: {shade}"/>'
                for shade, path in paths.items()
                if path
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
    """What the strip shows, in two sentences."""
    window = (
        f"in a window of {show_count(drawn.instructions)} instructions {drawn.mean:,.0f} on average, {drawn.peak:,}"
    )
    if drawn.part_bytes == PAGE_BYTES:
        pages = "page" if drawn.total == 1 else "pages"
        return (
            f"{drawn.total:,} {pages} of code ran ({show_bytes(drawn.total << 12)}); {window} at most. "
            f"A row is {show_bytes(drawn.row_bytes)} of code."
        )
    return (
        f"Data accesses used {drawn.total:,} blocks of {show_bytes(drawn.part_bytes)}; {window} at most. "
        f"A row is {show_bytes(drawn.row_bytes)} of memory."
    )
