"""Workers of Dask's distributed scheduler: local processes, or a cluster that exists.

The network is kept out: local workers listen on loopback only and serve no web page, and a scheduler elsewhere must use
TLS. The sweep sends workers the name of one function, and JSON text.
"""

import ipaddress
import json
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mmulab import Failure, UserError
from mmulab.extras import need
from mmulab.sweep.batches import Batch
from mmulab.sweep.pools import Answer
from mmulab.sweep.work import differs_aside, run_batch

LOOPBACK = "127.0.0.1"
# Seconds until a scheduler answers, or has a worker.
PATIENCE = 30
# Workers that may die with a batch before it is given up: one whose machines are too large for the memory ends each.
DEATHS = 3
# Seconds that workers have to end by themselves.
CLOSING = 2


@dataclass(frozen=True)
class Tls:
    """Files for TLS: the authority's certificate, one's own certificate, and its key."""

    ca: str
    cert: str
    key: str


class Cluster:
    """A pool of workers behind a client of distributed."""

    # Each worker runs one batch in one thread, so that batches do not share processors.
    threads: int | None = 1

    def __init__(self, client: Any, cluster: Any | None = None) -> None:
        """`cluster`: ended with the pool; None if the user started it."""
        self._client, self._cluster = client, cluster
        self.workers = max(1, sum(client.nthreads().values()))

    def refuse_different(self, batches: Sequence[Batch]) -> None:
        """Raises UserError if a worker has another mmulab or lacks a trace: before anything is run."""
        asked = {}
        for batch in batches:
            spec = batch.spec(self.threads)
            asked[spec["trace"]] = json.dumps({key: spec[key] for key in ("mmulab", "trace", "identity")})
        for text in asked.values():
            answers = self._client.run(differs_aside, text, on_error="return")
            for worker, problem in sorted(answers.items()):
                if isinstance(problem, BaseException):
                    # The function that is asked could not be had: there is no mmulab, or one without sweeps.
                    raise UserError(
                        f"worker {worker} cannot import mmulab.sweep: {problem}\n"
                        "hint: install the same mmulab on all computers"
                    )
                if problem:
                    raise UserError(f"worker {worker}: {problem}")

    def run(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, Answer]]:
        """In the order in which they end. A batch whose worker dies is run by another one."""
        distributed = need("distributed", "distributed", "a sweep in several processes")
        futures = {}
        for batch in batches:
            # Not pure: what an earlier sweep computed under this name is not what is asked for now.
            future = self._client.submit(run_batch, json.dumps(batch.spec(self.threads)), pure=False)
            futures[future] = batch
        ended = iter(distributed.as_completed(futures, loop=self._client.loop))
        while futures:
            try:
                future = next(ended)
                answer = self._answer(future)
            except (OSError, TimeoutError, StopIteration, CancelledError) as error:
                # Of distributed, errors of connections are kinds of OSError.
                raise _lost() from error
            yield futures.pop(future), answer
            future.release()

    def _answer(self, future: Any) -> Answer:
        if future.status == "finished":
            found: Answer = json.loads(future.result())
            return found
        if future.status in ("cancelled", "lost"):
            raise _lost()
        error = future.exception()
        # Of a worker that died, distributed says so by this class only.
        died = type(error).__name__ == "KilledWorker"
        reason = "each worker that ran it died" if died else f"the worker failed: {type(error).__name__}: {error}"
        return {"results": [], "error": reason, "seconds": 0.0, "peak_bytes": 0}

    def close(self) -> None:
        """Workers of one's own are ended, whatever they do."""
        # Those that a busy computer does not end in this time end with this process.
        with suppress(TimeoutError):
            self._client.close(timeout=CLOSING)
        if self._cluster is not None:
            with suppress(TimeoutError):
                self._cluster.close(timeout=CLOSING)


def _lost() -> Failure:
    return Failure(
        "the scheduler or the connection to it was lost\n"
        "hint: finished jobs are kept; repeat the command to run the others"
    )


def local(workers: int) -> Cluster:
    """Worker processes on this computer, which end with this process."""
    distributed = distributed_package()
    # Without routes the schedulers' and workers' web servers answer nothing.
    quiet = {
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.scheduler.allowed-failures": DEATHS,
        # A worker has no batches but the one that it runs: those that wait do not share the blame for its death.
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.logging.distributed": "critical",
    }
    with need("dask.config", "dask", "a sweep in several processes").set(quiet):
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host=LOOPBACK,
            dashboard_address=f"{LOOPBACK}:0",
            worker_dashboard_address=None,
            scheduler_kwargs={"dashboard": False},
            # A batch's memory is what its machines need: no part of it can be put aside.
            memory_limit=0,
            silence_logs=logging.CRITICAL,
            preload="mmulab.sweep.undisturbed",
        )
        return Cluster(distributed.Client(cluster, set_as_default=False), cluster)


def existing(address: str, tls: Tls | None) -> Cluster:
    """The workers of a scheduler that runs already."""
    _refuse_open(address, tls)
    distributed = distributed_package()
    security = None
    if tls is not None:
        security = distributed.Security(
            tls_ca_file=tls.ca, tls_client_cert=tls.cert, tls_client_key=tls.key, require_encryption=True
        )
    try:
        client = distributed.Client(address, security=security, timeout=PATIENCE, set_as_default=False)
        client.wait_for_workers(1, timeout=PATIENCE)
    except (OSError, TimeoutError, ValueError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"--scheduler {address}: no scheduler with a worker answers: {first}\n"
            "hint: start `dask scheduler` and `dask worker` where mmulab is installed, and give the scheduler's address"
        ) from None
    return Cluster(client)


def _refuse_open(address: str, tls: Tls | None) -> None:
    """A client of a scheduler can have its workers run anything: without TLS, only loopback keeps the network out."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if not parts.hostname:
        raise UserError(f"--scheduler {address}: not an address\nhint: give tcp://127.0.0.1:PORT or tls://HOST:PORT")
    if parts.scheme == "tls":
        if tls is None:
            raise UserError(
                f"--scheduler {address}: TLS needs certificates\nhint: give --tls-ca, --tls-cert and --tls-key"
            )
        return
    if parts.scheme != "tcp" or not _is_loopback(parts.hostname):
        raise UserError(
            f"--scheduler {address}: the connection would not be encrypted, and any computer on the network could "
            "have the workers run anything\n"
            "hint: start the cluster with TLS, and give tls://HOST:PORT with --tls-ca, --tls-cert and --tls-key"
        )
    if tls is not None:
        raise UserError(
            f"--scheduler {address}: certificates are for tls:// only\nhint: give tls://, or leave them out"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def distributed_package() -> Any:
    """distributed, without its own messages."""
    found = need("distributed", "distributed", "a sweep in several processes", "or run in one process with --workers 1")
    # What it says of workers that come and go is said by the sweep in its own words.
    # Loggers below these have levels of their own.
    silent = ("distributed", "tornado", "asyncio")
    for name in [*logging.root.manager.loggerDict, *silent]:
        if name.partition(".")[0] in silent:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return found
