"""Runs `mmulab` for tests in children of one process that has imported it: the imports take longer than most commands.

Each command still is a process of its own, with its own directory, environment, standard streams, signals and exit
code. Only what an interpreter reads when it starts is that of the process that forks. So a command whose environment
differs in anything else than `MAY_DIFFER` is given an interpreter of its own (`Forks.takes`).

    pytest worker --request: one line of JSON--> this file as a program --fork--> `python -m mmulab`, in effect
                  <-----exit code, one line----- (waits for its child)
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import subprocess
import sys
import tempfile
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Variables that nothing reads before a command runs.
MAY_DIFFER = {"HOME", "MMULAB_TRACEBACK", "OLDPWD", "PATH", "PWD", "PYTEST_CURRENT_TEST", "TMPDIR", "XDG_CACHE_HOME"}
# Commands import these when they need them, and many do.
IMPORTED = ("matplotlib.pyplot", "mmulab.cli.progress", "mmulab.study.report", "mmulab.study.terminal")
SECONDS = 1800


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


class Forks:
    """The process that forks, started when it is first needed. It ends with the process that asks it."""

    def __init__(self, env: dict[str, str]) -> None:
        """`env`: the environment that commands share."""
        self.env = env
        # A fork copies one thread only, so there must be no second one: OpenBLAS would start some.
        own = {**env, "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=own, cwd="/"
        )

    def takes(self, env: dict[str, str]) -> bool:
        """Whether a command with this environment may be a fork."""
        return all(self.env.get(key) == env.get(key) for key in (self.env.keys() | env.keys()) - MAY_DIFFER)

    def run(self, words: list[str], cwd: Path, env: dict[str, str]) -> Ended:
        """Runs one command to its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with tempfile.TemporaryDirectory() as directory:
            out, err = Path(directory) / "out", Path(directory) / "err"
            request = {"words": words, "cwd": str(cwd), "env": env, "out": str(out), "err": str(err)}
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], SECONDS)[0]:
                self.process.kill()
                raise subprocess.TimeoutExpired(words, SECONDS)
            answer = self.process.stdout.readline()
            assert answer, f"the process that forks has ended: {self.process.wait()}"
            return Ended(int(answer), out.read_text("utf-8"), err.read_text("utf-8"))


def _next_request() -> bytes:
    """One line of standard input, and no byte more: children inherit what is buffered."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 1 << 16)
        if not part:
            return b""
        line += part
    return line


def _become(request: dict[str, Any]) -> None:
    """Makes this child what a command's process is when its interpreter has started."""
    for number, (path, flags) in enumerate(
        [
            (os.devnull, os.O_RDONLY),
            (request["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
            (request["err"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        ]
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = ["mmulab", *request["words"]]
    # As `python -m` has it.
    sys.path[0] = request["cwd"]


def serve() -> bool:
    """Forks a child for each request. True in a child, which is to run its command; False when nobody asks any more."""
    while line := _next_request():
        threads = len(os.listdir("/proc/self/task"))
        assert threads == threading.active_count() == 1, f"{threads} threads: a fork would copy one of them"
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
            return True
        _, status = os.waitpid(child, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))
    return False


def _command() -> int:
    """Runs the command of this child; its exit code."""
    try:
        runpy.run_module("mmulab", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    return 1


if __name__ == "__main__":
    from mmulab.cli.app import app

    app.loaded()
    for name in IMPORTED:
        importlib.import_module(name)
    # Children that look for garbage would copy every page that they share.
    gc.collect()
    gc.freeze()
    if serve():
        code = _command()
        # All that an interpreter does at its end but for taking each module apart, which takes longest.
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
