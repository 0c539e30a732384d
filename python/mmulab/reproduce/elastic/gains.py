"""Bars of what programs gain over 4K pages, as SVG: the shape of paper 3's Figures 2, 8, 10, 11, 12, 13 and 14."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmulab.svg import COLOURS, finish, start

# More than there are colours: these are drawn hatched.
_HATCHES = ("", "///", "...")
# Inches.
_PANEL_HEIGHT, _BAR_WIDTH, _MARGIN = 2.6, 0.115, 1.6
# Of the room for a program, what its bars take.
_FILLED = 0.82
# Gains above this are cut off, and written above their bar: one program would flatten all others. A measurement above
# it is an arrow there.
_HIGHEST = 150


@dataclass(frozen=True)
class Bar:
    """A program's gain under one system, in percent: between two bounds, and as others measured it."""

    bounds: Sequence[float]
    measured: float | None = None


# Panels by title, each with its programs, each with its bars by system.
Panels = Mapping[str, Mapping[str, Mapping[str, Bar]]]


def drawn(panels: Panels) -> str:
    """The panels, one below the other. A bar ends at the middle of its bounds, and a line shows them. A diamond is a
    measurement."""
    programs = max(len(panel) for panel in panels.values())
    systems = list(dict.fromkeys(name for panel in panels.values() for bars in panel.values() for name in bars))
    width = max(6.0, _MARGIN + programs * len(systems) * _BAR_WIDTH / _FILLED)
    figure, grid = start(1, width, _PANEL_HEIGHT * len(panels), rows=len(panels))
    step = _FILLED / len(systems)
    for (title, panel), (axes,) in zip(panels.items(), grid, strict=True):
        for n, system in enumerate(systems):
            places = [i - _FILLED / 2 + (n + 0.5) * step for i, bars in enumerate(panel.values()) if system in bars]
            shown = [bars[system] for bars in panel.values() if system in bars]
            ends = [(min(bar.bounds) + max(bar.bounds)) / 2 for bar in shown]
            cut = [min(end, _HIGHEST) for end in ends]
            lower = [end - min(*bar.bounds, _HIGHEST) for end, bar in zip(cut, shown, strict=True)]
            upper = [min(max(bar.bounds), _HIGHEST) - end for end, bar in zip(cut, shown, strict=True)]
            axes.bar(
                places,
                cut,
                step * 0.9,
                yerr=[lower, upper],
                color=COLOURS[n % len(COLOURS)],
                hatch=_HATCHES[n // len(COLOURS) % len(_HATCHES)],
                edgecolor="white",
                linewidth=0.3,
                error_kw={"elinewidth": 0.7},
                label=system,
            )
            for place, end in zip(places, ends, strict=True):
                if end > _HIGHEST:
                    axes.annotate(f"{end:.0f}", (place, _HIGHEST), fontsize=6, ha="center", va="bottom", rotation=90)
            told = [(place, bar.measured) for place, bar in zip(places, shown, strict=True) if bar.measured is not None]
            for place, value in told:
                marker = "D" if value <= _HIGHEST else "^"
                axes.plot([place], [min(value, _HIGHEST)], marker, color="black", markersize=2.5)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_xticks(range(len(panel)), list(panel))
        axes.set_xlim(-0.5, programs - 0.5)
        axes.set_title(title, fontsize=9, loc="left")
        axes.set_ylabel("faster than 4K, %")
    every = [axes for (axes,) in grid]
    handles, labels = every[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(5, len(systems)), frameon=False, fontsize=8)
    # The figure has the one legend: bars without a name get none from `finish`.
    for axes in every:
        for one in axes.containers:
            one.set_label("_")
    return finish(figure, every)
