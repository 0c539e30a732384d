"""What a result depends on, as hashes: the contents of its trace, the descriptions, the options, and this mmulab."""

import hashlib
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from mmulab import UserError, engine, paths
from mmulab.sweep import remote
from mmulab.workloads import cache

GENERATED = "gen:"
ACCEL_SIM = "accel-sim:"
MIX = "mix:"


def digest(value: Any) -> str:
    """A hash of what can be written as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def first_level(descriptions: dict[str, Any]) -> str:
    """A hash of the first-level TLBs and the kernel whose pages they hold.

    It puts jobs together that may share a search of the first level. Whether they can, the engine finds out.
    """
    machine = descriptions["machine"]
    arrays = [
        {key: value for key, value in array.items() if key not in ("source", "assumed")}
        for array in machine["tlb"]
        if array["level"] == 1
    ]
    core = {key: machine["core"].get(key) for key in ("count", "threads")}
    rules = {key: value for key, value in machine["tlb_rules"].items() if key not in ("source", "assumed")}
    kernel = [descriptions["policy"], machine["memory"], machine.get("table")]
    return digest([arrays, rules, core, kernel])


def release() -> dict[str, str]:
    """The version of mmulab, and a hash of its engine, which also distinguishes builds of one version."""
    return {"version": engine.version(), "engine": _engine()}


@lru_cache(maxsize=1)
def _engine() -> str:
    # The engine for any processor, also where one for a newer processor is loaded: both give the same results.
    return cache.sha256(paths.engine_file())[:16]


def trace_identity(name: str, known: str | None = None) -> str:
    """A hash of a trace's contents, or a generator's text. Raises UserError if there is no such trace.

    `known`: the hash that a URL had before; if this computer has such a file, its store is not asked.
    """
    if name.startswith(GENERATED):
        engine.trace_length(name, 1)
        return name
    if remote.is_remote(name):
        file = remote.fetched(name, known)
        try:
            engine.trace_length(str(file), 1)
        except UserError as error:
            raise UserError(str(error).replace(str(file), name)) from None
        return file.parent.name
    files = sorted(set(_files(name)))
    for file in files:
        if not file.is_file():
            raise UserError(
                f"{file}: no such trace\nhint: record one with `mmulab record -o {file.name} -- PROGRAM`, or give a "
                "path from the directory in which the command runs"
            )
    # Of a file alone the name does not matter; elsewhere it says which of the files is what.
    named = name.partition("?")[2] if name.startswith(ACCEL_SIM) else engine.trace(name) if engine.mix_of(name) else ""
    engine.trace_length(name, 1)
    contents = [_file(str(file.resolve()), file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    return digest([named, contents]) if named or len(contents) > 1 else contents[0]


@lru_cache(maxsize=1024)
def _file(path: str, _changed: int, _size: int) -> str:
    return cache.sha256(Path(path))


def _files(name: str) -> Iterator[Path]:
    """The files that a trace is read from."""
    if name.startswith(ACCEL_SIM):
        listed = Path(name.removeprefix(ACCEL_SIM).partition("?")[0])
        yield listed
        # A list of kernels names files beside it.
        yield from (file for file in listed.parent.glob("*") if file.is_file())
    elif engine.mix_of(name) is not None:
        mix = json.loads(engine.trace(name).removeprefix(MIX))
        for member in mix["members"]:
            if not str(member["trace"]).startswith(GENERATED):
                yield from _files(str(member["trace"]))
    else:
        yield Path(name)
