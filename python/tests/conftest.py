"""What the tests of the command line share."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bench import Bench
from forked import SECONDS, Ended, Forks

CHECKOUT = Path(__file__).resolve().parents[2]
# A program small enough for any test: 2000 rounds of a fetch, a load and a store.
SMALL = "gen:gups?footprint=1M&updates=2000"
# No colour on a wide terminal.
PLAIN = {"NO_COLOR": "1", "COLUMNS": "120"}
# Compiles C with options; the program.
Build = Callable[..., Path]
# The files whose tests take longest. They begin first: last, one of them would run alone while other cores are idle.
LONGEST = (
    "test_guide.py",
    "test_claims_elastic_scaled.py",
    "test_together.py",
    "test_mosmodel.py",
    "test_record_system.py",
    "test_reproduce_instruction.py",
)
# Started by the first command of this worker.
_forks: Forks | None = None

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell: programs under test would inherit this, and hear no Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # Started by nohup(1): the same of a terminal that is closed.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@dataclass(frozen=True)
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Its data."""
        return json.loads(self.out)


def _ran(words: list[str], cwd: Path, env: dict[str, str]) -> Ended | subprocess.CompletedProcess[str]:
    """Runs the command: as a fork if that is the same, else with an interpreter of its own."""
    global _forks
    if _forks is None:
        _forks = Forks({**os.environ, **PLAIN})
    if _forks.takes(env):
        return _forks.run(words, cwd, env)
    return subprocess.run(
        [sys.executable, "-m", "mmulab", *words],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


class Cli:
    """Runs `mmulab` as a user does, in a directory of its own."""

    def __init__(self, cwd: Path) -> None:
        """`cwd`: where it runs."""
        self.cwd = cwd

    def __call__(self, *args: str | Path, **env: str) -> Ran:
        """Runs it without colour on a wide terminal."""
        ran = _ran([*map(str, args)], self.cwd, {**os.environ, **PLAIN, **env})
        assert "Traceback" not in ran.stderr or env.get("MMULAB_TRACEBACK"), ran.stderr
        return Ran(ran.returncode, ran.stdout, ran.stderr)


def pytest_make_parametrize_id(val: object) -> str | None:
    """The name of a parameter in a test's name. Contents are not part of it: what packs them may add the time."""
    return "bytes" if isinstance(val, bytes) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first, in this order."""
    assert all((Path(__file__).parent / name).exists() for name in LONGEST), "a file of LONGEST has another name now"
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(LONGEST)))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Runs programs, its files in an empty directory."""
    return Bench(tmp_path)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command, in an empty directory."""
    return Cli(tmp_path)


@pytest.fixture(scope="session")
def study_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of a small generated program on two machines."""
    directory = tmp_path_factory.mktemp("study")
    ran = Cli(directory)(
        "study", "gen:gups?footprint=32M&updates=20000", "--machines", "skylake-e3-1240v5,zen3-5900x", "--out", "out"
    )
    assert ran.code == 0, ran.err
    return directory / "out"


def complete(cli: Cli, trace: str, *others: str) -> None:
    """Every reference of the trace must be to memory that its events map: the address space is whole."""
    ran = cli("run", "skylake-e3-1240v5", "--trace", trace, "--unmapped", "stop", "--json", *others)
    assert ran.code == 0, ran.err
    assert ran.json()["complete"]
    if others:
        image = ran.json()["trace"]["reshaped"]["image"]
        assert image["left"] == []
        assert len(image["files"]) >= 3


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Compiles a program."""

    def compile_it(source: str, *options: str) -> Path:
        (tmp_path / "program.c").write_text(source)
        told = ["-O1", "-pthread", "-w", *options]
        subprocess.run(["cc", *told, "-o", "program", "program.c"], cwd=tmp_path, check=True)
        return tmp_path / "program"

    return compile_it
