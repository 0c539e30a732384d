"""Small traces that ask for much: each is refused, or can be interrupted, before it takes all memory."""

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Cli

MACHINE = "compendia-baseline"
# What a command may take in all, where without limits these traces take tens of gigabytes.
MEMORY = 6 << 30


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that are run have so much address space and no more."""
    popen = subprocess.Popen

    def limited(*args: object, **others: object) -> object:
        others["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        return popen(*args, **others)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", limited)


def forks(path: Path) -> Path:
    """20,000 mappings, and 20,000 children that have them all."""
    maps = "".join(f"mmap {0x10000000 + n * 8192} 4K rw anon\n" for n in range(20_000))
    children = "".join(f"fork {pid}\n" for pid in range(2, 20_002))
    path.write_text(maps + "w 0x10000000\n" + children)
    return path


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "words",
    [
        ("trace", "info"),
        ("run", MACHINE, "--trace"),
        ("run", MACHINE, "--touched", "--trace"),
        ("pages", MACHINE, "--trace"),
    ],
    ids=["info", "run", "touched", "pages"],
)
def test_mappings_times_forks_are_refused(cli: Cli, words: tuple[str, ...]) -> None:
    """CHANGELOG number 18: 400 million mappings of a file of 500 KB."""
    forks(cli.cwd / "forks.mmtx")
    ran = cli(*words, "forks.mmtx")
    assert ran.code == 1, (ran.code, ran.err)
    assert "more than 1048576 mappings" in ran.err


@pytest.mark.usefixtures("little_memory")
def test_a_huge_count_of_frames_is_refused(cli: Cli) -> None:
    """CHANGELOG number 18: one line that says where 2^40 pages lay."""
    (cli.cwd / "frames.mmtx").write_text(f"frames 0x0 0x0 4K x{1 << 40}\nr 0x1000\n")
    ran = cli("pages", MACHINE, "--trace", "frames.mmtx")
    assert ran.code == 1, (ran.code, ran.err)
    assert "more than 16777216 pages in frames" in ran.err


@pytest.mark.parametrize("command", [("run", "--json"), ("explain",), ("run", "--misses", "misses.mmt")], ids="-".join)
def test_populating_a_terabyte_hears_ctrl_c(tmp_path: Path, command: tuple[str, ...]) -> None:
    """CHANGELOG number 18: one event that takes minutes ends when the user wants it to."""
    (tmp_path / "big.mmtx").write_text("mmap 0x10000000000 1T rw anon populate\nw 0x10000000000\n")
    name, *more = command
    words = [name, MACHINE, *more, "--trace", "big.mmtx", "--set", "memory.size=256G"]
    with subprocess.Popen(
        [sys.executable, "-m", "mmulab", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as work:
        # It is in the middle of it once it has taken memory for it.
        status = Path(f"/proc/{work.pid}/statm")
        while int(status.read_text().split()[1]) < 40_000 and work.poll() is None:
            time.sleep(0.05)
        assert work.poll() is None
        work.send_signal(signal.SIGINT)
        asked = time.monotonic()
        _, err = work.communicate(timeout=120)
        took = time.monotonic() - asked
    assert work.returncode == 130, err
    assert took < 60
