"""Plots of these experiments as SVG, on the axes of paper 2's figures."""

from mmulab.reproduce.instruction import promotion, servers, sweep
from mmulab.reproduce.instruction.setting import ALL_CLUSTERS, FIGURE_8, REAL, SMALL, STOCK
from mmulab.svg import COLOURS, finish, start

WIDTH = 0.8


def of_promotion(outcome: promotion.Outcome) -> dict[str, str]:
    """Figures 1, 2 and 3."""
    if not outcome.rows:
        return {}
    return {"-residency": _residency(outcome), "-overhead": _overhead(outcome), "-cycles": _cycles(outcome)}


def _residency(outcome: promotion.Outcome) -> str:
    figure, ((axes,),) = start(1, 8.0, 4.2)
    clusters = list(range(ALL_CLUSTERS, 0, -1))
    for n, row in enumerate(outcome.rows):
        counts = [row.of[SMALL].at_least(count) for count in clusters]
        style = "-" if n < len(COLOURS) else "--"
        axes.step(clusters, counts, style, where="mid", color=COLOURS[n % len(COLOURS)], label=row.subject.name)
    axes.invert_xaxis()
    axes.set_xlabel("clusters of 64 KB in memory, or more")
    axes.set_ylabel("2 MB of code")
    return finish(figure, (axes,), lines="both")


def _bars(outcome: promotion.Outcome, series: dict[str, list[float]], label: str, least: float | None = None) -> str:
    figure, ((axes,),) = start(1, 8.0, 4.2)
    each = WIDTH / len(series)
    for n, (name, values) in enumerate(series.items()):
        places = [at + (n - (len(series) - 1) / 2) * each for at in range(len(values))]
        axes.bar(places, values, each, color=COLOURS[n % len(COLOURS)], label=name)
    axes.set_xticks(range(len(outcome.rows)), [row.subject.name for row in outcome.rows], fontsize=7)
    axes.set_ylabel(label)
    if least is not None:
        axes.set_ylim(bottom=least)
    return finish(figure, (axes,), "best")


def _overhead(outcome: promotion.Outcome) -> str:
    shown = {"4 KB code": SMALL, "stock FreeBSD": STOCK}
    series = {name: [100 * row.of[setting].overhead for row in outcome.rows] for name, setting in shown.items()}
    return _bars(outcome, series, "ITLB stall, % of cycles")


def _cycles(outcome: promotion.Outcome) -> str:
    series = {str(n): [row.cycles_left(n) for row in outcome.rows] for n in (ALL_CLUSTERS, *promotion.FIGURE_3)}
    least = min(value for values in series.values() for value in values)
    return _bars(outcome, series, "cycles, stock FreeBSD = 1", max(0.0, least - 0.02))


def of_sweep(outcome: sweep.Outcome) -> dict[str, str]:
    """Figures 5 and 6 on Skylake: a panel for each program."""
    lines = [line for line in outcome.lines if line.variant == REAL]
    if not lines:
        return {}
    figure, (panels,) = start(len(lines), 5.2 * len(lines), 4.2)
    for axes, line in zip(panels, lines, strict=True):
        at = [point.superpages for point in line.points]
        drawn = {
            "ITLB stall": [point.of.stall for point in line.points],
            "instruction walks": [point.of.walk_cycles("instruction") for point in line.points],
            "data walks": [point.of.walk_cycles("data") for point in line.points],
        }
        for n, (name, values) in enumerate(drawn.items()):
            axes.plot(at, [value / 1e6 for value in values], "o-", markersize=3, color=COLOURS[n], label=name)
        axes.set_title(line.subject.name)
        axes.set_xlabel("superpages of code")
    panels[0].set_ylabel("millions of cycles")
    return {"-sweep": finish(figure, panels, "best", lines="both")}


def of_servers(outcome: servers.Outcome) -> dict[str, str]:
    """Figure 8: a panel for each program."""
    if not outcome.rows:
        return {}
    figure, (panels,) = start(len(outcome.rows), 5.6 * len(outcome.rows), 4.2)
    for axes, row in zip(panels, outcome.rows, strict=True):
        names = [what for what, count in servers.COUNTERS.items() if count(row.of[STOCK])]
        each = WIDTH / len(FIGURE_8)
        for n, setting in enumerate(FIGURE_8):
            places = [at + (n - (len(FIGURE_8) - 1) / 2) * each for at in range(len(names))]
            axes.bar(places, [row.left(setting, what) for what in names], each, color=COLOURS[n], label=setting.name)
        axes.set_xticks(range(len(names)), [name.replace(" ", "\n", 1) for name in names], fontsize=7)
        axes.set_title(row.subject.name)
    panels[0].set_ylabel("stock FreeBSD = 1")
    return {"-servers": finish(figure, panels, "best")}
