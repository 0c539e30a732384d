"""Lines to paste: how a program gets larger pages on the kernel that mmulab runs on.

whole program: environment --- malloc's tunables, settings of other allocators and run-time systems
its source: ------------------ madvise
whole system: ---------------- sysfs, systemd
"""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from mmulab import paths
from mmulab.result import Result
from mmulab.stopwatch.kernel import read_only_files
from mmulab.stopwatch.settings import SETTINGS, general
from mmulab.study.places import Region

# What a line is for, or nothing where it goes with the line above; and the line.
Line = tuple[str, str]
# The kernel's switch for transparent huge pages of anonymous memory.
_ENABLED = "/sys/kernel/mm/transparent_hugepage/enabled"
# By what a mapped file is called: whose allocator it is, and what makes it ask for huge pages (jemalloc 5.3, TUNING.md;
# HotSpot, -XX:+PrintFlagsFinal; gperftools, docs/tcmalloc.adoc; mimalloc, readme.md).
_ALLOCATORS = (
    ("libjemalloc", "jemalloc", "MALLOC_CONF=thp:always,metadata_thp:auto {command}"),
    ("libjvm", "Java's heap", "JAVA_TOOL_OPTIONS=-XX:+UseTransparentHugePages {command}"),
    ("libtcmalloc", "gperftools, from the hugetlb pool", "TCMALLOC_MEMFS_MALLOC_PATH=/dev/hugepages/ {command}"),
    ("libmimalloc", "mimalloc", "MIMALLOC_ALLOW_LARGE_OS_PAGES=1 {command}"),
)


def switch() -> str:
    """What this computer's kernel gives to memory that did not ask."""
    words = {
        "always": "large, aligned memory has 2 MB pages already",
        "madvise": "a program must ask, by one of these lines",
        "never": "no program gets any before it is switched on",
    }
    found = general()
    return f"{_ENABLED} is [{found or 'absent'}]: {words.get(found, 'this kernel has no transparent 2 MB pages')}"


def memory(policy: str, trace: dict[str, Any], mapped: Sequence[Region], result: Result) -> list[Line]:
    """How a program's memory gets pages of 2 MB."""
    command = _command(trace)
    if policy == "hugetlb-2m":
        return _grouped("how", _from_pool(command, mapped))
    if policy != "linux-thp":
        return []
    found = [f"echo madvise | sudo tee {_ENABLED}     # first: programs may ask"] if general() == "never" else []
    found += _asking(command, mapped, result)
    if general() != "always":
        found.append(f"echo always | sudo tee {_ENABLED}     # every program, unasked")
    found.append("MemoryTHP=disable     # in a unit of systemd 260 and later: keeps another service off them")
    return [("try", f"mmulab try --settings 4k,thp -- {command}"), *_grouped("how", found)]


def _asking(command: str, mapped: Sequence[Region], result: Result) -> list[str]:
    """How one program asks for transparent huge pages."""
    names = _files(result)
    found = [
        f"{text.format(command=command)}     # {whose}"
        for start, whose, text in _ALLOCATORS
        if any(name.startswith(start) for name in names)
    ]
    if _is_malloced(mapped):
        found.append(f"GLIBC_TUNABLES=glibc.malloc.hugetlb=1 {command}     # malloc asks (glibc 2.35 and later)")
    found.append("madvise(p, bytes, MADV_HUGEPAGE);     # in its source, where p is mapped")
    found.append("madvise(p, bytes, MADV_COLLAPSE);     # or once the memory is full (Linux 6.1 and later)")
    return found


def _from_pool(command: str, mapped: Sequence[Region]) -> list[str]:
    """How a program gets pages out of the hugetlb pool, which are set aside first."""
    pages = -(-sum(r.resident.get("hugetlb-2m", 0) for r in mapped) // (2 << 20))
    found = [f"echo {max(1, pages)} | sudo tee /proc/sys/vm/nr_hugepages     # sets the pages aside"]
    if _is_malloced(mapped):
        for value, what in ((2, "malloc takes them (glibc 2.35 and later)"), (1, "or asks for transparent ones")):
            found.append(f"GLIBC_TUNABLES=glibc.malloc.hugetlb={value} {command}     # {what}")
    return [*found, "mmap(.., MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, ..);     # in its source"]


def code(trace: dict[str, Any]) -> list[Line]:
    """How a program's code gets pages of 2 MB."""
    command = _command(trace)
    moves = [f"LD_PRELOAD={paths.try_library()} MMULAB_TRY=code {command}"]
    if PurePosixPath(str(trace.get("program") or "")).name == "node":
        moves.append("node --use-largepages=on ..     # Node.js moves its own code")
    link = "cc .. -Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code     # LLD: -Wl,-z,separate-loadable-segments"
    return [("try", f"mmulab try --settings 4k,code -- {command}"), *_grouped("how", moves), ("link", link)]


def about_code(needs_linking: bool) -> str:
    """What is to be known of a program's code and this computer's kernel."""
    cannot = next(s for s in SETTINGS if s.name == "code").missing()
    found = [read_only_files()]
    if cannot is not None:
        found.append(f"`mmulab try` cannot move code on this system: {cannot}.")
    if needs_linking:
        found.append("Link and preload: as it is linked, much of the code lies in no whole, aligned 2 MB.")
    return " ".join(found)


def _grouped(label: str, found: Sequence[str]) -> list[Line]:
    """Lines under one label."""
    return [(label if at == 0 else "", line) for at, line in enumerate(found)]


def _is_malloced(mapped: Iterable[Region]) -> bool:
    """Whether malloc may have mapped one of the regions."""
    return any(r.kind in ("heap", "anon") for r in mapped)


def _command(trace: dict[str, Any]) -> str:
    program = str(trace.get("program") or "")
    if not program or program.startswith(("gen:", "mix:")):
        return "PROGRAM ARGS"
    return shlex.join([program, *map(str, trace.get("args") or [])])


def _files(result: Result) -> set[str]:
    """The names of all files that the program mapped."""
    return {PurePosixPath(str(r["file"])).name for r in result.regions if r.get("file")}
