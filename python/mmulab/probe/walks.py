"""Walks of the description held against walks of the computer: the simulator runs the chases that were timed.

No figure tells whether a walk cache holds entries of level 2, nor what a walk takes besides its reads. Both are found
by trying. Descriptions differ in the first, and the one is taken whose chases come nearest to the timed ones. The
second is its mean distance from them. The programs that a forecast is made for have no part in that.
"""

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import engine
from mmulab.result import write_text

Json = dict[str, Any]
# From one page's line to the next one's: neighbours get neighbouring sets of a first-level cache.
APART = 4096 + 64
LINE = 64
# Rounds of a chase before it is timed, and those that are.
WARM, ROUNDS = 2, 4
# Instructions of a load of `gen:pointer-chase`.
INSTRUCTIONS = 3
# Host memory beside the guest's: chases touch less than 1.5 GB, and less memory is sooner made.
BESIDE_GB = 8


@dataclass(frozen=True)
class Chase:
    """One of the chases: the figure that it is timed by, its policy, and the neighbours that follow each other."""

    figure: str
    curve: str
    policy: str
    together: int


CHASES = (
    Chase("walk_far_cycles_4k", "walk-far-4k", "linux-4k", 1),
    Chase("walk_near_cycles_4k", "walk-near-4k", "linux-4k", 8),
    Chase("walk_near_cycles_2m", "walk-near-2m", "linux-thp", 8),
)


@dataclass(frozen=True)
class Walks:
    """What walks of a description are."""

    # Whether walk caches hold no entries of level 2.
    from_level_3: bool = False
    # Cycles of a walk besides its reads.
    overhead_cycles: int = 0
    # By chase: cycles of a walk, timed and modelled.
    compared: tuple[Json, ...] = ()

    @property
    def why(self) -> str:
        """Where the values come from."""
        chases = ", ".join(f"{c['curve']} {c['timed']:.0f} ({c['modelled']:.0f})" for c in self.compared)
        return f"the value with which the simulator comes nearest to the probed walks: {chases} cycles"


def find(timed: Sequence[tuple[Chase, int, float]], write: Callable[[Walks], str]) -> Walks:
    """The walks that come nearest to the timed ones: chases, pages of each, and cycles of a walk.

    `write` makes the text of a description of them. Of no chase nothing is tried.
    """
    if not timed:
        return Walks()
    tried = {without: write(Walks(without)) for without in (False, True)}
    if tried[True] == tried[False]:
        del tried[True]
    with tempfile.TemporaryDirectory() as directory:
        machines = {without: Path(directory) / f"from-level-{3 if without else 2}.toml" for without in tried}
        for without, machine in machines.items():
            write_text(machine, tried[without])
        # As many lines that lie together: their loads need no walk, so that all descriptions have the same.
        first = bounded(engine.Job(str(machines[False]), CHASES[0].policy))
        together = {pages: _load(first, pages, LINE, 1) for _, pages, _ in timed}
        fits = [_fit(machine, without, timed, together) for without, machine in machines.items()]
    return min(fits, key=lambda fit: fit[1])[0]


def _fit(
    machine: Path, without: bool, timed: Sequence[tuple[Chase, int, float]], together: dict[int, float]
) -> tuple[Walks, float]:
    """The walks of a description with the overhead that fits best, and how far its chases are off then."""

    def modelled(of: tuple[Chase, int, float]) -> float:
        chase, pages, _ = of
        job = bounded(engine.Job(str(machine), chase.policy))
        arrays = engine.resolve(job)["machine"]["tlb"]
        hit = next((a["hit_cycles"] for a in arrays if a["level"] == 2 and a["side"] in ("data", "both")), 0)
        return _load(job, pages, APART, chase.together) - together[pages] - float(hit)

    with ThreadPoolExecutor() as pool:
        all_modelled = list(pool.map(modelled, timed))
    distance = [cycles - m for (_, _, cycles), m in zip(timed, all_modelled, strict=True)]
    overhead = max(0, round(sum(distance) / len(distance)))
    compared = tuple(
        {"curve": chase.curve, "pages": pages, "timed": cycles, "modelled": m + overhead}
        for (chase, pages, cycles), m in zip(timed, all_modelled, strict=True)
    )
    return Walks(without, overhead, compared), sum((d - overhead) ** 2 for d in distance)


def bounded(job: engine.Job) -> engine.Job:
    """The job with no more of a host's memory than chases need."""
    virtual = engine.resolve(job)["machine"].get("virtual")
    if not virtual:
        return job
    size = int(virtual["memory"]["size"].removesuffix("G")) + BESIDE_GB
    return engine.Job(job.machine, job.policy, (f"memory.size={size}G",))


def _load(job: engine.Job, nodes: int, node: int, together: int) -> float:
    return load(job, nodes, node, (nodes * WARM, nodes * ROUNDS), together)


def load(job: engine.Job, nodes: int, node: int, loads: tuple[int, int], together: int = 1) -> float:
    """Cycles of a load of a chase over `nodes` nodes of `node` bytes.

    `loads` are those that warm up, and those that count. Raises KeyboardInterrupt when it is stopped.
    """
    warm, counted = loads
    trace = (
        f"gen:pointer-chase?footprint={nodes * node}&node={node}&together={together}"
        f"&references={warm + counted}&populate=true"
    )
    options = engine.Options(timing=True, skip=warm * INSTRUCTIONS)
    (result,) = engine.run(trace, [job], options).whole()
    return float(result.data["timing"]["cycles"]) / counted
