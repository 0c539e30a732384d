"""A recipe carried out: what is missing installed, the program recorded, a server driven, and all put away."""

import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mmulab import Failure, UserError, engine, guest, paths
from mmulab.engine import ProgressCallback
from mmulab.ports import LOOPBACK
from mmulab.units import parse_bytes
from mmulab.workloads import allocators, install
from mmulab.workloads.place import Place, a_place, tail
from mmulab.workloads.recipe import Json, Recipe
from mmulab.workloads.recorder import Recorder

# How long one asking whether a server serves may take.
ASK_S = 10.0
# How long a server, of which enough was recorded, may take to be seen as gone once its client failed.
OVER_S = 5.0
# How long a server may take to end once it is asked to.
END_S = 60.0

Say = Callable[[str], None]
Progress = Callable[[int], AbstractContextManager[ProgressCallback]]


@dataclass(frozen=True)
class Options:
    """What the recipe leaves to its user. None leaves the recipe's own."""

    skip: int | None = None
    instructions: int | None = None
    # How many of how many instructions are recorded, if not all.
    intervals: tuple[int, int] | None = None
    port: int | None = None
    allocator: str | None = None
    fixed_layout: bool = False
    heap: bool = False
    may_install: bool = True


def record(recipe: Recipe, output: Path, options: Options, say: Say, progress: Progress) -> Json:
    """Records it to `output`, which is whole or not there. Raises UserError, Failure, and KeyboardInterrupt."""
    if not output.parent.is_dir():
        raise UserError(f"{output.parent}: no such directory\nhint: create it, or choose another with -o")
    skip = recipe.skip if options.skip is None else options.skip
    limit = recipe.instructions if options.instructions is None else options.instructions
    if recipe.trace and options.intervals:
        raise UserError(f"{recipe.name} is made by a generator, not recorded\nhint: leave --intervals out")
    if recipe.trace:
        return _generated(recipe, output, (skip, limit), progress)
    wanted = recipe.record
    if options.allocator:
        recipe.json["install"]["apt"].append(allocators.ALLOCATORS[options.allocator])
    install.ensure(recipe, options.may_install, say)
    with a_place(recipe, options.port) as place, _disk_errors(place):
        for step in recipe.json["setup"]:
            say(f"preparing: {' '.join(place.fill(word) for word in step['run'])[:100]}")
            place.run(step)
        trace = place.directory / "recording.mmt"
        spec = _spec(place, wanted, trace, skip, limit, options)
        inside = wanted.get("system")
        if inside:
            spec["system"] = _system(place, inside, recipe.server, say)
        stdin = place.directory / place.fill(wanted["input"]) if wanted.get("input") else None
        # Begun before the progress bar, whose thread would not be in the recorder's process.
        recorder = Recorder(place, spec, stdin, place.directory / "program.log")
        with progress(skip + limit) as recorder.on_progress:
            if recipe.server and not inside:
                _drive(place, recorder, recipe.server)
            else:
                recorder.wait(lambda: False)
        report = recorder.report()
        _refuse_part(recipe, report, recorder, trace)
        if inside:
            trace = with_headers(trace, say)
        try:
            shutil.move(trace, output)
        except OSError as error:
            output.unlink(missing_ok=True)
            raise Failure(f"{output}: {error.strerror}") from error
    return {**report, "output": str(output), "workload": recipe.name, "parameters": recipe.parameters, "skip": skip}


def with_headers(trace: Path, say: Say) -> Path:
    """A recorded system with the program headers of its ELF files, without which no file can be laid out anew.

    A system's files are copies of this computer's, which has the headers. A file that is another one here, or a disk
    without room, leaves the recording as it is.
    """
    whole = trace.with_name("with-headers.mmt")
    try:
        copied = engine.trace_copy(str(trace), str(whole), "native", change={"program_headers": True})
        why, warnings = copied["stopped"], copied["warnings"]
    except (UserError, Failure) as error:
        why, warnings = str(error), []
    if why:
        say(f"program headers are left out: {why}")
        whole.unlink(missing_ok=True)
        return trace
    for warning in warnings:
        say(warning)
    trace.unlink()
    return whole


def _generated(recipe: Recipe, output: Path, part: tuple[int, int], progress: Progress) -> Json:
    """Writes the part of a generator that the recipe takes, for those who want a file of it."""
    skip, limit = part
    whole = output.with_name(f".{output.name}.part")
    try:
        with progress(skip + limit) as on_progress:
            found = engine.trace_copy(str(recipe.trace), str(whole), "native", skip, skip + limit, progress=on_progress)
        whole.rename(output)
    finally:
        whole.unlink(missing_ok=True)
    common = {"output": str(output), "workload": recipe.name, "parameters": recipe.parameters, "skip": skip}
    return {**found, **common, "warnings": [], "lost": []}


@contextmanager
def _disk_errors(place: Place) -> Iterator[None]:
    """What the system refuses to do with the place's files is told as what it is."""
    try:
        yield
    except OSError as error:
        where = error.filename or place.directory
        raise Failure(f"{where}: {error.strerror}\nhint: name another disk with TMPDIR=DIRECTORY") from error


def _spec(place: Place, wanted: Json, trace: Path, skip: int, limit: int, options: Options) -> Json:
    env = {key: place.fill(value) for key, value in wanted["env"].items()}
    if options.allocator:
        before = [env["LD_PRELOAD"]] if "LD_PRELOAD" in env else []
        env["LD_PRELOAD"] = ":".join([*before, allocators.library(options.allocator)])
    plugin = place.directory / paths.plugin().name
    # Copied to where the program's user can read it, whoever may enter the place it is installed in.
    for library in (paths.plugin(), paths.heap_library()):
        if not library.exists():
            raise UserError(f"{library}: a part of the recorder is not there\nhint: build it with `make build`")
        shutil.copy(library, place.directory)
    spec = {
        "output": str(trace),
        "command": [place.fill(word) for word in wanted["run"]],
        "plugin": str(plugin),
        "max_instructions": limit,
        "skip": skip,
        "intervals": options.intervals,
        "fixed_layout": options.fixed_layout,
        "env": [list(pair) for pair in env.items()],
        "heap": str(place.directory / paths.heap_library().name) if options.heap else None,
        "cpu": wanted.get("cpu"),
    }
    return {key: value for key, value in spec.items() if value is not None}


def _system(place: Place, inside: Json, server: Json | None, say: Say) -> Json:
    """The system that the program runs in; a server's clients run there with it."""
    clients: list[list[str]] = []
    ready: list[str] = []
    if server:
        ready = [place.fill(word) for word in server["ready"]]
        drive = [[place.fill(word) for word in step["run"]] for step in server["drive"]]
        clients = drive * int(server["times"])
    files = [(Path(place.fill(here)), Path(place.fill(there))) for here, there in inside["files"].items()]
    return guest.options(
        vmlinuz=guest.kernel(say),
        memory_mb=(parse_bytes(inside["memory"]) or 0) // 2**20,
        thp=inside.get("thp"),
        files=files,
        ready=ready,
        ready_seconds=int(server["ready_seconds"]) if server else None,
        clients=clients,
    )


def _drive(place: Place, recorder: Recorder, server: Json) -> None:
    """Waits until the server serves, lets the clients at it until the recording is over, and asks it to end."""
    if not recorder.wait(lambda: _serves(place, server["ready"]), server["ready_seconds"], 0.2):
        raise Failure(f"the server did not serve within {server['ready_seconds']} s{tail(recorder.log)}")
    if recorder.poll() and recorder.report()["ended"] != "limit":
        raise Failure(f"the server ended before it served{tail(recorder.log)}")
    for _ in range(server["times"]):
        for step in server["drive"]:
            if recorder.poll():
                return
            _client(place, recorder, step)
    if not recorder.poll():
        recorder.signal_program(signal.Signals[server["stop"]])
        if not recorder.wait(lambda: False, END_S):
            raise Failure(f"the server did not end within {END_S:.0f} s of {server['stop']}{tail(recorder.log)}")


def _serves(place: Place, ready: list[str]) -> bool:
    if not ready:
        with socket.socket() as probe:
            probe.settimeout(ASK_S)
            return probe.connect_ex((LOOPBACK, int(place.values["port"]))) == 0
    asked = place.start({"run": ready}, place.directory / "ready.log")
    try:
        return asked.wait(ASK_S) == 0
    except subprocess.TimeoutExpired:
        asked.kill()
        return False


def _client(place: Place, recorder: Recorder, step: Json) -> None:
    log = place.directory / "client.log"
    client = place.start(step, log)
    recorder.wait(lambda: client.poll() is not None)
    if client.poll() is None:
        client.kill()
        client.wait()
    elif client.returncode and not recorder.wait(lambda: False, OVER_S):
        command = " ".join(place.fill(word) for word in step["run"])
        raise Failure(f"the client `{command}` ended with status {client.returncode}{tail(log)}{tail(recorder.log)}")


def _refuse_part(recipe: Recipe, report: Json, recorder: Recorder, trace: Path) -> None:
    """Raises if the recording is not what the recipe promises."""
    ended, status = report["ended"], report["exit_status"]
    if ended == "disk-full":
        raise Failure(f"{trace.parent}: the disk is full\nhint: name another disk with TMPDIR=DIRECTORY")
    if ended == "interrupted":
        raise KeyboardInterrupt
    stopped = recipe.server is not None and ended == "signal"
    if status and not stopped:
        raise Failure(f"{recipe.name} ended with status {status}{tail(recorder.log)}")
    if not report["instructions"]:
        why = "; ".join(report["warnings"]) or "it ended too early"
        raise Failure(f"nothing was recorded: {why}\nhint: give a smaller --skip, or more work with --set")
