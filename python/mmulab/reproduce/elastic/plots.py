"""Plots of these experiments as SVG."""

from collections.abc import Iterable, Sequence

from mmulab.reproduce.elastic import fault_latency, measured, mixes, samplers, sizes, systems
from mmulab.reproduce.elastic.gains import Bar, drawn
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


# A panel's title, a program, a system, its gains by bound of dependence, and the measured gain if there is one.
_Told = tuple[str, str, str, Sequence[float], float | None]


def _bars(told: Iterable[_Told]) -> str:
    panels: dict[str, dict[str, dict[str, Bar]]] = {}
    for title, program, system, bounds, theirs in told:
        bar = Bar([100 * bound for bound in bounds], None if theirs is None else 100 * theirs)
        panels.setdefault(title, {}).setdefault(program, {})[system] = bar
    return drawn(panels) if panels else ""


def of_systems(outcome: systems.Outcome) -> str:
    """Every program under every system: Figures 8, 10, 11 and 12."""
    theirs = measured.gains("virtual" in outcome.prefix)

    def told(row: systems.Row) -> _Told:
        title = f"{row.place} of free memory in pieces" if row.fragmented else "fresh memory"
        found = None if row.where else theirs.get((row.program, row.fragmented, row.system))
        return title, row.program, row.system, row.speedups, found

    return _bars(told(row) for row in outcome.rows)


def of_sizes(outcome: sizes.Outcome) -> str:
    """Every program on pages of one size: Figure 2."""

    def told(row: sizes.Row) -> _Told:
        found = sizes.RERUN_GAINS.get((row.program, row.size))
        title = "in a virtual machine" if row.virtual else "natively"
        return title, row.program, row.size, row.speedups, None if row.virtual else found

    return _bars(told(row) for row in outcome.rows)


def of_samplers(outcome: samplers.Outcome) -> str:
    """Every program with hints of each origin: Figure 13."""
    return _bars(("half of free memory in pieces", row.program, row.way, row.speedups, None) for row in outcome.rows)


def of_mixes(outcome: mixes.Outcome) -> str:
    """Every program of every mix: Figure 14."""
    return _bars((row.mix, row.program, row.system, row.speedups, None) for row in outcome.rows)
