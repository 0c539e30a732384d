"""Where a workload runs: a directory, a port and processes of its own, all gone afterwards, whatever happens."""

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmulab import Failure, UserError, engine
from mmulab.ports import free_port
from mmulab.stopping import as_ctrl_c
from mmulab.units import show_bytes
from mmulab.workloads import cache
from mmulab.workloads.recipe import Json, Recipe

# The user that servers run as which refuse to serve root: in every Linux system, owning nothing.
NOBODY = "nobody"
# prctl(2): orphans of our descendants become our children, so that none is lost sight of.
PR_SET_CHILD_SUBREAPER = 36
IPC_RMID = 0
# Lines of a log that an error shows.
TAIL_LINES = 12
# How long a killed process may take to be gone.
GONE_S = 10.0
# How often it is looked which processes there are. Who lives for less leaves nothing that we would have to know of.
NOTE_S = 0.2

_libc = ctypes.CDLL(None, use_errno=True)


class Place:
    """A workload's directory, its port, its user and its processes."""

    def __init__(self, recipe: Recipe, directory: Path, port: int | None, processes: "Processes") -> None:
        """`directory` is its own; `port` is free."""
        self.directory = directory
        self.processes = processes
        self.user = pwd.getpwnam(NOBODY) if _refuses_root(recipe) else None
        files = directory / "files"
        self.values = {
            **recipe.parameters,
            "work": str(directory),
            "files": str(files),
            "cache": str(cache.directory(recipe.name)),
            "port": str(port or 0),
        }
        files.mkdir()
        if recipe.files.is_dir():
            shutil.copytree(recipe.files, files, dirs_exist_ok=True)
        if self.user:
            self.own(directory)

    def own(self, path: Path) -> None:
        """Gives what is at `path` to the workload's user."""
        if self.user:
            for each in [path, *path.rglob("*")]:
                os.chown(each, self.user.pw_uid, self.user.pw_gid)

    def fill(self, text: str) -> str:
        """A text of the recipe with its names replaced."""
        return engine.fill_braces(text, self.values)

    def start(self, step: Json, output: Path) -> "subprocess.Popen[bytes]":
        """Starts a command natively; what it says goes to `output`."""
        command = [self.fill(word) for word in step["run"]]
        env = {**os.environ, "HOME": str(self.directory), **{k: self.fill(v) for k, v in step.get("env", {}).items()}}
        who: dict[str, Any] = {}
        if self.user:
            who = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        stdout = open(self.directory / self.fill(step["output"]), "wb") if step.get("output") else None  # noqa: SIM115
        with open(output, "ab") as log, stdout or contextlib.nullcontext():
            try:
                return subprocess.Popen(
                    command,
                    cwd=self.directory,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout or log,
                    stderr=log,
                    start_new_session=True,
                    **who,
                )
            except FileNotFoundError as error:
                raise Failure(f"{command[0]}: no such program") from error

    def run(self, step: Json) -> None:
        """Runs a command to its end. Raises Failure with the end of what it said if it fails."""
        log = self.directory / "setup.log"
        status = self.start(step, log).wait()
        if status:
            raise Failure(f"{' '.join(step['run'])}: ended with status {status}{tail(log)}")


def tail(log: Path) -> str:
    """The last lines of a log, as the rest of an error."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
    except OSError:
        return ""
    return "".join(f"\n  | {line}" for line in lines)


def _refuses_root(recipe: Recipe) -> bool:
    return bool(recipe.json["unprivileged"]) and os.geteuid() == 0


@contextmanager
def a_place(recipe: Recipe, port: int | None) -> Iterator[Place]:
    """A place for the recipe. At the end, whatever happened, its processes are ended and its directory is gone."""
    port = free_port(port) if recipe.wants_port else None
    directory = Path(tempfile.mkdtemp(prefix="mmulab-"))
    try:
        # The workload's user must get in; who else does finds nothing secret.
        directory.chmod(0o755)
        room = shutil.disk_usage(directory).free
        if room < recipe.room_bytes:
            raise UserError(
                f"{directory.parent}: {show_bytes(room)} free, {recipe.name} needs {show_bytes(recipe.room_bytes)}\n"
                "hint: make room there, or name another disk with TMPDIR=DIRECTORY"
            )
        if _refuses_root(recipe):
            for each in directory.parents:
                if not each.stat().st_mode & stat.S_IXOTH:
                    raise UserError(
                        f"{each}: {NOBODY} may not enter it, and {recipe.name} does not run as root\n"
                        "hint: name a directory that all may enter with TMPDIR=DIRECTORY"
                    )
        processes = Processes()
        with as_ctrl_c():
            try:
                yield Place(recipe, directory, port, processes)
            finally:
                processes.end()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class Processes:
    """What was begun here, and what was begun by that."""

    def __init__(self) -> None:
        """What runs already is somebody else's."""
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._others = set(descendants())
        self._seen: set[int] = set()
        self._noted = 0.0

    def note(self) -> set[int]:
        """Looks who there is."""
        there = set(descendants()) - self._others
        self._seen |= there
        return there

    def note_now_and_then(self) -> None:
        """Looks again if it is a while since; to be called often."""
        if time.monotonic() - self._noted > NOTE_S:
            self._noted = time.monotonic()
            self.note()

    def end(self) -> None:
        """Ends them all, and removes the shared memory they leave."""
        # Not to be interrupted: it is over in a moment.
        quiet = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        deadline = time.monotonic() + GONE_S
        while (left := self.note()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in left:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)
        for segment, maker in _segments().items():
            if maker in self._seen:
                _libc.shmctl(segment, IPC_RMID, None)
        for each, handler in quiet.items():
            signal.signal(each, handler)


def descendants(root: int | None = None) -> list[int]:
    """All processes below `root` (default: this one), nearest first; those that ended and wait to be reaped too."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name in brackets may hold anything, blanks and brackets too (proc(5)).
                after = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                children.setdefault(int(after[1]), []).append(int(entry.name))
    found: list[int] = []
    front = [root or os.getpid()]
    while front:
        front = sorted(child for pid in front for child in children.get(pid, []))
        found += front
    return found


def _segments() -> dict[int, int]:
    """System V shared memory that nobody is attached to: its numbers, and who made it (proc(5), sysvipc/shm)."""
    try:
        head, *rows = Path("/proc/sysvipc/shm").read_text().splitlines()
    except OSError:
        return {}
    at = {name: i for i, name in enumerate(head.split())}
    parsed = [row.split() for row in rows]
    return {int(r[at["shmid"]]): int(r[at["cpid"]]) for r in parsed if r[at["nattch"]] == "0"}
