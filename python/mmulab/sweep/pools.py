"""Where batches run: in this process, or in processes of a cluster."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from mmulab.sweep.batches import Batch
from mmulab.sweep.interrupts import noted
from mmulab.sweep.work import run_batch

# What a worker answers: `results`, `error`, `seconds`, `peak_bytes`.
Answer = dict[str, Any]


class Pool(Protocol):
    """Runs batches."""

    # Batches that run at once.
    workers: int
    # Threads of the engine in each batch; None leaves it to the engine.
    threads: int | None

    def run(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, Answer]]:
        """The answer to each batch, in the order in which they end."""

    def close(self) -> None:
        """Ends what was started for it, without waiting for batches that run."""


class Here:
    """This process: one batch after the other, each with as many threads as the engine finds useful."""

    workers = 1
    threads: int | None = None

    def run(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, Answer]]:
        """In their order."""
        with noted() as is_interrupted:
            for batch in batches:
                yield batch, json.loads(run_batch(json.dumps(batch.spec(self.threads))))
                if is_interrupted():
                    raise KeyboardInterrupt

    def close(self) -> None:
        """There is nothing to end."""


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))
