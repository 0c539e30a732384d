"""The computer that is probed, as it describes itself: processor, hypervisor, caches, settings, load."""

import json
import mmap
import os
import platform
from pathlib import Path
from typing import Any, cast

from mmulab import _core
from mmulab.probe import frames
from mmulab.units import parse_bytes

Json = dict[str, Any]
_CPU = Path("/sys/devices/system/cpu")
_THP = Path("/sys/kernel/mm/transparent_hugepage")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def processor() -> Json:
    """The processor, and the hypervisor's name if there is one."""
    return cast(Json, json.loads(_core.probe_processor()))


def caches(directory: Path = _CPU / "cpu0" / "cache") -> list[Json]:
    """Data caches as the kernel lists them, nearest first. In a virtual machine these are the hypervisor's words."""
    found = []
    for index in sorted(directory.glob("index*")):
        kind, size, level = (_read(index / name) for name in ("type", "size", "level"))
        if kind not in ("Data", "Unified") or not level.isdecimal():
            continue
        ways = _read(index / "ways_of_associativity")
        found.append({"level": int(level), "bytes": parse_bytes(size), "ways": int(ways) if ways.isdecimal() else None})
    return sorted(found, key=lambda cache: cast(int, cache["level"]))


def chosen(setting: str) -> str:
    """The word in brackets of a sysfs setting like `always [madvise] never`."""
    _, _, rest = setting.partition("[")
    return rest.partition("]")[0] or setting


def describe(memory: int) -> Json:
    """Everything that a reader of the figures needs to know about where they come from; uses at most `memory` bytes."""
    return {
        "processor": processor(),
        "caches": caches(),
        "kernel": platform.release(),
        "frames": _frames(memory),
        "transparent_hugepage": chosen(_read(_THP / "enabled")) or "absent",
        "load_average": os.getloadavg()[0],
    }


def _frames(memory: int) -> Json | None:
    found = frames.look(min(frames.PAGES, min(memory, free_memory() // 3) // mmap.PAGESIZE))
    return None if found is None else vars(found)


def free_memory(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes that can be had without swapping."""
    for line in _read(meminfo).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0
