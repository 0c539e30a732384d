"""The recorder in a process of its own: its program may be another user's, and servers are driven meanwhile."""

import ctypes
import json
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from mmulab import Failure, UserError, engine
from mmulab.engine import ProgressCallback
from mmulab.workloads.place import Place, descendants
from mmulab.workloads.recipe import Json

# prctl(2): whoever changed its user may not be looked into by that user, unless it says so; QEMU opens a file of ours.
PR_SET_DUMPABLE = 4


class Recorder:
    """A recording that goes on in a child of this process."""

    def __init__(self, place: Place, spec: Json, stdin: Path | None, log: Path) -> None:
        """`spec` is what the engine takes; the program reads `stdin` and writes to `log`."""
        self._place = place
        self.on_progress: ProgressCallback | None = None
        self._pending = b""
        self._answer: Json | None = None
        self._pipe, theirs = os.pipe()
        self.log = log
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._pipe)
            _child(place, spec, stdin, log, theirs)
        os.close(theirs)

    def poll(self, wait_s: float = 0.0) -> bool:
        """Passes on what the recording tells, waiting for it at most this long. Whether the recording is over."""
        while self._answer is None and select.select([self._pipe], [], [], wait_s)[0]:
            part = os.read(self._pipe, 1 << 16)
            if not part:
                self._answer = {"failure": "the recorder ended without a word"}
                break
            *lines, self._pending = (self._pending + part).split(b"\n")
            for line in lines:
                said = json.loads(line)
                if "progress" not in said:
                    self._answer = said
                elif self.on_progress is not None:
                    self.on_progress(said["progress"])
            wait_s = 0.0
        if self._answer is not None and self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
            os.waitpid(self.pid, 0)
        return self._answer is not None

    def wait(self, done: Callable[[], bool], seconds: float = float("inf"), step_s: float = 0.05) -> bool:
        """Waits until the recording is over or `done`, for so long at most. Whether it came to that."""
        end = time.monotonic() + seconds
        while not self.poll(step_s) and not done():
            self._place.processes.note_now_and_then()
            if time.monotonic() > end:
                return False
        return True

    def signal_program(self, number: int) -> None:
        """Sends the recorded program (not its children) a signal."""
        # Nearest first: the recorder's watcher, then the program.
        for pid in descendants(self.pid)[1:2]:
            os.kill(pid, number)

    def report(self) -> Json:
        """What was recorded, once it is over. Raises what the engine raised."""
        assert self._answer is not None, "asked for before it is over"
        if "user" in self._answer:
            raise UserError(self._answer["user"])
        if "failure" in self._answer:
            raise Failure(self._answer["failure"])
        return dict(self._answer["report"])


def _child(place: Place, spec: Json, stdin: Path | None, log: Path, pipe: int) -> NoReturn:
    def send(what: Json) -> None:
        os.write(pipe, json.dumps(what).encode() + b"\n")

    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(os.open(stdin or os.devnull, os.O_RDONLY), 0)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(out, 1)
        os.dup2(out, 2)
        if place.user:
            os.setgroups([])
            os.setgid(place.user.pw_gid)
            os.setuid(place.user.pw_uid)
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        os.environ["HOME"] = str(place.directory)
        os.chdir(place.directory)
        send({"report": engine.record(spec, lambda now: send({"progress": now}))})
    except UserError as mistake:
        send({"user": str(mistake)})
    except BaseException as failure:
        send({"failure": f"{failure}" or type(failure).__name__})
    os._exit(0)
