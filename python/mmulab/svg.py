"""Plots of experiments as SVG. The same data give the same file."""

import io
from collections.abc import Iterable
from typing import Any

COLOURS = ("#1f5fa8", "#c2571a", "#2e7d4f", "#8a3f8f", "#777777")
GRID = "#dddddd"


def start(panels: int, width: float, height: float, rows: int = 1) -> tuple[Any, Any]:
    """A figure, and its axes by row: `panels` in each."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "mmulab", "svg.fonttype": "none", "font.size": 9})
    return plt.subplots(rows, panels, figsize=(width, height), layout="constrained", squeeze=False)


def finish(figure: Any, axes: Iterable[Any], legend: str = "upper left", lines: str = "y") -> str:
    """The figure, with grids and legends."""
    import matplotlib.pyplot as plt

    for one in axes:
        one.grid(axis=lines, color=GRID, linewidth=0.6)
        if one.get_legend_handles_labels()[0]:
            one.legend(frameon=False, loc=legend, fontsize=8)
        for side in ("top", "right"):
            one.spines[side].set_visible(False)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return text.getvalue()
