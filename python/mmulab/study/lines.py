"""Lines to paste: how a program gets larger pages on the kernel that mmulab runs on.

whole program: environment --- malloc's tunables, settings of other allocators and run-time systems
its source: ------------------ madvise, prctl
whole system: ---------------- sysfs, systemd

`SOURCES` says where each line is documented; the report prints it below the lines.
"""

import mmap
import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from mmulab import paths
from mmulab.result import Result, address
from mmulab.stopwatch.kernel import read_only_files
from mmulab.stopwatch.settings import POOL, SETTINGS, SHMEM, general, selected
from mmulab.study.places import Region

# What a line is for, or nothing where it goes with the line above; and the line.
Line = tuple[str, str]
# The kernel's switches for transparent huge pages of anonymous memory.
_THP = "/sys/kernel/mm/transparent_hugepage"
_ENABLED = f"{_THP}/enabled"
# What Linux says of the process itself.
_STATUS = Path("/proc/self/status")
# By what a mapped file is called: whose allocator it is, and what makes it ask for huge pages.
_ALLOCATORS = (
    ("libjemalloc", "jemalloc", "MALLOC_CONF=thp:always,metadata_thp:auto {command}"),
    ("libjvm", "Java's heap", "JAVA_TOOL_OPTIONS=-XX:+UseTransparentHugePages {command}"),
    ("libtcmalloc", "gperftools, from the hugetlb pool", "TCMALLOC_MEMFS_MALLOC_PATH=/dev/hugepages/ {command}"),
    ("libmimalloc", "mimalloc", "MIMALLOC_ALLOW_LARGE_OS_PAGES=1 {command}"),
)
# Where a line is documented, by a part of it.
SOURCES = (
    ("transparent_hugepage/enabled", "Linux, admin-guide/mm/transhuge.rst"),
    ("THP_enabled", "Linux, filesystems/proc.rst, /proc/PID/status"),
    ("PR_SET_THP_DISABLE", "Linux manual, PR_SET_THP_DISABLE(2const)"),
    ("MADV_HUGEPAGE", "Linux manual, madvise(2)"),
    ("MADV_COLLAPSE", "Linux manual, madvise(2)"),
    ("MemoryTHP=", "systemd, NEWS of version 260"),
    ("nr_hugepages", "Linux, admin-guide/mm/hugetlbpage.rst"),
    ("MAP_HUGETLB", "Linux manual, mmap(2)"),
    ("glibc.malloc.hugetlb", "glibc manual, Memory Allocation Tunables"),
    ("MALLOC_CONF", "jemalloc 5.3, TUNING.md"),
    ("UseTransparentHugePages", "HotSpot, -XX:+PrintFlagsFinal"),
    ("TCMALLOC_MEMFS_MALLOC_PATH", "gperftools, docs/tcmalloc.adoc"),
    ("MIMALLOC_ALLOW_LARGE_OS_PAGES", "mimalloc, readme.md"),
    ("TCMalloc", "google/tcmalloc, docs/tuning.md, System-Level Optimizations"),
    ("Go's heap", "A Guide to the Go Garbage Collector, Linux transparent huge pages"),
    ("GODEBUG=disablethp", "Go, package runtime, Environment Variables"),
    ("--use-largepages", "Node.js, command-line API"),
    ("huge=always", "Linux, filesystems/tmpfs.rst"),
    ("HUGETLB_ELFMAP", "libhugetlbfs(7), HUGETLB_ELFMAP"),
    ("--hugetlbfs-align", "libhugetlbfs, HOWTO"),
    ("max-page-size", "GNU ld(1), -z max-page-size"),
    ("separate-loadable-segments", "ld.lld(1)"),
)
# The bytes that the Go linker puts before its build information (Go, package debug/buildinfo). Then the place of the
# heap in 64-bit programs of Go before 1.26 (Go, runtime/malloc.go, arena hints).
_GO_MAGIC = b"\xff Go buildinf:"
_GO_HEAP = 0xC000000000
# Allocation sites that a line names.
_SITES = 2
# The library that names allocation sites (`record --sites`), and C libraries, by the beginnings of their files' names.
_SITES_LIBRARY = "libmmulab_sites"
_C_LIBRARIES = ("libc.", "libc-", "ld-musl")
# A command that no recording names.
_ANY = "PROGRAM ARGS"
# A namespace that google/tcmalloc has and gperftools does not.
_TCMALLOC = "tcmalloc::tcmalloc_internal"


def sources(how: Iterable[Line]) -> list[str]:
    """Where these lines are documented, each place once."""
    found = (source for _, line in how for part, source in SOURCES if part in line)
    return list(dict.fromkeys(found))


def switch() -> str:
    """What this computer's kernel gives to memory that did not ask."""
    words = {
        "always": "large, aligned memory has 2 MB pages already",
        "madvise": "a program must ask, by one of these lines",
        "never": "no program gets any before it is switched on",
    }
    found = general()
    said = f"{_ENABLED} is [{found or 'absent'}]: {words.get(found, 'this kernel has no transparent 2 MB pages')}"
    if found and is_disabled_here():
        said += ". But programs that this shell starts get none: THP_enabled is 0 (prctl PR_SET_THP_DISABLE)"
    return said


def is_disabled_here(status: Path | None = None) -> bool:
    """Whether PR_SET_THP_DISABLE is set for this process, so that all that it starts have it, too."""
    try:
        text = (status or _STATUS).read_text(encoding="utf-8")
    except OSError:
        return False
    found = (line.partition(":") for line in text.splitlines())
    return any(name == "THP_enabled" and value.strip() == "0" for name, _, value in found)


def memory(
    policy: str, trace: dict[str, Any], mapped: Sequence[Region], result: Result, functions: Collection[str] = ()
) -> list[Line]:
    """How a program's memory gets pages of 2 MB. `functions`: names of functions that ran."""
    command = _command(trace)
    if policy == "hugetlb-2m":
        return _grouped("how", _from_pool(command, mapped))
    if policy != "linux-thp":
        return []
    if is_go(trace, result):
        found = _of_go(command)
    else:
        first = f"echo madvise | sudo tee {_ENABLED}     # first: programs may ask"
        found = [first] if general() == "never" else []
        found += _asking(command, mapped, result, functions)
    if general() != "always" and not any(line.startswith("echo always") for line in found):
        found.append(f"echo always | sudo tee {_ENABLED}     # every program, unasked")
    found.append("MemoryTHP=disable     # in a unit of systemd 260 and later: keeps another service off them")
    check = [
        "grep THP_enabled /proc/PID/status     # 0: switched off for the process (prctl; Linux 5.0 and later)",
        "prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);     # clears that, in its source or in what starts it",
    ]
    return [
        ("try", f"mmulab try --settings 4k,thp -- {command}"),
        *_grouped("how", found),
        *_grouped("check", check),
    ]


def _asking(command: str, mapped: Sequence[Region], result: Result, functions: Collection[str]) -> list[str]:
    """How one program asks for transparent huge pages."""
    names = _files(result)
    found = [
        f"{text.format(command=command)}     # {whose}"
        for start, whose, text in _ALLOCATORS
        if any(name.startswith(start) for name in names)
    ]
    if any(_TCMALLOC in name for name in functions):
        # It is linked into programs, so no file names it.
        found += [
            f"echo always | sudo tee {_ENABLED}     # what TCMalloc is built for, and with the next two lines",
            f"echo defer+madvise | sudo tee {_THP}/defrag     # TCMalloc",
            f"echo 0 | sudo tee {_THP}/khugepaged/max_ptes_none     # TCMalloc",
        ]
    if _is_malloced(mapped):
        found.append(f"GLIBC_TUNABLES=glibc.malloc.hugetlb=1 {command}     # malloc asks (glibc 2.35 and later)")
    found.append(f"madvise(p, bytes, MADV_HUGEPAGE);     # in its source, {_where(mapped)}")
    found.append("madvise(p, bytes, MADV_COLLAPSE);     # or once the memory is full (Linux 6.1 and later)")
    return found


def _of_go(command: str) -> list[str]:
    """How a Go program gets transparent huge pages: its runtime does not ask for them."""
    found = [f"GODEBUG=disablethp=0 {command}     # 1 keeps the heap off them; 0 is the default"]
    if general() != "always":
        found.append(f"echo always | sudo tee {_ENABLED}     # Go's heap does not ask (Go 1.22 and later)")
    return found


def is_go(trace: dict[str, Any], result: Result) -> bool:
    """Whether a program was built by Go: its file says so, or its heap lies where Go has it."""
    if any(r.get("kind") == "anon" and address(r["start"]) == _GO_HEAP for r in result.regions):
        return True
    own = PurePosixPath(str(trace.get("program") or "")).name
    files = {str(r["file"]) for r in result.regions if r.get("file")}
    return any(_has_go_magic(Path(file)) for file in files if PurePosixPath(file).name == own)


def _has_go_magic(file: Path) -> bool:
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(_GO_MAGIC) >= 0
    except (OSError, ValueError):
        # It is not there any more, or is empty.
        return False


def _from_pool(command: str, mapped: Sequence[Region]) -> list[str]:
    """How a program gets pages out of the hugetlb pool, which are set aside first."""
    pages = -(-sum(r.resident.get("hugetlb-2m", 0) for r in mapped) // (2 << 20))
    found = [f"echo {max(1, pages)} | sudo tee {POOL}     # sets the pages aside"]
    if _is_malloced(mapped):
        for value, what in ((2, "malloc takes them (glibc 2.35 and later)"), (1, "or asks for transparent ones")):
            found.append(f"GLIBC_TUNABLES=glibc.malloc.hugetlb={value} {command}     # {what}")
    where = f", {_where(mapped)}" if _sites(mapped) else ""
    return [*found, f"mmap(.., MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, ..);     # in its source{where}"]


def code(trace: dict[str, Any], others: Collection[str] = ()) -> list[Line]:
    """How a program's code gets pages of 2 MB. `others`: policies on request that are to have lines, too."""
    command = _command(trace)
    moves = [f"LD_PRELOAD={paths.try_library()} MMULAB_TRY=code {command}"]
    if PurePosixPath(str(trace.get("program") or "")).name == "node":
        moves.append("node --use-largepages=on ..     # Node.js moves its own code")
    link = "cc .. -Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code     # LLD: -Wl,-z,separate-loadable-segments"
    found = [("try", f"mmulab try --settings 4k,code -- {command}"), *_grouped("how", moves), ("link", link)]
    if "linux-code-hugetlb" in others:
        found += _grouped(
            "hugetlb",
            [
                f"echo 64 | sudo tee {POOL}     # sets the pages aside",
                f"mmulab try --settings 4k,code-hugetlb -- {command}",
                f"LD_PRELOAD={paths.try_library()} MMULAB_TRY=code-hugetlb {command}     # or, linked for it:",
                "cc -B /usr/share/libhugetlbfs -Wl,--hugetlbfs-align ..",
                f"LD_PRELOAD=libhugetlbfs.so HUGETLB_ELFMAP=R {command}",
            ],
        )
    if "linux-code-tmpfs" in others:
        program = shlex.quote(str(trace.get("program") or "PROGRAM"))
        mount = "sudo mkdir -p /mnt/huge && sudo mount -t tmpfs -o huge=always tmpfs /mnt/huge"
        tried = f"mmulab try --settings 4k,code-tmpfs -- {command}"
        copied = f"{mount} && cp {program} /mnt/huge/     # libraries, too (LD_LIBRARY_PATH)"
        found += _grouped("tmpfs", [tried, copied])
    return found


def about_khugepaged() -> str:
    """What khugepaged on code of files needs beside the kernel's configuration."""
    return (
        "It needs that kernel option, and mapping and file equal modulo 2 MB. It comes every 10 s, so that a short "
        "program ends before."
    )


def about_tmpfs() -> str:
    """What huge pages of a tmpfs need, and whether this computer's kernel has them."""
    setting = selected(SHMEM)
    if not setting:
        return f"It needs a kernel with huge pages of tmpfs, which this is not: {SHMEM} is absent."
    if setting == "deny":
        return f"It needs an administrator: {SHMEM} is [deny], so no tmpfs has huge pages."
    return (
        "It needs an administrator who mounts a tmpfs with huge pages, and mapping and file equal modulo 2 MB. This "
        f"kernel has such pages ({SHMEM} is [{setting}], which a mount's own option overrides)."
    )


def about_pool(found: Path = POOL) -> str:
    """What copies of code on pages of the hugetlb pool need, and how many are set aside here. `found`: their number."""
    try:
        pages = int(found.read_text())
    except (OSError, ValueError):
        return f"It needs a kernel with a hugetlb pool, which this is not: {found} is absent."
    return f"It needs pages that are set aside before; fragmented memory cannot refuse them. Here {pages} are."


def about_folios() -> str:
    """What code in blocks of 64 KB needs."""
    return (
        "It needs no change of the program. Linux 6.17 and later read code so on Armv8, from file systems with large "
        "folios (such as XFS)."
    )


def about_code(needs_linking: bool) -> str:
    """What is to be known of a program's code and this computer's kernel."""
    cannot = next(s for s in SETTINGS if s.name == "code").missing()
    found = [read_only_files()]
    if cannot is not None:
        found.append(f"`mmulab try` cannot move code on this system: {cannot}.")
    if needs_linking:
        found.append("Link and preload: as it is linked, much of the code lies in no whole, aligned 2 MB.")
    return " ".join(found)


def naming(trace: dict[str, Any], mapped: Sequence[Region], result: Result) -> str:
    """How anonymous memory without a name gets one; empty if it has one, or if a recording cannot give it one."""
    command, files = _command(trace), _files(result)
    if command == _ANY or not any(r.kind == "anon" and not r.site for r in mapped):
        return ""
    # The library that asks for names was there, or cannot be: static programs and Go's heap do not use the C library.
    has_names = any(name.startswith(_SITES_LIBRARY) for name in files)
    if has_names or is_go(trace, result) or not any(name.startswith(_C_LIBRARIES) for name in files):
        return ""
    return f"anonymous memory has no names: `mmulab study --sites -- {command}` shows which functions asked for it"


def _grouped(label: str, found: Sequence[str]) -> list[Line]:
    """Lines under one label."""
    return [(label if at == 0 else "", line) for at, line in enumerate(found)]


def _is_malloced(mapped: Iterable[Region]) -> bool:
    """Whether malloc may have mapped one of the regions."""
    return any(r.kind in ("heap", "anon") for r in mapped)


def _where(mapped: Iterable[Region]) -> str:
    """Where in its source a program gets memory: the sites of the first regions, if the recording has them."""
    sites = _sites(mapped)
    return f"behind the call at {' and '.join(sites)}" if sites else "where p is mapped"


def _sites(mapped: Iterable[Region]) -> list[str]:
    """The allocation sites of the first regions, each once: `table_new (table.c:42)`."""
    return list(dict.fromkeys(region.site for region in mapped if region.site))[:_SITES]


def _command(trace: dict[str, Any]) -> str:
    program = str(trace.get("program") or "")
    if not program or program.startswith(("gen:", "mix:")):
        return _ANY
    return shlex.join([program, *map(str, trace.get("args") or [])])


def _files(result: Result) -> set[str]:
    """The names of all files that the program mapped."""
    return {PurePosixPath(str(r["file"])).name for r in result.regions if r.get("file")}
