"""Memory accesses per TLB miss of random updates, against the closed form: the table and plot of docs/gups-curve.md.

Run it with the Python of the checkout: `.venv/bin/python scripts/gups_curve.py` (some minutes: 256 GiB of 4 KiB pages
are mapped before the first update of them).
"""

import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

from mmulab import engine
from mmulab.result import Result

PAGE = Path(__file__).parents[1] / "docs" / "gups-curve.md"
PLOT = PAGE.with_suffix(".svg")
MIB, GIB = 1 << 20, 1 << 30
SIZES = [64 * MIB << n for n in range(11)]
# What one entry of each level spans: PMD and PUD.
PMD, PUD = 2 * MIB, GIB
# The walk cache of machines/compendia-baseline.toml, and its second-level TLB.
ENTRIES = 64
UPDATES = 300_000
BEGIN, END = "<!-- table: written by scripts/gups_curve.py -->", "<!-- end of table -->"
FOUR_BEGIN, FOUR_END = "<!-- four ways: written by scripts/gups_curve.py -->", "<!-- end of four ways -->"
# Figure 15 of paper 5: 4 KiB pages and huge ones, in a radix tree and in a Compendia table.
FOUR_SIZES = [16 * MIB << n for n in range(15)]
FOUR_WAYS = (("linux-4k", False), ("linux-4k", True), ("linux-thp", False), ("linux-thp", True))
FOUR_UPDATES = 60_000
# Room for the largest footprint and its tables.
ROOM = ("memory.size=320G",)
MERGED = ("table.kind=compendia",)


def closed_form(footprint: int) -> float:
    """Accesses per TLB miss of a footprint, as docs/gups-curve.md derives it."""
    r, g = footprint / PMD, max(1.0, footprint / PUD)
    if r < ENTRIES:
        return 1.0
    # x + 1 - exp(-x) = ENTRIES / g grows with x: halve.
    low, high = 0.0, ENTRIES / g
    for _ in range(100):
        x = (low + high) / 2
        low, high = (x, high) if x + 1 - math.exp(-x) < ENTRIES / g else (low, x)
    q = math.exp(-low)
    m = 1 - (ENTRIES - g * (1 - q)) / r
    return 1 + m * (1 + q)


def run(footprint: int, updates: int, policy: str, sets: tuple[str, ...]) -> Result:
    """Random updates, all pages mapped beforehand: the walk after a fault would find a warm cache."""
    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory, "gups.mmtx")
        engine.trace_copy(f"gen:gups?footprint={footprint}&updates={updates}", str(trace), "text")
        text = trace.read_text(encoding="utf-8")
        trace.write_text(text.replace(" rw anon\n", " rw anon populate\n", 1), encoding="utf-8")
        return engine.run(str(trace), [engine.Job("compendia-baseline", policy, sets)]).results[0]


def measure(footprint: int, updates: int = UPDATES, policy: str = "linux-4k", sets: tuple[str, ...] = ()) -> float:
    """Accesses per miss as the engine counts them."""
    walks = run(footprint, updates, policy, sets).counts["walks"]["data"]
    return float(walks["accesses"] / walks["walks"])


@dataclass(frozen=True)
class Way:
    """What one of the four ways came to."""

    accesses: float
    misses: float
    table_bytes: int
    merges: int

    def cell(self) -> str:
        """For the table."""
        return f"{self.accesses:.3f}"


def measure_way(footprint: int, policy: str, merged: bool) -> Way:
    """One cell of figure 15, and what it took."""
    result = run(footprint, FOUR_UPDATES, policy, ROOM + (MERGED if merged else ()))
    walks, memory = result.counts["walks"]["data"], result.counts["memory"]
    return Way(
        walks["accesses"] / walks["walks"],
        walks["walks"] / FOUR_UPDATES,
        memory["table_bytes"],
        sum(memory["tables"]["merges"].values()),
    )


def four_ways() -> str:
    """The second table of the page."""
    lines = [
        "| footprint | 4 KiB | Compendia | THP | Compendia on THP | tables, 4 KiB | with Compendia | merges |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for size in FOUR_SIZES:
        ways = [measure_way(size, policy, merged) for policy, merged in FOUR_WAYS]
        print(f"{label(size):>8}", *(way.cell() for way in ways), file=sys.stderr)
        cells = " | ".join(way.cell() for way in ways)
        tables = " | ".join(f"{way.table_bytes / MIB:.2f} MiB" for way in ways[:2])
        lines.append(f"| {label(size)} | {cells} | {tables} | {ways[1].merges} |")
    return "\n".join(lines)


def label(footprint: int) -> str:
    """A size in words."""
    return f"{footprint // GIB} GiB" if footprint >= GIB else f"{footprint // MIB} MiB"


def table(measured: list[float]) -> str:
    """The table of the page."""
    lines = [
        "| footprint | PMD entries | PUD entries | measured | closed form | difference |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for size, value in zip(SIZES, measured, strict=True):
        form = closed_form(size)
        entries = f"{size // PMD} | {max(1, size // PUD)}"
        lines.append(f"| {label(size)} | {entries} | {value:.3f} | {form:.3f} | {value / form - 1:+.1%} |")
    return "\n".join(lines)


def plot(measured: list[float]) -> None:
    """The plot of the page. The same data give the same file."""
    plt.rcParams.update({"svg.hashsalt": "mmulab", "svg.fonttype": "none", "font.size": 9})
    figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    fine = [64 * MIB * 2 ** (n / 8) for n in range(81)]
    axes.plot(fine, [closed_form(int(size)) for size in fine], color="#888888", linewidth=1, label="closed form")
    axes.plot(SIZES, measured, "o", color="#1f5fa8", markersize=4, label="measured")
    axes.set_xscale("log", base=2)
    axes.set_xticks(SIZES, [label(size) for size in SIZES], rotation=45)
    axes.set_ylim(0.9, 2.7)
    axes.set_ylabel("memory accesses per TLB miss")
    axes.set_xlabel("table of random updates, 4 KiB pages")
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False, loc="upper left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(PLOT, metadata={"Date": None, "Creator": None})


def main() -> None:
    """Measures, and writes table and plot."""
    measured = []
    for size in SIZES:
        measured.append(measure(size))
        print(f"{label(size):>8}  {measured[-1]:.3f}  {closed_form(size):.3f}", file=sys.stderr)
    text = PAGE.read_text(encoding="utf-8")
    for begin, end, body in ((BEGIN, END, table(measured)), (FOUR_BEGIN, FOUR_END, four_ways())):
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{body}\n{end}{after}"
    PAGE.write_text(text, encoding="utf-8")
    plot(measured)


if __name__ == "__main__":
    main()
