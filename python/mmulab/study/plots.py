"""Plots as SVG text that stands in the report itself and takes its colours from the page.

Policies differ by colour and by hatch, so that neither colour vision nor a colour printer is needed. The colours are
the eight of Okabe and Ito, "Color Universal Design" (2008, jfly.uni-koeln.de/color); report.css has them.
"""

import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmulab import sampling
from mmulab.result import Result
from mmulab.study.outcome import Outcome
from mmulab.study.plan import BASELINE
from mmulab.study.verdict import saved_on
from mmulab.units import show_rate

# Placeholders that become CSS variables, so that the plots follow the page's light or dark scheme.
_INK = "#010203"
_FAINT = "#040506"
SERIES = ("#111213", "#212223", "#313233", "#414243", "#515253", "#616263", "#717273", "#818283")
# Of lines alone: the SVG of dots is a hundred times as long.
HATCHES = ("", "//", "++", "\\\\", "xx", "--", "||", "/-")
_VARIABLES = {_INK: "var(--ink)", _FAINT: "var(--line)", **{c: f"var(--series-{i})" for i, c in enumerate(SERIES)}}

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "svg.fonttype": "none",  # text stays text: selectable, searchable, in the page's own font
    "svg.hashsalt": "mmulab",  # the same study gives the same bytes
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlecolor": _INK,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.grid.axis": "x",
    "axes.axisbelow": True,
    "grid.color": _FAINT,
    "grid.linewidth": 0.6,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "xtick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "hatch.linewidth": 0.6,
    "patch.linewidth": 0.5,
}

BAR = 0.8
# Whiskers.
_WHISKER: Any = {"elinewidth": 0.9, "capsize": 2, "ecolor": _INK}

# From and to.
Interval = tuple[float, float]


def _mark(number: int) -> dict[str, Any]:
    """Colour and hatch of a series: 64 pairs before one repeats."""
    colours, hatches = len(SERIES), len(HATCHES)
    hatch = HATCHES[(number + number // colours) % hatches]
    return {"color": SERIES[number % colours], "hatch": hatch, "edgecolor": _INK}


def _svg(figure: Figure, label: str) -> str:
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None, "Creator": None}
    )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    # Presentation attributes do not take variables everywhere; styles do, and matplotlib writes styles.
    text = re.sub(r'font: ([\d.]+)px [^;"]*', r"font-size: \1px", text)
    return _compact(text).replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _compact(svg: str) -> str:
    """A quarter as long, and the same picture to a tenth of a point, in the page's own fonts."""
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(?<=["; ])(font-family|stroke-line(join|cap)): [^;"]*(; )?', "", svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    svg = re.sub(r'(?<= )(d|x|y|width|height|viewBox|transform)="[^"]*"', _rounded, svg)
    svg = re.sub(r'style="[^"]*"', lambda style: re.sub(r'; ?(?=")|([:;]) ', r"\1", style[0]), svg)
    # Backgrounds that are not painted.
    svg = re.sub(r'<path d="[^"]*" style="fill:none"/>', "", svg)
    # Each picture of a page has the same names for its groups, and nothing refers to them.
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    if "<g " not in svg:
        svg = re.sub(r"</?g/?>", "", svg)
    return re.sub(r">\s+<", "><", svg)


def _rounded(attribute: re.Match[str]) -> str:
    numbers = re.sub(r"-?\d+\.\d+", lambda n: f"{float(n[0]):.1f}".rstrip("0").rstrip("."), attribute[0])
    return re.sub(r"\s+", " ", numbers)


def _bars(
    axes: Axes,
    outcome: Outcome,
    value: Callable[[Result], float],
    show: Callable[[float], str],
    interval: Callable[[Result], Interval | None] | None = None,
) -> None:
    """A bar for each policy on each machine; `interval` gives its whisker."""
    machines = list(outcome.machines)
    height = BAR / len(outcome.policies)
    for i, policy in enumerate(outcome.policies):
        found = [next((r for r in outcome.machines[m] if r.policy == policy), None) for m in machines]
        values = [value(r) if r else 0.0 for r in found]
        whiskers: dict[str, Any] = {}
        if interval is not None:
            ends = [(interval(r) if r else None) or (v, v) for r, v in zip(found, values, strict=True)]
            below = [max(0.0, v - low) for v, (low, _) in zip(values, ends, strict=True)]
            above = [max(0.0, high - v) for v, (_, high) in zip(values, ends, strict=True)]
            whiskers = {"xerr": [below, above], "error_kw": _WHISKER} if any((*below, *above)) else {}
        places = [y + i * height for y in range(len(machines))]
        bars = axes.barh(places, values, height * 0.9, label=policy, **_mark(i), **whiskers)
        axes.bar_label(bars, [show(v) for v in values], padding=3, fontsize=7)
    axes.set_yticks([y + BAR / 2 - height / 2 for y in range(len(machines))], machines)
    # Set rather than inverted: panels share this axis, and two inversions are none.
    axes.set_ylim(len(machines) - height / 2, -height)
    axes.tick_params(length=0)
    axes.margins(x=0.18)


def _height(outcome: Outcome) -> float:
    return 0.5 + len(outcome.machines) * (0.2 + 0.17 * len(outcome.policies))


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="upper right", ncols=len(labels), bbox_to_anchor=(1.0, 1.0 + 0.28 / figure.get_figheight())
    )


def misses(outcome: Outcome) -> str:
    """Misses per 1000 instructions at each level, one panel each, all with one scale."""
    panels = (("l1i", "L1 instruction"), ("l1d", "L1 data"), ("l2i", "L2 instruction"), ("l2d", "L2 data"))
    with rc_context(_STYLE):
        figure = Figure(figsize=(9.6, 2 * _height(outcome)), layout="constrained")
        grid = figure.subplots(2, 2, sharex=True, sharey=True)
        for axes, (level, title) in zip(grid.flat, panels, strict=True):
            _bars(axes, outcome, partial(Result.mpki, level=level), show_rate)
            axes.set_title(f"{title} TLB")
            axes.set_xlabel("misses per 1000 instructions")
        _legend(figure, grid.flat[0])
        return _svg(figure, "Misses per 1000 instructions at each TLB level")


def time(outcome: Outcome) -> str:
    """What translation takes of user time, and what each policy saves of it, with what is known of their intervals."""
    panels: tuple[tuple[str, Callable[[Result], float], Callable[[Result], Interval | None]], ...] = (
        ("Translation takes", lambda r: 100 * r.translation_share, _share_interval),
        (f"Saved over {BASELINE}", lambda r: 100 * outcome.gain(r).user, partial(_saved_interval, outcome)),
    )
    with rc_context(_STYLE):
        figure = Figure(figsize=(9.6, _height(outcome)), layout="constrained")
        grid = figure.subplots(1, 2, sharey=True)
        for axes, (title, value, interval) in zip(grid, panels, strict=True):
            _bars(axes, outcome, value, lambda percent: f"{percent:.1f}".replace("-", "−"), interval)
            axes.set_title(title)
            axes.set_xlabel("percent of user time")
        _legend(figure, grid[0])
        return _svg(figure, "Translation's share of user time, and what each policy saves of it")


def _share_interval(result: Result) -> Interval | None:
    """From what the quick model leaves of stalls to the share if nothing overlapped."""
    serial = result.model.get("share_of_time_serial")
    return None if serial is None else (100 * result.translation_share, 100 * float(serial))


def _saved_interval(outcome: Outcome, result: Result) -> Interval | None:
    """As the verdict has it; of a core in time what samples leave open."""
    if result.policy == BASELINE:
        return None
    low, high = saved_on(outcome, result.machine, result.policy)
    if not result.is_quick:
        base, other = outcome.base(result.machine).data.get("timing"), result.data.get("timing")
        error = sampling.saving_error(base, other) if base and other else None
        low, high = low - (error or 0.0), high + (error or 0.0)
    return 100 * low, 100 * high


def accesses(outcome: Outcome) -> str:
    """Memory accesses per walk."""
    return _single(
        outcome, lambda r: r.accesses_per_walk, "page-table entries read per walk", "Memory accesses per walk"
    )


def _single(outcome: Outcome, value: Callable[[Result], float], unit: str, label: str) -> str:
    with rc_context(_STYLE):
        figure = Figure(figsize=(9.6, _height(outcome)), layout="constrained")
        axes = figure.subplots()
        _bars(axes, outcome, value, show_rate)
        axes.set_xlabel(unit)
        _legend(figure, axes)
        return _svg(figure, label)


def page_sizes(outcome: Outcome) -> str:
    """What page tables map by page size under each policy, on the first machine."""
    results: Sequence[Result] = next(iter(outcome.machines.values()))
    sizes = list(dict.fromkeys(size for r in results for size, b in r.mapped_by_size.items() if b))
    return _stacked(
        results,
        [(size, [r.mapped_by_size.get(size, 0) for r in results]) for size in sizes],
        "MB that page tables map, at the peak of each page size",
        "Address space mapped by page size",
    )


def residency(outcome: Outcome) -> str:
    """What memory is resident for under each policy, on the first machine: each part at its own peak."""
    results: Sequence[Result] = next(iter(outcome.machines.values()))
    parts = [
        ("accessed", [r.accessed or 0 for r in results]),
        ("bloat", [r.bloat or 0 for r in results]),
        ("read-around", [r.read_around or 0 for r in results]),
        ("page tables", [r.table_peak for r in results]),
    ]
    return _stacked(results, parts, "MB resident, each part at its peak", "Resident memory by what it is for")


def _stacked(results: Sequence[Result], parts: Sequence[tuple[str, Sequence[int]]], unit: str, label: str) -> str:
    """A bar for each policy, made of parts in bytes."""
    with rc_context(_STYLE):
        figure = Figure(figsize=(9.6, 0.6 + 0.34 * len(results)), layout="constrained")
        axes = figure.subplots()
        left = [0.0] * len(results)
        for i, (name, amounts) in enumerate(parts):
            values = [amount / (1 << 20) for amount in amounts]
            axes.barh([r.policy for r in results], values, 0.6, left=left, label=name, **_mark(i))
            left = [a + b for a, b in zip(left, values, strict=True)]
        axes.invert_yaxis()
        axes.tick_params(length=0)
        axes.set_xlabel(unit)
        _legend(figure, axes)
        return _svg(figure, label)
