"""What the tests of sweeps share: a small sweep file, and the command started in a process group of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MACHINE = "skylake-e3-1240v5"
# Each job takes some hundredths of a second.
TRACES = ("gen:gups?footprint=4M&updates=3000", "gen:sequential?footprint=1M")
SMALL = f"""
name = "small"
constraints = ["entries % ways == 0", "policy == 'linux-4k' or entries > 768"]

[axes]
trace = ["{TRACES[0]}", "{TRACES[1]}"]
machine = "{MACHINE}"
policy = ["linux-4k", "linux-thp"]
entries = {{ key = "tlb.STLB.entries", values = [768, 1536] }}
ways = {{ key = "tlb.STLB.ways", values = [6, 12, 7] }}
"""
# The combinations that meet the constraints: (768, 1536 with 6 and 12 ways) under linux-4k, 1536 under linux-thp.
SMALL_JOBS = 2 * (4 + 2)
# Jobs of about 0.2 s each, so that a signal finds a sweep at work.
LONG_JOBS = 12
LONG = f"""
name = "long"
[axes]
trace = "gen:gups?footprint=64M&updates=200000"
machine = "{MACHINE}"
seed = {list(range(LONG_JOBS))}
"""


def written(directory: Path, text: str) -> Path:
    """A sweep file."""
    path = directory / "sweep.toml"
    path.write_text(text, encoding="utf-8")
    return path


@contextmanager
def started(directory: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """`mmulab sweep`, in a group of its own, which a terminal's Ctrl-C would reach as a whole."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mmulab", "sweep", *args],
        cwd=directory,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def kept(directory: Path) -> dict[str, int]:
    """The results that a sweep's directory holds, with the time at which each was written."""
    return {path.name: path.stat().st_mtime_ns for path in (directory / "runs").glob("*.json")}


def wait_until_kept(process: subprocess.Popen[str], directory: Path, least: int) -> None:
    """Returns when this number of results is kept."""
    until = time.monotonic() + 120
    while len(kept(directory)) < least:
        assert process.poll() is None, "the sweep ended early"
        assert time.monotonic() < until, "no results"
        time.sleep(0.01)


def children(process: int) -> list[int]:
    """The processes that a process has started, and those that these have."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            found += [int(status.parent.name), *children(int(status.parent.name))]
    return found


def workers(process: int) -> list[int]:
    """Of these, the workers of distributed."""
    return [pid for pid in children(process) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
