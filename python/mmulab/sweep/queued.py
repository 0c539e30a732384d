"""Workers as jobs of a batch queue (Slurm, PBS, LSF): `[cluster]` of a sweep file, by dask-jobqueue.

The command is the scheduler, and submits jobs that start workers. They connect by TLS with certificates that are made
for this sweep. The certificates lie in its directory, readable by the user alone, and go when it ends. So the directory
must be on a file system that the computers share.
"""

import logging
import re
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from mmulab import Failure, UserError
from mmulab.extras import need
from mmulab.sweep.awaited import LOOK, Awaited
from mmulab.sweep.cluster import DEATHS, LOOPBACK, distributed_package
from mmulab.sweep.queue import Queue
from mmulab.sweep.store import SECRETS

# The class of dask-jobqueue for each queue, and its word for the account that pays.
CLASSES = {"slurm": ("SLURMCluster", "account"), "pbs": ("PBSCluster", "account"), "lsf": ("LSFCluster", "project")}
_SERVES = "a sweep by a batch queue"
_GONE = "no job of the queue has been running for {minutes} minutes; perhaps all reached the walltime"


def described(queue: Queue, directory: str) -> dict[str, Any]:
    """What dask-jobqueue takes. `directory`: where certificates are put for the workers."""
    _, account = CLASSES[queue.kind]
    # LSF has no seconds, and Slurm reads two numbers as minutes and seconds.
    minutes = -(-queue.walltime // 60)
    lasts = f"{minutes // 60:02}:{minutes % 60:02}"
    if queue.kind != "lsf":
        lasts = f"{queue.walltime // 3600:02}:{queue.walltime // 60 % 60:02}:{queue.walltime % 60:02}"
    given = {"queue": queue.queue, account: queue.account, "interface": queue.interface}
    return {
        "job_name": "mmulab-sweep",
        "cores": queue.workers,
        "processes": queue.workers,
        "memory": f"{queue.memory}B",
        "walltime": lasts,
        "job_extra_directives": list(queue.directives) or None,
        "job_script_prologue": list(queue.prologue) or None,
        # Without routes, a worker's web server answers nothing.
        "python": f"env DASK_DISTRIBUTED__WORKER__HTTP__ROUTES=[] {sys.executable}",
        # Of two limits the last one counts. A batch's memory is what its machines need: the queue limits it, not Dask.
        "worker_extra_args": ["--no-dashboard", "--memory-limit", "0"],
        "scheduler_options": {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"},
        "shared_temp_directory": directory,
        # Made anew for this sweep: only its workers and its client have them.
        "security": True,
        "silence_logs": logging.CRITICAL,
        **{key: value for key, value in given.items() if value is not None},
    }


def _forget(cluster: Any, secrets: tempfile.TemporaryDirectory[str]) -> None:
    """Removes the certificates, of which the cluster has open files."""
    for part in ("ca_file", "cert", "key"):
        if (file := getattr(cluster, f"_job_{part}", None)) is not None:
            file.close()
    secrets.cleanup()


def submitted(queue: Queue, directory: Path) -> Awaited:
    """Submits the jobs, and waits for the first worker."""
    module = need("dask_jobqueue", "dask-jobqueue", _SERVES, extra="cluster")
    need("cryptography", "cryptography", _SERVES, extra="cluster")
    distributed = distributed_package()
    described_jobs = getattr(module, CLASSES[queue.kind][0])
    if shutil.which(command := described_jobs.job_cls.submit_command.split()[0]) is None:
        raise UserError(
            f"{queue.kind}: the command {command} is not here\n"
            "hint: run the sweep where jobs are submitted; or --workers N runs it on this computer"
        )
    if re.search(r"[\s'\"$\\]", f"{directory.resolve()}{sys.executable}"):
        raise UserError(
            f"{directory.resolve()}: a job's script cannot have this path, or that of Python ({sys.executable})\n"
            "hint: give a directory without spaces and quotes with --out"
        )
    secrets = tempfile.TemporaryDirectory(prefix=SECRETS, dir=directory.resolve(), ignore_cleanup_errors=True)
    quiet = {"distributed.scheduler.http.routes": [], "distributed.scheduler.allowed-failures": DEATHS}
    quiet |= {"distributed.scheduler.worker-saturation": 1.0, "distributed.logging.distributed": "critical"}
    cluster = None
    try:
        with need("dask.config", "dask", _SERVES).set(quiet):
            cluster = described_jobs(**described(queue, secrets.name))
            client = distributed.Client(cluster, set_as_default=False)
            cluster.scale(jobs=queue.jobs)
            # A command that is not there, or refuses, is an error of the first submission.
            cluster.sync(cluster._correct_state)
        return Awaited(client, cluster, queue.total, _GONE, partial(_forget, cluster, secrets))
    except (OSError, RuntimeError, ValueError) as error:
        if cluster is not None:
            cluster.close(timeout=LOOK)
        _forget(cluster, secrets)
        first = next(filter(None, str(error).splitlines()), type(error).__name__)
        raise Failure(
            f"{queue.kind} took no job: {first}\n"
            "hint: run the sweep where jobs are submitted, and see [cluster] in its file"
        ) from None
    except BaseException:
        # Ctrl-C while it waits in the queue: the jobs go, too.
        if cluster is not None:
            cluster.close(timeout=LOOK)
        _forget(cluster, secrets)
        raise
