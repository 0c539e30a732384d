"""What a recording of a whole system needs: a kernel to boot, its first program, and what it is to have."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mmulab import Failure, UserError, paths
from mmulab.workloads import cache

# Debian's kernel for virtual machines, with all that a guest needs. The package of that name depends on the newest.
META_PACKAGE = "linux-image-cloud-{}"
# Instruction sets of systems, by Debian's names.
ISAS = {"x86-64": "amd64", "aarch64": "arm64"}
NATIVE = "x86-64"
# Where an ELF file says what it is for, and what it says.
ELF_MACHINE = slice(18, 20)
EM_AARCH64 = b"\xb7\0"
THP = ("always", "madvise", "never")
# What is written to /sys/kernel/mm/transparent_hugepage/hugepages-*/enabled (Linux 6.8 and later).
MTHP = (*THP, "inherit")
# How much of the memory held lies together, in bytes, as in a simulated machine's memory.fragment.
MEMHOG_CHUNK = 2 << 20
HINT = "hint: name one with --kernel FILE: the vmlinuz of any Linux for it that unpacks an initial file system"


def isa_of(program: Path) -> str:
    """The instruction set of a system that runs the program: read from its ELF header (e_machine)."""
    with program.open("rb") as file:
        head = file.read(ELF_MACHINE.stop)
    is_arm = head.startswith(b"\x7fELF") and head[ELF_MACHINE] == EM_AARCH64
    return "aarch64" if is_arm else NATIVE


def kernel(say: Callable[[str], None], isa: str = NATIVE) -> Path:
    """The kernel in the cache, brought there from Debian's archive if there is none. Raises UserError, Failure."""
    home = cache.root().parent / "kernels"
    found = sorted(home.glob(f"vmlinuz-*-{ISAS[isa]}"))
    if found:
        return found[-1]
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise UserError(f"no kernel for the guest, and no {tool} to fetch one with\n{HINT}")
    package = _newest(isa)
    say(f"fetching {package} to {home} (it is not installed)")
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=home) as made:
        # apt fetches as a user of its own, who must be able to write here.
        Path(made).chmod(0o777)
        _run(["apt-get", "download", "-q", package], f"{package} cannot be fetched", made)
        [archive] = Path(made).glob("*.deb")
        _run(["dpkg-deb", "-x", str(archive), "out"], f"{archive.name} cannot be unpacked", made)
        images = sorted(Path(made).glob("out/boot/vmlinuz-*"))
        if not images:
            raise Failure(f"{package} has no kernel in it\n{HINT}")
        return images[-1].rename(home / images[-1].name)


def _newest(isa: str) -> str:
    meta = META_PACKAGE.format(ISAS[isa])
    # Another machine's packages are named so, and so known only where apt was told of that architecture.
    wanted = meta if isa == NATIVE else f"{meta}:{ISAS[isa]}"
    listed = subprocess.run(["apt-cache", "depends", wanted], capture_output=True, text=True, check=False).stdout
    names = [line.split(":", 1)[1].strip() for line in listed.splitlines() if "Depends: linux-image-" in line]
    if not names:
        raise UserError(f"apt knows no {wanted}: this is not Debian, or its lists are not here\n{HINT}")
    return names[0]


def _run(command: list[str], what: str, where: str) -> None:
    ran = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    if ran.returncode:
        said = "".join(f"\n  | {line}" for line in (ran.stdout + ran.stderr).splitlines()[-4:])
        raise Failure(f"{what}{said}\n{HINT}")


def mthp(order_bytes: int, when: str) -> tuple[str, str]:
    """The file of the kernel's that says when pages of this size are given, and what to write to it."""
    return f"/sys/kernel/mm/transparent_hugepage/hugepages-{order_bytes >> 10}kB/enabled", when


def options(
    *,
    vmlinuz: Path,
    isa: str = NATIVE,
    memory_mb: int | None = None,
    thp: str | None = None,
    tune: Sequence[tuple[str, str]] = (),
    memhog: int | None = None,
    memhog_chunk: int | None = None,
    files: Sequence[tuple[Path, Path]] = (),
    ready: Sequence[str] = (),
    ready_seconds: int | None = None,
    clients: Sequence[Sequence[str]] = (),
    user_only: bool = False,
    directory: str | None = None,
) -> dict[str, Any]:
    """The value that the engine takes as `system`. `tune` are files of the guest's kernel and the text that is written
    to them. `memhog` percent of the free memory are held in chunks of `memhog_chunk` bytes at random places."""
    spec = {
        "kernel": str(vmlinuz),
        "agent": str(paths.guest_agent(isa)),
        "memory_mb": memory_mb,
        "thp": thp,
        "tune": [list(pair) for pair in tune],
        "memhog": memhog and {"percent": memhog, "chunk_kb": (memhog_chunk or MEMHOG_CHUNK) // 1024},
        "files": [[str(host), str(guest)] for host, guest in files],
        "ready": list(ready),
        "ready_seconds": ready_seconds,
        "clients": [list(client) for client in clients],
        "user_only": user_only,
        "directory": directory,
    }
    return {key: value for key, value in spec.items() if value is not None}
