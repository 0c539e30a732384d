"""A sweep's directory: results by their hash, what was measured of batches, and the lock of the one that writes.

Every file is written under another name first and renamed, so that a kill at any moment leaves it whole or absent.
"""

import fcntl
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmulab import Failure, UserError
from mmulab.result import Result, json_text, write_text
from mmulab.sweep.batches import Batch
from mmulab.sweep.plan import Plan

# The layout of sweep.json; another number when that changes.
LAYOUT = 1
# The start of the names of directories with certificates (`queued`).
SECRETS = ".tls-"


class Store:
    """Results of jobs in a directory."""

    def __init__(self, directory: str | Path) -> None:
        """`directory`: made by the first file that is written."""
        self.directory = Path(directory)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """No other sweep writes to the directory meanwhile. The lock ends with the process, however that ends."""
        path = self.directory / "lock"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            # Opened for appending: a sweep that does not get the lock must not empty the file.
            file = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise Failure(f"{path}: {error.strerror}\nhint: choose another directory with --out") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                owner = file.read().strip() or "another process"
                raise UserError(
                    f"{self.directory}: another sweep writes to it ({owner})\n"
                    "hint: wait until it has ended, or give another directory with --out"
                ) from None
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}\n")
            file.flush()
            yield

    def tidy(self) -> None:
        """Removes what a kill left half written. For the one that holds the lock."""
        for path in self.directory.glob("**/*.part"):
            path.unlink(missing_ok=True)
        # Certificates of a batch queue's workers.
        for path in self.directory.glob(f"{SECRETS}*"):
            shutil.rmtree(path, ignore_errors=True)

    def path(self, key: str) -> Path:
        """The file of a result."""
        return self.directory / "runs" / f"{key}.json"

    def has(self, key: str) -> bool:
        """Whether a result is kept, and whole."""
        return self.load(key) is not None

    def load(self, key: str) -> Result | None:
        """A result; None if it is not kept, or if its file was damaged from outside."""
        path = self.path(key)
        try:
            return Result.load(path) if path.exists() else None
        except UserError:
            return None

    def keep(self, key: str, result: Result) -> None:
        """Keeps a result whose sums come out. Raises Failure if they do not, or if the disk is full."""
        result.check()
        write_text(self.path(key), json_text(result.data))

    def keep_measured(self, batch: Batch, threads: int, answer: dict[str, Any]) -> None:
        """Keeps what a batch took, for forecasts."""
        job, results = batch.jobs[0], answer["results"]
        # With --skip, more instructions run than are counted.
        ran = max(int(result["counts"]["instructions"]) for result in results) + (job.options.skip or 0)
        measured = {
            "identity": job.identity,
            "options": job.options.spec(),
            "jobs": len(batch.jobs),
            "threads": threads,
            "instructions": ran,
            "seconds": answer["seconds"],
            "peak_bytes": answer["peak_bytes"],
        }
        write_text(self.directory / "measured" / f"{batch.name}.json", json.dumps(measured) + "\n")

    def measured(self) -> list[dict[str, Any]]:
        """What batches took."""
        found = []
        for path in sorted((self.directory / "measured").glob("*.json")):
            try:
                found.append(json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError):
                continue
        return found

    def forget_tables(self) -> None:
        """Removes tables of the directory: of jobs that the sweep no longer has, or without those it has now."""
        for path in self.directory.glob("*.parquet"):
            path.unlink(missing_ok=True)

    def write_manifest(self, plan: Plan) -> None:
        """Writes which jobs the sweep has, and what each is."""
        jobs = [{"key": job.key, "values": job.values} for job in plan.jobs]
        manifest = {"layout": LAYOUT, "name": plan.sweep.name, "axes": list(plan.sweep.names), "jobs": jobs}
        write_text(self.directory / "sweep.json", json_text(manifest))

    def manifest(self) -> dict[str, Any]:
        """The same, read. Raises UserError if the directory is not a sweep's."""
        path = self.directory / "sweep.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise UserError(
                f"{self.directory}: not the directory of a sweep\nhint: give the directory that `mmulab sweep` wrote"
            ) from None
        if not isinstance(found, dict) or found.get("layout") != LAYOUT:
            raise UserError(f"{path}: written by another mmulab\nhint: repeat `mmulab sweep` with the sweep file")
        return found
