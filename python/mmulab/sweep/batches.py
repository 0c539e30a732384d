"""Batches: several jobs over one decoding of their trace, run by one worker."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmulab.sweep.identity import digest, release
from mmulab.sweep.plan import SweepJob

# Jobs of a batch, at most. Decoding costs less than one job, so that a larger batch gains little. A lost batch is run
# again as a whole, and the memory of all its jobs is in use at once.
BATCH_MAX = 16
# The same where jobs have the same first-level TLBs: each but the first of them runs misses only.
SHARED_MAX = 64
# Jobs of one first level from which on a batch is of such jobs.
ALIKE = 4
# Batches for each of several workers, so that all have work until the end.
ROUNDS = 2


@dataclass(frozen=True)
class Batch:
    """Jobs of one trace."""

    jobs: tuple[SweepJob, ...]

    @property
    def name(self) -> str:
        """A hash of the jobs."""
        return digest([job.key for job in self.jobs])[:16]

    def spec(self, threads: int | None) -> dict[str, Any]:
        """As a worker takes it, which compares mmulab, the trace and the descriptions with its own."""
        first = self.jobs[0]
        return {
            "mmulab": release(),
            "trace": first.trace,
            "identity": first.identity,
            "options": {**first.options.spec(), "threads": threads},
            "jobs": [
                {
                    "machine": job.job.machine,
                    "policy": job.job.policy,
                    "sets": list(job.job.sets),
                    "host_policy": job.job.host_policy,
                    "described": job.described,
                }
                for job in self.jobs
            ],
        }


def batches(jobs: Sequence[SweepJob], workers: int, most: int | None = None) -> list[Batch]:
    """The jobs in batches of at most `most`. Jobs with one hash are run once, and jobs of one first level together."""
    once = list({job.key: job for job in jobs}.values())
    # All but the name of a trace is in the hash: jobs over copies of one trace share a decoding, too.
    groups: dict[str, list[SweepJob]] = {}
    for job in once:
        groups.setdefault(job.identity, []).append(job)
    given = []
    for group in groups.values():
        group.sort(key=lambda job: job.first_level)
        is_alike = len(group) >= ALIKE * len({job.first_level for job in group})
        # Each batch simulates its first level anew, so that there are as few as there are workers.
        rounds = ROUNDS if workers > 1 and not is_alike else 1
        size = most or min(SHARED_MAX if is_alike else BATCH_MAX, max(1, -(-len(once) // (workers * rounds))))
        given += [Batch(tuple(group[at : at + size])) for at in range(0, len(group), size)]
    return given


def alone(batch: Batch) -> list[Batch]:
    """Each job of a batch as a batch."""
    return [Batch((job,)) for job in batch.jobs]
