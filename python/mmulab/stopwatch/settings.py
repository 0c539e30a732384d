"""Page settings under which a program can be timed without touching anybody else, and what each needs."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmulab import UserError, paths

_MM = Path("/sys/kernel/mm")
_THP = _MM / "transparent_hugepage"
# Of files in memory without a name. MADV_COLLAPSE needs no more than that they are not denied (mm/shmem.c).
SHMEM = _THP / "shmem_enabled"
# How many pages of the default huge size are set aside.
POOL = Path("/proc/sys/vm/nr_hugepages")
# glibc.malloc.hugetlb: 1 advises huge pages for malloc's memory, 2 takes it from the pool (glibc 2.35 and later).
_MALLOC_THP, _MALLOC_POOL = "glibc.malloc.hugetlb=1", "glibc.malloc.hugetlb=2"
_ON = ("always", "madvise")

# From and to, in bytes from the first 2 MB boundary of the heap.
Part = tuple[int, int]


def moves_code(preload: Sequence[str]) -> bool:
    """Whether the preloaded library, told these words, moves the program's code."""
    return any(word.startswith("code") for word in preload)


@dataclass(frozen=True)
class Setting:
    """One way to have pages."""

    name: str
    about: str
    # PR_SET_THP_DISABLE in the child, which inherits it.
    no_thp: bool = False
    # What the preloaded library does, and glibc's tunable.
    preload: tuple[str, ...] = ()
    tunable: str | None = None
    # mTHP size that must be advised, in kB.
    size_kb: int | None = None
    # Whether anonymous memory needs huge pages of 2 MB.
    large: bool = False
    pool: bool = False
    # Whether files in memory need huge pages.
    tmpfs: bool = False
    # Address randomisation off in the child, and the parts of the heap that have 2 MB pages (None: no mosaic).
    fixed_addresses: bool = False
    parts: tuple[Part, ...] | None = None

    @property
    def moves_code(self) -> bool:
        """Whether the program's code is moved."""
        return moves_code(self.preload)

    def environment(self, report: Path, base: dict[str, str] | None = None) -> dict[str, str]:
        """The program's environment: the library in all settings alike, so that it costs all of them the same."""
        env = dict(os.environ if base is None else base)
        library = str(paths.try_library())
        env["LD_PRELOAD"] = f"{library}:{env['LD_PRELOAD']}" if env.get("LD_PRELOAD") else library
        env["MMULAB_TRY"] = ",".join(self.preload)
        env["MMULAB_TRY_REPORT"] = str(report)
        if self.parts is not None:
            env["MMULAB_TRY_HUGE"] = ",".join(f"{start:x}-{end:x}" for start, end in self.parts)
        if self.tunable:
            own = {tunable.partition("=")[0] for tunable in self.tunable.split(":")}
            others = [t for t in env.get("GLIBC_TUNABLES", "").split(":") if t and t.partition("=")[0] not in own]
            env["GLIBC_TUNABLES"] = ":".join([*others, self.tunable])
        return env

    def sysfs(self) -> dict[Path, str]:
        """Settings of the system that give exactly these pages (`--system`)."""
        if self.size_kb is not None:
            off = {_size(kb): "never" for kb in sizes_kb() if kb != self.size_kb}
            return {**off, _size(self.size_kb): "madvise"}
        if self.large:
            return {_size(2048): "madvise"} if _size(2048).exists() else {_THP / "enabled": "madvise"}
        if self.tmpfs:
            return {SHMEM: "advise"}
        return {}

    def missing(self) -> str | None:
        """The reason why this system does not give these pages as it is set; None if it does."""
        if self.pool and not _pool_pages():
            return f"the pool of 2 MB pages is empty ({POOL}): an administrator can fill it"
        if self.tmpfs and (selected(SHMEM) or "deny") == "deny":
            return f"files in memory cannot have huge pages: {SHMEM} says {selected(SHMEM) or 'nothing'}"
        if self.size_kb is not None:
            return self._missing_size()
        if self.large and not _works(2048):
            return "transparent huge pages of 2 MB are off (never): an administrator can allow madvise"
        return None

    def _missing_size(self) -> str | None:
        wanted = self.size_kb or 0
        if wanted not in sizes_kb():
            return f"this kernel has no transparent pages of {wanted} kB (Linux 6.8 and later have, by processor)"
        larger = [kb for kb in sizes_kb() if kb > wanted and _works(kb)]
        if not _works(wanted):
            return (
                f"transparent pages of {wanted} kB are off: {_size(wanted)} says {selected(_size(wanted)) or 'nothing'}"
            )
        if larger:
            return f"the kernel would take larger pages ({larger[-1]} kB are on) where they fit"
        return None


def sizes_kb() -> list[int]:
    """Sizes of transparent pages that this kernel can give anonymous memory."""
    found = (p.name.removeprefix("hugepages-").removesuffix("kB") for p in _THP.glob("hugepages-*kB") if _has(p))
    return sorted(int(kb) for kb in found if kb.isdecimal())


def faulted_by_size() -> dict[int, int]:
    """Transparent pages of each size (kB) that faults of the whole system got, where the kernel counts them."""
    found = {}
    for kb in sizes_kb():
        try:
            found[kb] = int((_THP / f"hugepages-{kb}kB" / "stats" / "anon_fault_alloc").read_text())
        except (OSError, ValueError):
            continue
    return found


def _has(directory: Path) -> bool:
    return (directory / "enabled").exists()


def _size(kb: int) -> Path:
    return _THP / f"hugepages-{kb}kB" / "enabled"


def selected(path: Path | str) -> str:
    """The value in brackets of a setting like `always [madvise] never`; empty where there is no such file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
    return text.partition("[")[2].partition("]")[0]


def general() -> str:
    """The system's setting of transparent huge pages: always, madvise or never; empty where it has none."""
    return selected(_THP / "enabled")


def _works(kb: int) -> bool:
    """Whether advised memory gets pages of this size."""
    own = selected(_size(kb)) or ("inherit" if kb == 2048 else "never")
    return (general() if own == "inherit" else own) in _ON


def _pool_pages() -> int:
    try:
        return int((_MM / "hugepages" / "hugepages-2048kB" / "free_hugepages").read_text())
    except (OSError, ValueError):
        return 0


SETTINGS = (
    Setting("4k", "base pages: no transparent huge pages for the program (prctl)", no_thp=True),
    Setting("asis", "as the system is set"),
    Setting("thp", "2 MB pages advised for anonymous memory", preload=("anon",), tunable=_MALLOC_THP, large=True),
    Setting("code", "code moved onto 2 MB pages, data as the system is set", preload=("code",), large=True),
    Setting(
        "thp+code",
        "2 MB pages for anonymous memory and for code",
        preload=("anon", "code"),
        tunable=_MALLOC_THP,
        large=True,
    ),
    Setting(
        "code-hugetlb",
        "code moved onto 2 MB pages of the pool, data as the system is set",
        preload=("code-hugetlb",),
        pool=True,
    ),
    Setting(
        "code-tmpfs",
        "code moved onto 2 MB pages of a file in memory, data as the system is set",
        preload=("code-tmpfs",),
        tmpfs=True,
    ),
    *(
        Setting(
            f"{kb}k" if kb < 1024 else "1m",
            f"transparent pages of {kb} kB advised for anonymous memory (mTHP)",
            preload=("anon",),
            tunable=_MALLOC_THP,
            size_kb=kb,
        )
        for kb in (16, 32, 64, 128, 256, 512, 1024)
    ),
    Setting(
        "hugetlb",
        "2 MB pages of the pool for malloc and large mappings",
        preload=("hugetlb",),
        tunable=_MALLOC_POOL,
        pool=True,
    ),
)


def find(names: tuple[str, ...], system: bool) -> list[Setting]:
    """The settings of these names. Raises UserError for one that does not exist or cannot be had here."""
    known = {setting.name: setting for setting in SETTINGS}
    chosen = []
    for name in names:
        setting = known.get(name)
        if setting is None:
            raise UserError(f"--settings: '{name}' is not a setting\nhint: give some of {', '.join(known)}")
        why = setting.missing()
        if why and (setting.pool or not system or not all(path.exists() for path in setting.sysfs())):
            more = "" if setting.pool else ", or with --system as root change the setting while the program runs"
            raise UserError(f"--settings {name}: {why}\nhint: leave it out{more}")
        chosen.append(setting)
    if len({s.name for s in chosen}) < max(2, len(names)):
        raise UserError(
            "--settings: give at least two different ones; the first is what the others are compared with\n"
            "hint: --settings 4k,thp"
        )
    return chosen
