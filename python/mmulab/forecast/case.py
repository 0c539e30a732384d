"""A program of the page of forecasts: how it is run, under which page settings, and what it needs to be there."""

import getpass
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mmulab import UserError, paths
from mmulab.ports import free_port
from mmulab.stopwatch.process import Program

# What `mmulab-kernel` prints of the part that begins when its data are ready.
KERNEL_TIME = re.compile(r"rounds in ([0-9.]+) s")
# The settings that every program is timed under; the second is what is scored.
BASE, LARGE = "4k", "thp"
_CLIENT = Path(__file__).parent / "client.py"


@dataclass(frozen=True)
class Case:
    """A program, timed and modelled.

    In its words {dir} is a directory for its files, {port} a free port and {user} who runs it.
    """

    name: str
    # What bounds it, in a word or two.
    bound: str
    # A generator's algorithm as a program: its name and keys. Else a program of the system and its arguments.
    kernel: bool
    command: tuple[str, ...]
    # Debian's package that has the program.
    package: str = ""
    # Makes the program's files in {dir}: a shell command.
    prepare: str = ""
    # The program is a server: the words after `client.py` for the client that drives it.
    client: tuple[str, ...] = ()
    # Settings of the stopwatch beside `BASE` and `LARGE`.
    more: tuple[str, ...] = ()
    # Memory that it takes, in GB.
    gigabytes: float = 1.0

    @property
    def file_name(self) -> str:
        """What its files are called, without their endings."""
        return self.name.replace(" ", "-").lower()

    @property
    def settings(self) -> tuple[str, ...]:
        """The stopwatch's settings."""
        return (BASE, LARGE, *self.more)

    @property
    def time_key(self) -> str:
        """The stopwatch's time that counts.

        Kernels print theirs. Of other programs it is the time in user mode: page faults and the start of a process are
        no part of the model's cycles.
        """
        return "wall_s" if self.kernel else "user_s"

    def why_not(self) -> str | None:
        """Why it cannot be run here; None if it can."""
        if not self.kernel and _found(self.command[0]) is None:
            return f"not installed: {self.command[0]} (Debian's package {self.package})"
        if self.gigabytes > _available():
            return f"not enough memory: it takes {self.gigabytes:g} GB"
        return None

    def argv(self, directory: Path, port: int = 0) -> list[str]:
        """What is executed. Raises UserError for a program that is not installed."""
        if self.kernel:
            return [str(paths.kernel()), *self.command]
        found = _found(self.command[0])
        if found is None:
            raise UserError(f"{self.name}: {self.why_not()}\nhint: install it, or leave the case out")
        return [found, *(_filled(word, directory, port) for word in self.command[1:])]

    def program(self, directory: Path) -> Program:
        """For the stopwatch. A server gets a port that is free now."""
        if not self.client:
            return Program(self.argv(directory), time=KERNEL_TIME if self.kernel else None)
        port = free_port()
        return Program(self.argv(directory, port), bench=shlex.join(self.drive(port)), port=port)

    def drive(self, port: int, *more: str) -> list[str]:
        """The client of a server on `port`."""
        kind, *words = self.client
        return [sys.executable, "-I", str(_CLIENT), kind, str(port), *words, *more]


def _filled(word: str, directory: Path, port: int) -> str:
    for name, value in (("{dir}", str(directory)), ("{port}", str(port)), ("{user}", getpass.getuser())):
        word = word.replace(name, value)
    return word


def _found(program: str) -> str | None:
    """Where a program is. gcc knows where its compiler proper is: gcc itself only starts others."""
    if program != "cc1":
        return shutil.which(program)
    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    asked = subprocess.run([gcc, "-print-prog-name=cc1"], capture_output=True, text=True, check=False)
    return shutil.which(asked.stdout.strip())


def _available() -> float:
    """Memory that programs may have, in GB; without /proc/meminfo any amount."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return float("inf")
    return next((int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith("MemAvailable:")), float("inf"))
