"""Partial simulation: one recording of a program, run under each mosaic, and as it was not timed, for its counts."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmulab import Failure, engine, paths
from mmulab.engine import Job, Options, ProgressCallback
from mmulab.result import json_text, write_text
from mmulab.stopwatch import mosaics
from mmulab.stopwatch.mosaics import Pool, Segment
from mmulab.stopwatch.process import Program, reported
from mmulab.stopwatch.settings import Part

Json = dict[str, Any]
# 2 MB pages where a mosaic advises them, and nowhere else.
POLICY, ADVISED = "linux-thp", "policy.thp.enabled=madvise"
# Lines of data lie in the caches beside those of page tables, so that walks take the time that they take beside data.
CACHES = "cache_rules.data=true"


@dataclass(frozen=True)
class Counted:
    """What a run counted: second-level hits, walks, and cycles of walks."""

    hits: int
    walks: int
    cycles: int

    @property
    def features(self) -> tuple[int, int, int]:
        """In the model's order."""
        return self.hits, self.walks, self.cycles


@dataclass(frozen=True)
class Recorded:
    """A recording, and where the program's pool is in it."""

    trace: str
    pool: list[Segment]

    def write(self, path: Path) -> None:
        """Keeps it beside its recording."""
        write_text(path, json_text({"trace": self.trace, "pool": [vars(segment) for segment in self.pool]}))

    @classmethod
    def read(cls, path: Path) -> "Recorded":
        """What `write` kept."""
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(found["trace"], [Segment(**segment) for segment in found["pool"]])


def record(
    program: Program, pool: Pool, target: Path, progress: ProgressCallback | None = None, gate: int | None = None
) -> Recorded:
    """Records the program with its memory in the pool of the mosaics, on base pages. Raises Failure if it fails.

    `gate`: the address of a page; what the program does while it has it mapped is not recorded.
    """
    with tempfile.TemporaryDirectory(prefix="mmulab-try-") as directory:
        reports = Path(directory)
        env = mosaics.recorded(pool).environment(reports, {})
        done = engine.record(
            {
                "output": str(target),
                "command": list(program.argv),
                "plugin": str(paths.plugin()),
                "fixed_layout": True,
                "gate": gate,
                "env": [list(pair) for pair in env.items()],
                "stdin": str(program.stdin) if program.stdin is not None else "/dev/null",
                "quiet": True,
            },
            progress,
        )
        found = mosaics.largest(reported(reports))
    if done.get("exit_status"):
        raise Failure(f"{program.argv[0]}: recorded, it ended with status {done['exit_status']}")
    if not found:
        raise Failure(f"{program.argv[0]}: recorded, it did not load the library that tells where its memory is")
    return Recorded(str(target), found)


def counted(
    recorded: Recorded,
    layouts: Sequence[Sequence[Part]],
    machine: Job,
    options: Options,
    progress: ProgressCallback | None = None,
) -> list[Counted]:
    """Counts under each layout. Of `machine` the name and what is set count; raises KeyboardInterrupt when stopped."""
    job = Job(machine.machine, POLICY, (*machine.sets, CACHES, ADVISED))
    found = []
    for parts in layouts:
        ranges = [{"start": start, "end": end} for start, end in mosaics.addresses(parts, recorded.pool)]
        shape = {**(options.reshape or {}), "huge": ranges}
        found.append(_run(recorded.trace, job, replace(options, reshape=shape), progress))
    return found


def forecast(recorded: Recorded, job: Job, options: Options, progress: ProgressCallback | None = None) -> Counted:
    """Counts on a machine and under a policy that were not timed."""
    return _run(recorded.trace, replace(job, sets=(*job.sets, CACHES)), options, progress)


def _run(trace: str, job: Job, options: Options, progress: ProgressCallback | None) -> Counted:
    (result,) = engine.run(trace, [job], options, progress).whole()
    tlb, walks = result.counts["tlb"], result.counts["walks"]
    kinds = ("data", "instruction")
    return Counted(
        hits=tlb["l2d"]["hits"] + tlb["l2i"]["hits"],
        walks=sum(walks[kind]["completed"] for kind in kinds),
        cycles=sum(walks[kind]["cycles"] for kind in kinds),
    )
