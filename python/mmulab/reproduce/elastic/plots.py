"""Plots of these experiments as SVG."""

from mmulab.reproduce.elastic import fault_latency
from mmulab.svg import COLOURS, finish, start

# Ways with memory cleared ahead are drawn broken: the paper has none.
_AHEAD = "ahead"


def of_fault_latency(outcome: fault_latency.Outcome) -> str:
    """The share of faults that took no longer than a time: Figure 15's axes."""
    figure, ((axes,),) = start(1, 8.0, 4.2)
    for n, row in enumerate(outcome.rows):
        times, shares = row.curve(outcome.mhz)
        # A step for each time that occurred, from nothing to all.
        times, shares = [times[0], *times], [0.0, *shares]
        style = "--" if _AHEAD in row.way.name else "-"
        axes.step(
            times, shares, style, where="post", color=COLOURS[n % len(COLOURS)], linewidth=1.1, label=row.way.name
        )
    axes.set_xscale("log")
    axes.set_xlabel("time of a page fault, microseconds")
    axes.set_ylabel("share of the faults")
    return finish(figure, (axes,), "lower right", lines="both")
