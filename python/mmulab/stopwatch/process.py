"""One run of a program: its time, its faults, and, where it is asked for, samples of its pages while it runs."""

import contextlib
import ctypes
import math
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from mmulab import Failure
from mmulab.stopwatch.counters import Counters
from mmulab.stopwatch.settings import Setting

_PR_SET_THP_DISABLE = 41
_ADDR_NO_RANDOMIZE = 0x0040000
_KB = 1024
# Lines of smaps_rollup that say which pages are in force.
_KEYS = ("Rss", "AnonHugePages", "Anonymous", "ShmemPmdMapped", "FilePmdMapped", "Private_Hugetlb", "Shared_Hugetlb")
# Seconds that a server has to begin listening, and to end after SIGTERM.
READY_S, END_S = 30.0, 10.0
# Signals that end this command. They wait while a program starts: it would be left behind otherwise.
_ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
# Bytes of a failed program's standard error that are shown.
_TAIL = 400


@dataclass(frozen=True)
class Program:
    """What is run. With `bench`, the program is a server, and the client's time counts."""

    argv: Sequence[str]
    stdin: Path | None = None
    bench: str | None = None
    # Port of this computer on which the server listens.
    port: int | None = None
    # Finds the seconds that count in what the program prints; else the whole run counts.
    time: re.Pattern[str] | None = None


@dataclass
class Run:
    """What one run took."""

    wall_s: float
    user_s: float
    kernel_s: float
    minor_faults: int
    peak_bytes: int
    # What the shell would say: 128 and the signal for a program that a signal ended.
    exit_code: int
    counts: dict[str, int] = field(default_factory=dict)
    stderr: str = ""


def _begin(
    argv: Sequence[str], env: dict[str, str], setting: Setting, stdin: Path | None, out: int, err: int, pipe: int
) -> NoReturn:
    """The child: sets itself up and executes the program. An errno goes through the pipe if it cannot."""
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        os.dup2(os.open(stdin or os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        if setting.no_thp:
            ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)
        if setting.fixed_addresses:
            ctypes.CDLL(None).personality(_ADDR_NO_RANDOMIZE)
        os.execvpe(argv[0], list(argv), env)
    except OSError as error:
        os.write(pipe, str(error.errno).encode())
    except BaseException:
        os.write(pipe, b"0")
    os._exit(127)


class Child:
    """A program on its way, in a process group of its own."""

    def __init__(
        self,
        argv: Sequence[str],
        env: dict[str, str],
        setting: Setting,
        stdin: Path | None = None,
        time_in: re.Pattern[str] | None = None,
    ) -> None:
        """Starts it. Raises Failure if it cannot be executed."""
        self.time_in = time_in
        self.err = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `poll`
        self.out = tempfile.TemporaryFile() if time_in else open(os.devnull, "w+b")  # noqa: SIM115 - likewise
        reads, writes = os.pipe()
        self.begun = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            _begin(argv, env, setting, stdin, self.out.fileno(), self.err.fileno(), writes)
        os.close(writes)
        with os.fdopen(reads, "rb") as pipe:
            failed = pipe.read()
        if failed:
            os.waitpid(self.pid, 0)
            self.out.close()
            self.err.close()
            raise Failure(f"{argv[0]}: it cannot be executed: {os.strerror(int(failed))}")
        self.ended: Run | None = None

    def poll(self, block: bool) -> Run | None:
        """The run, if it is over."""
        if self.ended is None:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | (0 if block else os.WNOHANG)) is None:
                return None
            wall = time.monotonic() - self.begun
            # What it left behind would disturb the next run. Until it is waited for, its group's number is its own.
            self.kill()
            _, status, used = os.wait4(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
            self.err.seek(0)
            text = self.err.read()[-_TAIL:].decode("utf-8", "replace").strip()
            self.err.close()
            told = self._told_time()
            self.ended = Run(
                wall_s=wall if told is None else told,
                user_s=used.ru_utime,
                kernel_s=used.ru_stime,
                minor_faults=used.ru_minflt,
                peak_bytes=used.ru_maxrss * _KB,
                exit_code=code if code >= 0 else 128 - code,
                stderr=text,
            )
        return self.ended

    def _told_time(self) -> float | None:
        """Seconds that the program says it took; not a number if it does not say."""
        with self.out:
            if self.time_in is None:
                return None
            self.out.seek(0)
            found = self.time_in.search(self.out.read().decode("utf-8", "replace"))
        try:
            return float(found.group(1)) if found else math.nan
        except ValueError:
            return math.nan

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Ends it and all that it started and did not put into another group."""
        if self.ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def stop(self) -> Run:
        """Ends a server: kindly, then not."""
        self.kill(signal.SIGTERM)
        until = time.monotonic() + END_S
        while (ended := self.poll(block=False)) is None:
            if time.monotonic() > until:
                self.kill()
            time.sleep(0.005)
        return ended


def run(program: Program, setting: Setting, reports: Path, samples: list[dict[str, int]] | None = None) -> Run:
    """Runs it once. With `samples` its pages are looked at while it runs, which costs it time: not for timed runs."""
    return watched(program, setting, reports, None if samples is None else lambda pid: samples.append(pages_of(pid)))


def watched(program: Program, setting: Setting, reports: Path, look: Callable[[int], object] | None) -> Run:
    """Runs it once. With `look` the process is looked at while it runs, again and again."""
    child: Child | None = None
    with Counters() as counters:
        try:
            held = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
            try:
                child = Child(program.argv, setting.environment(reports), setting, program.stdin, program.time)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, held)
            if program.bench is not None:
                return _served(program, child, look)
            ended = child.poll(block=True) if look is None else _looked_at(child, look)
            assert ended is not None
            ended.counts = counters.read()
            return ended
        finally:
            if child is not None:
                child.kill()
                child.poll(block=True)


def _looked_at(child: Child, look: Callable[[int], object]) -> Run:
    pause = 0.001
    while (ended := child.poll(block=False)) is None:
        look(child.pid)
        time.sleep(pause)
        pause = min(0.02, pause * 1.5)
    return ended


def _served(program: Program, server: Child, look: Callable[[int], object] | None) -> Run:
    """Drives the server by the client: the client's wall time, the server's user and kernel time."""
    _wait_for(program, server)
    assert program.bench is not None
    begun = time.monotonic()
    client = subprocess.run(program.bench, shell=True, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    wall = time.monotonic() - begun
    if look is not None:
        look(server.pid)
    died = server.poll(block=False)
    if died is not None:
        raise Failure(f"{program.argv[0]}: the server ended by itself, with exit code {died.exit_code}: {died.stderr}")
    ended = server.stop()
    ended.wall_s = wall
    # How a server ends when it is asked to does not matter.
    ended.exit_code = client.returncode
    ended.stderr = client.stderr[-_TAIL:].decode("utf-8", "replace").strip()
    return ended


def _wait_for(program: Program, server: Child) -> None:
    until = time.monotonic() + (1.0 if program.port is None else READY_S)
    while time.monotonic() < until:
        if (died := server.poll(block=False)) is not None:
            raise Failure(f"{program.argv[0]}: the server ended with exit code {died.exit_code}: {died.stderr}")
        if program.port is not None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", program.port), 0.5):
                return
        time.sleep(0.01)
    if program.port is not None:
        raise Failure(f"{program.argv[0]}: nothing listens on port {program.port} after {READY_S:.0f} s")


def _family(pid: int) -> list[int]:
    """A process and its children, as far as they can be seen."""
    found = [pid]
    for at in found:
        # A process may end between any two of these lines: then it has no children, and that is no error.
        tasks: list[str] = []
        with contextlib.suppress(OSError):
            tasks = os.listdir(f"/proc/{at}/task")
        for task in tasks:
            with contextlib.suppress(OSError):
                found += [int(child) for child in Path(f"/proc/{at}/task/{task}/children").read_text().split()]
    return found


def pages_of(pid: int) -> dict[str, int]:
    """Bytes by kind of page of a process and its children (smaps_rollup)."""
    total: dict[str, int] = dict.fromkeys(_KEYS, 0)
    for one in _family(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
                key, _, rest = line.partition(":")
                if key in total:
                    total[key] += int(rest.split()[0]) * _KB
    return total


def reported(directory: Path) -> list[dict[str, Any]]:
    """What the preloaded library wrote, a dictionary for each process, with its number; files are removed."""
    found = []
    for path in sorted(directory.iterdir()):
        words = dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)
        found.append({"pid": int(path.name), **{k: int(v) if v.isdecimal() else v for k, v in words.items()}})
        path.unlink()
    return found
