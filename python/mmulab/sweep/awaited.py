"""Workers that others start, a batch queue or Kubernetes: not all run at the same time, and none may be left."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from mmulab import Failure
from mmulab.sweep.batches import Batch
from mmulab.sweep.cluster import Cluster

# Seconds without any worker, after there was one, until the sweep gives up; and between two looks.
LONELY, LOOK = 600, 5


class Awaited(Cluster):
    """A pool of such workers. It may be that not all of them run at the same time, or are there yet."""

    def __init__(self, client: Any, cluster: Any, workers: int, gone: str, forget: Callable[[], None]) -> None:
        """Waits for the first worker.

        `workers`: how many were asked for. `gone`: a sentence for the case that no worker is left, with `{minutes}`.
        `forget`: removes what was made for this sweep alone.
        """
        client.wait_for_workers(1)
        super().__init__(client, cluster)
        self.workers, self._gone, self._forget = workers, gone, forget
        self._ended, self._is_alone = threading.Event(), False

    def run(self, batches: Sequence[Batch]) -> Any:
        """As for all workers; but it is given up when no worker is left for long."""
        watch = threading.Thread(target=self._watch, daemon=True)
        watch.start()
        try:
            yield from super().run(batches)
        except Failure:
            if not self._is_alone:
                raise
            raise Failure(
                f"{self._gone.format(minutes=f'{LONELY / 60:g}')}\n"
                "hint: finished jobs of the sweep are kept; repeat the command to run the others"
            ) from None

    def _watch(self) -> None:
        """Closes the connection, which ends what waits for results, if all workers ended and none comes for them."""
        alone = 0.0
        while not self._ended.wait(LOOK):
            try:
                alone = 0.0 if self._client.nthreads() else alone + LOOK
            except (OSError, RuntimeError):
                return
            if alone >= LONELY:
                self._is_alone = True
                self._client.close(timeout=LOOK)
                return

    def close(self) -> None:
        """The workers are ended, and what was made for the sweep alone is removed."""
        self._ended.set()
        try:
            super().close()
        finally:
            self._forget()
