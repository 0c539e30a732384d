"""`[cluster]` of a sweep file: the jobs of a batch queue (Slurm, PBS, LSF) that start workers, read and checked."""

import re
from dataclasses import dataclass
from typing import Any

from mmulab import UserError
from mmulab.sweep.keys import only_known, parse_count, parse_memory

KINDS = ("slurm", "pbs", "lsf")
KEYS = ("kind", "jobs", "workers", "memory", "walltime", "queue", "account", "interface", "directives", "prologue")
JOBS_MAX = 10_000
WORKERS_MAX = 1024


@dataclass(frozen=True)
class Queue:
    """The jobs that are submitted, each with workers that run one batch at a time."""

    kind: str
    # Bytes of each job, for all its workers.
    memory: int
    jobs: int = 1
    workers: int = 1
    # Seconds.
    walltime: int = 3600
    queue: str | None = None
    account: str | None = None
    # The network interface by which workers reach the command; None lets Dask choose.
    interface: str | None = None
    # Lines of the job's script: for the queue, and for the shell before a worker starts.
    directives: tuple[str, ...] = ()
    prologue: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Workers of all jobs."""
        return self.jobs * self.workers

    @property
    def asked(self) -> str:
        """What is asked for, for people."""
        return f"{self.jobs:,} jobs"


def parse_queue(table: dict[str, Any], place: str) -> Queue:
    """`[cluster]` of a sweep file. Raises UserError for what is wrong in it."""
    only_known(table, KEYS, place, "a cluster")
    memory = parse_memory(table, place, "job")
    return Queue(
        str(table["kind"]),
        memory,
        jobs=parse_count(table, "jobs", JOBS_MAX, place),
        workers=parse_count(table, "workers", WORKERS_MAX, place),
        walltime=_walltime(table.get("walltime", "1:00:00"), f"{place}.walltime"),
        queue=_text(table, "queue", place),
        account=_text(table, "account", place),
        interface=_text(table, "interface", place),
        directives=_lines(table, "directives", place),
        prologue=_lines(table, "prologue", place),
    )


def _text(table: dict[str, Any], key: str, place: str) -> str | None:
    found = table.get(key)
    if found is not None and not (isinstance(found, str) and re.fullmatch(r"[\w.@:/+-]+", found)):
        raise UserError(f"{place}.{key}: {found!r}: give a name without spaces")
    return found


def _lines(table: dict[str, Any], key: str, place: str) -> tuple[str, ...]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(line, str) and line and "\n" not in line for line in found):
        raise UserError(f"{place}.{key}: {found!r}: give a list of lines")
    return tuple(found)


def _walltime(given: Any, place: str) -> int:
    parts = re.fullmatch(r"(\d{1,4}):([0-5]\d)(?::([0-5]\d))?", given) if isinstance(given, str) else None
    seconds = sum(int(part or 0) * of for part, of in zip(parts.groups(), (3600, 60, 1), strict=True)) if parts else 0
    if not seconds:
        raise UserError(f'{place}: {given!r}: give hours, minutes and seconds, as "2:00:00"')
    return seconds
