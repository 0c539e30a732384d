"""Recordings of cases: of a kernel the part that counts, of a server with its client, with its code moved or not."""

import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from mmulab import Failure, engine, paths
from mmulab.forecast.case import Case
from mmulab.forecast.timed import KNOWN
from mmulab.ports import free_port

Json = dict[str, Any]
# Seconds that a client may take to end once its server has.
END_S = 30.0


def record(case: Case, directory: Path, code: bool = False) -> Path:
    """The case's recording, made if it is not there yet.

    `code`: with the program's code moved into anonymous memory, as the stopwatch's setting of this name does it. While
    a kernel makes its data ready nothing is recorded, so that the time this takes does not grow with them.
    """
    target = directory / f"{case.file_name}{'.code' if code else ''}.mmt"
    if target.exists():
        return target
    aside = target.with_suffix(".part.mmt")
    port = free_port() if case.client else 0
    with tempfile.TemporaryDirectory(prefix="mmulab-try-") as reports:
        env = KNOWN["code"].environment(Path(reports), {}) if code else {}
        spec = {
            "output": str(aside),
            "command": case.argv(directory, port),
            "plugin": str(paths.plugin()),
            "fixed_layout": True,
            "gate": engine.gate() if case.kernel else None,
            "quiet": True,
            "env": [list(pair) for pair in env.items()],
        }
        found = _with_client(case, port, spec) if case.client else engine.record(spec)
    if found.get("exit_status"):
        raise Failure(f"{case.name}: the recorded program ended with status {found['exit_status']}")
    aside.rename(target)
    return target


def _with_client(case: Case, port: int, spec: Json) -> Json:
    """Records a server while its client drives it. The client has the server end."""
    client = subprocess.Popen(
        case.drive(port, "--end"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )

    def failed() -> str:
        said = (client.stderr.read() if client.stderr is not None else "").strip()
        # Of a traceback the last line says why.
        return said.splitlines()[-1] if said else f"it ended with status {client.returncode}"

    def look(_: Json) -> None:
        # Without its client the server would wait forever.
        if client.poll():
            raise Failure(f"{case.name}: the client failed: {failed()}")

    try:
        found = engine.record(spec, look)
        if client.wait(END_S):
            raise Failure(f"{case.name}: the client failed: {failed()}")
    except subprocess.TimeoutExpired:
        raise Failure(f"{case.name}: the server ended while its client was at work") from None
    finally:
        client.kill()
        client.wait()
        if client.stderr is not None:
            client.stderr.close()
    return found


def counted(case: Case, recording: Path, options: engine.Options) -> engine.Options:
    """The options of a run over the part of a recording that counts.

    A kernel's data were made ready before: its memory is there when its first round begins.
    """
    if not case.kernel:
        return options
    return replace(options, skip=engine.before_gate(str(recording)), reshape=engine.POPULATED)
