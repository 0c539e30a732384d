"""Workers of one test run agree on the tests, whatever differs between them (CHANGELOG number 0)."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import CHECKOUT

# Python that collects the tests. `clock` is the seconds that are added to the time. If `turned`, directories list their
# files in the other order, to another user of a machine with one processor.
COLLECT = """
import os, sys, time
clock, turned = float(sys.argv[1]), sys.argv[2] == "turned"
real, real_ns = time.time, time.time_ns
time.time = lambda: real() + clock
time.time_ns = lambda: real_ns() + int(clock * 1e9)
if turned:
    listed, scanned = os.listdir, os.scandir
    class Scan(list):
        def __enter__(self): return self
        def __exit__(self, *error): pass
        def __next__(self): return self.pop()
        def close(self): pass
    os.listdir = lambda *path: sorted(listed(*path), reverse=True)
    os.scandir = lambda *path: Scan(sorted(scanned(*path), key=lambda entry: os.fsdecode(entry.name), reverse=True))
    os.cpu_count = lambda: 1
    os.sched_getaffinity = lambda process: {0}
    os.getuid = os.geteuid = lambda: 12345
import pytest
sys.exit(pytest.main(["--collect-only", "-p", "no:cacheprovider", "-p", "no:xdist"]))
"""


def collected(tmp_path: Path, clock: float, order: str, **env: str) -> list[str]:
    """The tests, in their order, as a process of its own finds them."""
    (tmp_path / "home").mkdir(exist_ok=True)
    own = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp_path / "home"), **env}
    # Where the package under test is, if it is not the checkout's.
    own |= {key: value for key, value in os.environ.items() if key == "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, "-c", COLLECT, str(clock), order],
        cwd=CHECKOUT,
        env=own,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    return [line for line in ran.stdout.splitlines() if "::" in line]


def test_the_tests_do_not_depend_on_time_hashes_order_user_or_processor(tmp_path: Path) -> None:
    """pytest-xdist refuses to run if two workers collect different tests."""
    first = collected(tmp_path, 0, "as-is", PYTHONHASHSEED="1", TZ="UTC", LANG="C.UTF-8")
    second = collected(
        tmp_path, 40_000_000.7, "turned", PYTHONHASHSEED="2", TZ="Asia/Tokyo", LANG="C", TMPDIR=str(tmp_path)
    )
    assert len(first) > 500
    assert first == second
