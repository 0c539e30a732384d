"""Walks of the description held against walks of the computer: the simulator runs the chases that were timed.

No figure tells what walk caches hold, nor what a walk takes besides the latencies of its reads. Both are found by
trying. Descriptions differ in the first, and the one is taken whose chases come nearest to the timed ones. The second
has two parts: cycles of each walk, and cycles of each read. They are the ones that leave the smallest squares of the
distances. The programs that a forecast is made for have no part in that.
"""

import math
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from mmulab import engine
from mmulab.probe.fragment import fragment_sets
from mmulab.probe.frames import Frames
from mmulab.result import write_text
from mmulab.units import parse_bytes

Json = dict[str, Any]
# From one page's line to the next one's: neighbours get neighbouring sets of a first-level cache.
APART = 4096 + 64
LINE = 64
# Rounds of a chase before it is timed, and those that are.
WARM, ROUNDS = 2, 4
# Instructions of a load of `gen:pointer-chase`.
INSTRUCTIONS = 3
# Most memory of a guest, and of the host beside it: chases touch less than 1.5 GB, and less memory is sooner made.
GUEST_GB, BESIDE_GB = 4, 2


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
class Shape:
    """What walk caches of a virtual machine hold."""

    # Whether those of the guest's table hold no entries of level 2.
    from_level_3: bool = False
    # Whether there is one for the host's table.
    of_host: bool = False


@dataclass(frozen=True)
class Timed:
    """A chase on the computer: its curve, and cycles of a walk."""

    chase: Chase
    curve: Json
    cycles: float

    @property
    def pages(self) -> int:
        """Pages of the chase."""
        return int(self.curve["points"][0]["x"])

    def sets(self, machine: Json) -> tuple[str, ...]:
        """Changes to a resolved machine, so that its chase has frames as scattered as the timed one had. None where
        these were not seen."""
        seen = self.curve.get("frames")
        return fragment_sets(Frames(**seen), machine) if seen else ()


SHAPES = tuple(Shape(*shape) for shape in product((False, True), repeat=2))


@dataclass(frozen=True)
class Walks:
    """What walks of a description are."""

    shape: Shape = Shape()
    # Cycles of a walk, and of each of its reads, besides the latencies of the reads.
    overhead_cycles: int = 0
    read_cycles: int = 0
    # By chase: cycles of a walk, timed and modelled.
    compared: tuple[Json, ...] = ()

    @property
    def why(self) -> str:
        """Where the values come from."""
        chases = ", ".join(f"{c['curve']} {c['timed']:.0f} ({c['modelled']:.0f})" for c in self.compared)
        return f"the value with which the simulator comes nearest to the probed walks: {chases} cycles"


@dataclass(frozen=True)
class Loads:
    """A chase in the simulator: cycles of a load, and entries that its walk reads."""

    cycles: float
    reads: float


def find(timed: Sequence[Timed], write: Callable[[Walks], str]) -> Walks:
    """The walks that come nearest to the timed ones.

    `write` makes the text of a description of them. Of no chase nothing is tried.
    """
    if not timed:
        return Walks()
    tried: dict[str, Shape] = {}
    for shape in SHAPES:
        # On a computer that is no guest, most are the same.
        tried.setdefault(write(Walks(shape)), shape)
    with tempfile.TemporaryDirectory() as directory:
        machines = {Path(directory) / f"{at}.toml": text for at, text in enumerate(tried)}
        for machine, text in machines.items():
            write_text(machine, text)
        # As many lines that lie together: their loads need no walk, so that all descriptions have the same.
        first = bounded(engine.Job(str(next(iter(machines))), CHASES[0].policy))
        together = {pages: _loads(first, pages, LINE, 1).cycles for pages in {one.pages for one in timed}}
        fits = [_fit(machine, tried[text], timed, together) for machine, text in machines.items()]
    return min(fits, key=lambda fit: fit[1])[0]


def _fit(machine: Path, shape: Shape, timed: Sequence[Timed], together: dict[int, float]) -> tuple[Walks, float]:
    """The walks of a description with the cycles that fit best, and how far its chases are off then."""

    def modelled(one: Timed) -> Loads:
        job = bounded(engine.Job(str(machine), one.chase.policy))
        described = engine.resolve(job)["machine"]
        job = replace(job, sets=(*job.sets, *one.sets(described)))
        arrays = described["tlb"]
        hit = next((a["hit_cycles"] for a in arrays if a["level"] == 2 and a["side"] in ("data", "both")), 0)
        found = _loads(job, one.pages, APART, one.chase.together)
        return replace(found, cycles=found.cycles - together[one.pages] - float(hit))

    with ThreadPoolExecutor() as pool:
        all_modelled = list(pool.map(modelled, timed))
    distances = [one.cycles - m.cycles for one, m in zip(timed, all_modelled, strict=True)]
    walk, read = besides([m.reads for m in all_modelled], distances)
    totals = [m.cycles + walk + read * m.reads for m in all_modelled]
    compared = tuple(
        {"curve": one.chase.curve, "pages": one.pages, "timed": one.cycles, "modelled": total}
        for one, total in zip(timed, totals, strict=True)
    )
    off = sum((one.cycles - total) ** 2 for one, total in zip(timed, totals, strict=True))
    return Walks(shape, walk, read, compared), off


def besides(reads: Sequence[float], distances: Sequence[float]) -> tuple[int, int]:
    """Whole cycles of a walk and of each read that leave the smallest squares of `distances`; none is below 0.

    `reads` are those of each walk. Where all walks read as much, the walk has all of it.
    """

    def fitted(read: int) -> tuple[float, int, int]:
        left = [distance - read * each for each, distance in zip(reads, distances, strict=True)]
        walk = max(0, round(sum(left) / len(left)))
        return sum((each - walk) ** 2 for each in left), read, walk

    # More of a read makes all walks too long.
    most = max(distance / max(each, 1.0) for each, distance in zip(reads, distances, strict=True))
    _, read, walk = min(fitted(read) for read in range(max(0, math.ceil(most)) + 1))
    return walk, read


def bounded(job: engine.Job) -> engine.Job:
    """The job with no more of a guest's and its host's memory than chases need."""
    # What is asked here does not depend on what is in memory, and 96 GB in pieces take 2 s to make.
    empty = engine.Job(job.machine, job.policy, (*job.sets, 'memory.fragment={kind="none"}'))
    virtual = engine.resolve(empty)["machine"].get("virtual")
    if not virtual:
        return job
    # Scattered frames lie in regions over a part of it, which a chase that has such frames needs too.
    over = parse_bytes(virtual["memory"]["fragment"].get("over", "0")) or 0
    needed = GUEST_GB + math.ceil(over / (1 << 30))
    size = min(int(virtual["memory"]["size"].removesuffix("G")), needed)
    sizes = (f"virtual.memory.size={size}G", f"memory.size={size + BESIDE_GB}G")
    return engine.Job(job.machine, job.policy, (*job.sets, *sizes))


def _loads(job: engine.Job, nodes: int, node: int, together: int) -> Loads:
    return loads(job, nodes, node, (nodes * WARM, nodes * ROUNDS), together)


def loads(job: engine.Job, nodes: int, node: int, warm_and_counted: tuple[int, int], together: int = 1) -> Loads:
    """A chase over `nodes` nodes of `node` bytes.

    Some of its loads warm up, the others count. Raises KeyboardInterrupt when it is stopped.
    """
    warm, counted = warm_and_counted
    trace = (
        f"gen:pointer-chase?footprint={nodes * node}&node={node}&together={together}"
        f"&references={warm + counted}&populate=true"
    )
    options = engine.Options(timing=True, skip=warm * INSTRUCTIONS)
    (result,) = engine.run(trace, [job], options).whole()
    data = result.data
    return Loads(data["timing"]["cycles"] / counted, data["counts"]["walks"]["data"]["accesses"] / counted)
