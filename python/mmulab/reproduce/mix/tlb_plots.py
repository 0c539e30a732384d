"""Plots that experiments with designs for all page sizes share."""

from collections.abc import Callable, Mapping, Sequence

from mmulab.reproduce.mix import runs
from mmulab.reproduce.mix.outcome import Outcome, Q, R
from mmulab.svg import COLOURS, finish, start

# Paper 4, figure 16: the rivals on the left, MIX on the right.
RIVALS, MIX = ("skew", "hash-rehash"), ("mix",)
MARKS = ("o", "^", "s")
FAINT = "#999999"


def tradeoffs(outcome: Outcome[Q, R], kinds: Mapping[str, Callable[[R], bool]]) -> str:
    """Figure 16: energy saved over time gained, beside the split TLBs; a dot for each program and way to have pages.

    `kinds` tells rows apart by what they are marked with.
    """
    figure, (panels,) = start(2, 9.6, 4.2)
    for axes, designs in zip(panels, (RIVALS, MIX), strict=True):
        drawn = 0
        for design in designs:
            colour = COLOURS[(*RIVALS, *MIX).index(design)]
            for mark, (kind, is_one) in zip(MARKS, kinds.items(), strict=False):
                rows = [row for row in outcome.rows if design in row.of and is_one(row)]
                points = [(100 * row.gain(design), 100 * row.saved(design)) for row in rows]
                if points:
                    label = f"{design}, {kind}"
                    axes.plot(*zip(*points, strict=True), mark, color=colour, markersize=4, alpha=0.7, label=label)
                    drawn += len(points)
        axes.axhline(0, color=FAINT, linewidth=0.8)
        axes.axvline(0, color=FAINT, linewidth=0.8)
        axes.set_title(" and ".join(designs) if drawn else "")
        axes.set_xlabel("faster than split TLBs, %")
    panels[0].set_ylabel("translation energy saved, %")
    panels[1].sharex(panels[0])
    panels[1].sharey(panels[0])
    panels[0].autoscale()
    return finish(figure, panels, legend="best", lines="both")


def distributions(outcome: Outcome[Q, R], panels: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """Figures 12 and 13: of superpages, those in runs no longer, as the mean of the programs that have any.

    `panels` names the regimes of each panel, with the page size that is looked at.
    """
    figure, (all_axes,) = start(len(panels), 4.8 * len(panels), 3.8)
    for axes, (title, lines) in zip(all_axes, panels.items(), strict=True):
        for at, (regime, size) in enumerate(lines):
            found = list(runs.of_size(outcome, regime, size).values())
            if not found:
                continue
            lengths = sorted({length for one in found for length in one.lengths})
            shares = [sum(1 - runs.in_runs_of(one, length + 1) for one in found) / len(found) for length in lengths]
            # From nothing up to the first, and on to where all others end.
            axes.step(
                [lengths[0], *lengths],
                [0, *(100 * s for s in shares)],
                where="post",
                label=regime,
                color=COLOURS[at % len(COLOURS)],
                linestyle="-" if at < len(COLOURS) else "--",
                linewidth=1.2,
            )
        axes.set_xscale("log", base=2)
        axes.set_ylim(0, 101)
        axes.set_title(title)
        axes.set_xlabel("pages in a run")
    all_axes[0].set_ylabel("% of superpages in runs no longer")
    return finish(figure, all_axes, legend="lower right", lines="both")
