"""Curves of the description beside those of the computer: the simulator runs the chases through caches and TLBs.

A description is made of figures, and a figure of a curve: a latency of its flat parts, a size of its steps. Where the
whole curves agree, the description lacks nothing that chases show. Where they do not, the plot says at which size.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from mmulab import engine
from mmulab.probe.walks import APART, LINE, bounded, loads
from mmulab.svg import COLOURS, finish, start

Json = dict[str, Any]
# Points of a curve that are simulated: from one to the next about as far as where figures are read off.
POINTS = 16
# Loads of a point: those that warm up, and those that are counted. More lines than these fill no cache of today.
MOST = 1_000_000
ROUNDS = 2
# Neighbours displace lines that are left alone, and lines are left alone longer while a round is slow. The first rounds
# are slow, for their lines come from memory. So a shared cache fills over several rounds.
WARM_ROUNDS = 8
LARGE = 2 << 20


@dataclass(frozen=True)
class Kind:
    """A curve: the policy that stands for its pages, bytes from one node to the next, and what its points count."""

    curve: str
    policy: str
    node: int
    # Of a point: bytes for each node, where it counts bytes; 1 where it counts nodes.
    unit: int
    axis: str


KINDS = (
    Kind("footprint", "linux-thp", LINE, LINE, "bytes"),
    Kind("pages-4k", "linux-4k", APART, 1, "pages of 4 KB"),
    # As on the computer, base pages within them differ, so that they fall on different sets of a TLB.
    Kind("pages-2m", "linux-thp", LARGE + APART, 1, "pages of 2 MB"),
)


@dataclass(frozen=True)
class Point:
    """A load of a chase, in cycles: on the computer, and on its description."""

    x: int
    timed: float
    modelled: float

    @property
    def ratio(self) -> float:
        """Modelled over timed."""
        return self.modelled / self.timed


def run(
    curves: Sequence[Json], machine: Path, on_progress: Callable[[float], None] = lambda _share: None
) -> dict[str, list[Point]]:
    """Points by curve. Raises KeyboardInterrupt when it is stopped."""
    asked = [(kind, point) for kind in KINDS for point in _chosen(curves, kind)]
    found: dict[str, list[Point]] = {kind.curve: [] for kind, _ in asked}
    with ThreadPoolExecutor() as pool:
        all_cycles = pool.map(lambda one: _load(machine, one[0], one[1]["x"] // one[0].unit), asked)
        for at, ((kind, point), cycles) in enumerate(zip(asked, all_cycles, strict=True)):
            found[kind.curve].append(Point(point["x"], median(point["cycles"]), cycles))
            on_progress((at + 1) / len(asked))
    return found


def _chosen(curves: Sequence[Json], kind: Kind) -> list[Json]:
    """Some of a curve's points, from its first to its last."""
    points: list[Json] = sorted(
        (p for curve in curves if curve["name"] == kind.curve for p in curve["points"]), key=lambda p: int(p["x"])
    )
    if len(points) <= POINTS:
        return points
    return [points[round(at * (len(points) - 1) / (POINTS - 1))] for at in range(POINTS)]


def _load(machine: Path, kind: Kind, nodes: int) -> float:
    """Cycles of a load of a chase over `nodes` nodes, after rounds that fill caches and TLBs."""
    warm = min(nodes * WARM_ROUNDS, MOST)
    counted = min(max(nodes * ROUNDS, 2000), MOST)
    return loads(bounded(engine.Job(str(machine), kind.policy)), nodes, kind.node, (warm, counted)).cycles


def data(found: dict[str, list[Point]]) -> Json:
    """For probe.json."""
    return {curve: [vars(point) for point in points] for curve, points in found.items()}


def plot(found: dict[str, list[Point]]) -> str:
    """All curves, the computer's beside its description's, as SVG."""
    shown = [kind for kind in KINDS if found.get(kind.curve)]
    figure, (panels,) = start(max(1, len(shown)), 4.2 * max(1, len(shown)), 3.6)
    for axes, kind in zip(panels, shown, strict=True):
        points = found[kind.curve]
        for label, mark, colour in (("timed", "o", COLOURS[0]), ("modelled", "x", COLOURS[1])):
            axes.plot([p.x for p in points], [getattr(p, label) for p in points], f"{mark}-", color=colour, label=label)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel(kind.axis)
        axes.set_title(kind.curve)
    panels[0].set_ylabel("cycles of a load")
    return finish(figure, panels, lines="both")
