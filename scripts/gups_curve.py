"""Memory accesses per TLB miss of random updates, against the closed form: the table and plot of docs/gups-curve.md.

Run it with the Python of the checkout: `.venv/bin/python scripts/gups_curve.py` (half a minute).
"""

import math
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

from mmulab import engine

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


def measure(footprint: int, updates: int = UPDATES, policy: str = "linux-4k", sets: tuple[str, ...] = ()) -> float:
    """The same as the engine counts it, all pages mapped beforehand: the walk after a fault would find a warm cache."""
    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory, "gups.mmtx")
        engine.trace_copy(f"gen:gups?footprint={footprint}&updates={updates}", str(trace), "text")
        text = trace.read_text(encoding="utf-8")
        trace.write_text(text.replace(" rw anon\n", " rw anon populate\n", 1), encoding="utf-8")
        result = engine.run(str(trace), [engine.Job("compendia-baseline", policy, sets)]).results[0]
    walks = result.counts["walks"]["data"]
    return float(walks["accesses"] / walks["walks"])


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
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(measured)}\n{END}{after}", encoding="utf-8")
    plot(measured)


if __name__ == "__main__":
    main()
