"""Settings of the system that are changed for a run and put back, whatever ends the command.

A process of its own waits for the end of this one, even by SIGKILL, and then writes the old values.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from mmulab import Failure

# Runs in the guardian: reads the old values, waits for the pipe to end, writes them.
_GUARDIAN = """
import json, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
old = json.loads(sys.stdin.readline())
sys.stdin.read()
failed = 0
for path, value in old.items():
    try:
        with open(path, "w") as file:
            file.write(value)
    except OSError as error:
        failed = 1
        print(f"{path}: {error.strerror}: it was {value}", file=sys.stderr)
sys.exit(failed)
"""


def value(path: Path) -> str:
    """The value of a setting: the chosen word, of one that lists all."""
    text = path.read_text(encoding="utf-8").strip()
    chosen = text.partition("[")[2].partition("]")[0]
    return chosen or text


class Borrowed:
    """Settings that may be changed until the block ends."""

    def __init__(self, paths: list[Path]) -> None:
        """The files of the settings."""
        self.paths = paths

    def __enter__(self) -> "Borrowed":
        """Notes the values as they are, and has them guarded."""
        self.old = {path: value(path) for path in self.paths}
        self.now = dict(self.old)
        command = [sys.executable, "-I", "-c", _GUARDIAN]
        self.guardian = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        assert self.guardian.stdin is not None
        self.guardian.stdin.write(json.dumps({str(p): v for p, v in self.old.items()}).encode() + b"\n")
        self.guardian.stdin.flush()
        # The programs that are run must not hold the pipe.
        os.set_inheritable(self.guardian.stdin.fileno(), False)
        return self

    def set(self, wanted: dict[Path, str]) -> None:
        """Has exactly these values in force; settings that are not named have their old ones."""
        for path, old in self.old.items():
            new = wanted.get(path, old)
            if self.now[path] != new:
                try:
                    path.write_text(new)
                except OSError as error:
                    raise Failure(
                        f"{path}: {error.strerror}: --system needs the right to change it\nhint: run it as root"
                    ) from None
                self.now[path] = new

    def __exit__(self, *_: object) -> None:
        """Puts them back."""
        assert self.guardian.stdin is not None
        self.guardian.stdin.close()
        if self.guardian.wait() != 0:
            raise Failure("settings of the system could not be put back: see above")
