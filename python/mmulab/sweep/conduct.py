"""A sweep carried out: what is not kept is run in batches, kept as it comes, and put into tables at the end."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from mmulab.extras import need
from mmulab.result import Result
from mmulab.sweep import cluster, podded, queued
from mmulab.sweep.batches import Batch, alone, batches
from mmulab.sweep.cluster import Tls
from mmulab.sweep.plan import Plan
from mmulab.sweep.pods import Pods
from mmulab.sweep.pools import Answer, Here, Pool, processors
from mmulab.sweep.queue import Queue
from mmulab.sweep.store import Store
from mmulab.sweep.tables import write_tables

# Called after each batch: jobs done, jobs of the sweep, and the batch.
Announce = Callable[[int, int, Batch], None]


class Stopped(Exception):
    """The user stopped the sweep; what is done is kept."""

    def __init__(self, done: int, total: int) -> None:
        """Jobs done, of how many."""
        super().__init__(f"{done:,} of {total:,} jobs are done and kept")
        self.done, self.total = done, total


@dataclass
class Outcome:
    """What became of a sweep."""

    directory: Path
    total: int
    # Jobs whose results were there before, and those that were run now.
    kept: int = 0
    ran: int = 0
    # Jobs without a result, with the reason.
    failed: list[tuple[str, str]] = field(default_factory=list)
    # Jobs that ended early, with the reason: simulated memory that was too small, for example. They are in the tables.
    short: list[tuple[str, str]] = field(default_factory=list)


def run(
    plan: Plan,
    directory: str | Path | None = None,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    tls: Tls | None = None,
    batch: int | None = None,
    announce: Announce | None = None,
) -> Outcome:
    """Runs the jobs that `directory` (default: sweep-NAME) does not have, and writes the tables.

    `workers`: processes; 1 is this one, the default is the sweep's `[cluster]`, and without it one for each processor.
    `scheduler`: the address of a cluster in their place. `batch`: jobs that share a decoding, at most. Raises Stopped
    after Ctrl-C.
    """
    need("pyarrow", "pyarrow", "results.parquet")
    store = Store(directory or f"sweep-{plan.sweep.name}")
    with store.locked():
        store.tidy()
        # Until the sweep has ended, tables would disagree with its jobs.
        store.forget_tables()
        store.write_manifest(plan)
        outcome = Outcome(store.directory, len(plan.jobs))
        have = {job.key for job in plan.jobs if store.has(job.key)}
        missing = [job for job in plan.jobs if job.key not in have]
        outcome.kept = len(plan.jobs) - len(missing)
        try:
            if missing:
                with closing(_pool(plan, store, scheduler, tls, workers, len(missing))) as pool:
                    given = batches(missing, pool.workers, batch)
                    if isinstance(pool, cluster.Cluster):
                        pool.refuse_different(given)
                    _Run(store, plan, pool, outcome, announce).all(given)
            write_tables(store, plan.jobs)
        except KeyboardInterrupt:
            # Counted again: the signal may have come between a result and its count.
            store.tidy()
            raise Stopped(sum(store.has(job.key) for job in plan.jobs), outcome.total) from None
    return outcome


def _pool(plan: Plan, store: Store, scheduler: str | None, tls: Tls | None, workers: int | None, jobs: int) -> Pool:
    if scheduler is not None:
        return cluster.existing(scheduler, tls)
    if workers is None and isinstance(plan.sweep.cluster, Pods):
        return podded.started(plan.sweep.cluster)
    if workers is None and isinstance(plan.sweep.cluster, Queue):
        return queued.submitted(plan.sweep.cluster, store.directory)
    count = min(workers or processors(), jobs)
    return Here() if count == 1 else cluster.local(count)


class _Run:
    """One pass over what is missing."""

    def __init__(self, store: Store, plan: Plan, pool: Pool, outcome: Outcome, announce: Announce | None) -> None:
        self.store, self.pool, self.outcome, self.announce = store, pool, outcome, announce
        # Jobs of one hash are run once, and all of them are done then.
        self.labels: dict[str, list[str]] = {}
        for job in plan.jobs:
            self.labels.setdefault(job.key, []).append(job.label)

    def all(self, given: Sequence[Batch]) -> None:
        """Runs the batches; each job of those that fail once more alone, so that one job cannot fail others."""
        again: list[Batch] = []
        for batch, answer in self.pool.run(given):
            if answer["error"] and len(batch.jobs) > 1:
                again += alone(batch)
            else:
                self._take(batch, answer)
        if again:
            for batch, answer in self.pool.run(again):
                self._take(batch, answer)

    def _take(self, batch: Batch, answer: Answer) -> None:
        if answer["error"]:
            self.outcome.failed += [(label, answer["error"]) for job in batch.jobs for label in self.labels[job.key]]
            return
        for job, data in zip(batch.jobs, answer["results"], strict=True):
            result, labels = Result(data), self.labels[job.key]
            self.store.keep(job.key, result)
            self.outcome.ran += len(labels)
            if not result.complete:
                self.outcome.short += [(label, f"{result.ended}: {result.ended_message}") for label in labels]
        self.store.keep_measured(batch, self.pool.threads or processors(), answer)
        if self.announce:
            self.announce(self.outcome.kept + self.outcome.ran, self.outcome.total, batch)
