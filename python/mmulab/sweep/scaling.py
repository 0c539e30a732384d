"""How a sweep's time falls with the number of workers: costs measured on a few, and a list schedule for many.

    plan --> start of the workers --> [command: sends a batch, keeps its results] <--> workers --> tables

The command is one server. It sends a batch (with all that passes between two batches of a worker) and keeps results one
after the other. Workers run batches at once, and each gets the next batch of the list when it is free. This is list
scheduling (Graham, Bell System Technical Journal 45, 1966).
"""

import heapq
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from mmulab import Failure
from mmulab.result import Result
from mmulab.sweep import cluster
from mmulab.sweep.batches import batches
from mmulab.sweep.file import Sweep
from mmulab.sweep.plan import plan
from mmulab.sweep.store import Store
from mmulab.sweep.tables import write_tables


@dataclass(frozen=True)
class Costs:
    """Seconds of a sweep besides those of its batches."""

    # Until the workers are ready.
    start: float
    # For each batch: from a worker's end of one to its begin of the next.
    ship: float
    # For each job: planned before; checked and written when it has ended; put into the tables.
    plan: float
    keep: float
    table: float


@dataclass(frozen=True)
class Timed:
    """A sweep that was run: all its seconds, those of each batch at its worker, and its costs."""

    workers: int
    seconds: float
    batches: tuple[float, ...]
    jobs_per_batch: tuple[int, ...]
    costs: Costs


@dataclass(frozen=True)
class Simulated:
    """A sweep by the list schedule."""

    seconds: float
    # The share of the time between start and tables in which the command is busy; and the workers, on average.
    command: float
    workers: float


def simulate(seconds: Sequence[float], jobs: Sequence[int], workers: int, costs: Costs) -> Simulated:
    """The time of batches that take `seconds` and have `jobs`, in the order of the list."""
    free = begun = sum(jobs) * costs.plan + costs.start
    busy = 0.0
    waiting = list(enumerate(seconds))[::-1]
    # When a worker asks for the next batch, and the batch that it brings (none at first).
    asking: list[tuple[float, int, int | None]] = [
        (begun, worker, None) for worker in range(min(workers, len(seconds)))
    ]
    while asking:
        at, worker, ended = heapq.heappop(asking)
        work = 0.0
        free = max(at, free)
        if waiting:
            number, took = waiting.pop()
            free += costs.ship
            work += costs.ship
            heapq.heappush(asking, (free + took, worker, number))
        if ended is not None:
            free += costs.keep * jobs[ended]
            work += costs.keep * jobs[ended]
        busy += work
    span = max(free - begun, 1e-12)
    return Simulated(free + sum(jobs) * costs.table, busy / span, sum(seconds) / (workers * span))


def timed(sweep: Sweep, directory: Path, workers: int, batch: int) -> Timed:
    """Runs a sweep by local worker processes into an empty directory, and times each part of it."""
    begun = time.perf_counter()
    planned = plan(sweep)
    store = Store(directory)
    if any(store.has(job.key) for job in planned.jobs):
        raise Failure(f"{directory}: it has results already, so that nothing is timed\nhint: give another directory")
    given = batches(planned.jobs, workers, batch)
    store.write_manifest(planned)
    ready = time.perf_counter()
    took, sizes, keeping, last = [], [], 0.0, 0.0
    with closing(cluster.local(workers)) as pool:
        pool.refuse_different(given)
        started = time.perf_counter()
        for one, answer in pool.run(given):
            if answer["error"]:
                raise Failure(f"{one.jobs[0].label}: {answer['error']}")
            before = time.perf_counter()
            for job, data in zip(one.jobs, answer["results"], strict=True):
                store.keep(job.key, Result(data))
            last = time.perf_counter() - before
            keeping += last
            took.append(float(answer["seconds"]))
            sizes.append(len(one.jobs))
        ended = time.perf_counter()
    closed = time.perf_counter()
    write_tables(store, planned.jobs)
    done = time.perf_counter()
    jobs = len(planned.jobs)
    # Results are kept while workers run, but for the last ones.
    between = (ended - started - last) * workers - sum(took)
    return Timed(
        workers,
        # The end of the workers is no part: with many, nobody waits for it.
        done - begun - (closed - ended),
        tuple(took),
        tuple(sizes),
        Costs(
            start=started - ready,
            ship=max(0.0, between) / len(took),
            plan=(ready - begun) / jobs,
            keep=keeping / jobs,
            table=(done - closed) / jobs,
        ),
    )
