"""Where data files (machines, policies, workloads) and the recorder's plugin are: a checkout, or beside the package."""

import json
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[1]


def in_checkout() -> bool:
    """Whether the package lies in a checkout, and not where pip put it."""
    return (_CHECKOUT / "ARCHITECTURE.md").exists()


def _data(kind: str) -> list[Path]:
    """The directories that may hold `kind` files, nearest first: the checkout's hides the installed copy."""
    candidates = [_CHECKOUT / kind, _PACKAGE / "_lib" / kind]
    return [p for p in candidates if p.is_dir() and (in_checkout() or p != candidates[0])]


def machine_dirs() -> list[Path]:
    """Directories of machine files: the working directory's `machines/`, then mmulab's own."""
    return [*_own("machines"), *_data("machines")]


def policy_dirs() -> list[Path]:
    """Directories of policy files: the working directory's `policies/`, then mmulab's own."""
    return [*_own("policies"), *_data("policies")]


def workload_dirs() -> list[Path]:
    """Directories of workloads: the working directory's `workloads/`, then mmulab's own."""
    return [*_own("workloads"), *_data("workloads")]


def _own(kind: str) -> list[Path]:
    here = Path.cwd() / kind
    return [here] if here.is_dir() and here.resolve() not in [p.resolve() for p in _data(kind)] else []


def glossary() -> Path:
    """The glossary, whose terms reports explain."""
    return next(p / "glossary.md" for p in _data("docs"))


def search() -> dict[str, list[str]]:
    """Where the engine looks for the names of machines and policies."""
    return {"machines": [str(p) for p in machine_dirs()], "policies": [str(p) for p in policy_dirs()]}


def search_json() -> str:
    """`search` as the engine takes it."""
    return json.dumps(search())


def heap_library() -> Path:
    """The library that recorded programs preload to tell of their heap."""
    return _PACKAGE / "_lib" / "libmmulab_heap.so"


def sites_library() -> Path:
    """The library that recorded programs preload to have large blocks of memory named."""
    return _PACKAGE / "_lib" / "libmmulab_sites.so"


def try_library() -> Path:
    """The library that programs under the stopwatch preload to have other page sizes."""
    return _PACKAGE / "_lib" / "libmmulab_try.so"


def kernel() -> Path:
    """The program that runs a generator's algorithm in real memory."""
    return _PACKAGE / "_lib" / "mmulab-kernel"


def guest_agent(isa: str) -> Path:
    """The first program of a system of this instruction set that is recorded."""
    return _PACKAGE / "_lib" / f"mmulab-guest-agent-{isa}"


def plugin() -> Path:
    """The library QEMU loads to record; whether it exists is for the caller to find out."""
    return _PACKAGE / "_lib" / "libmmulab_record.so"


def engine_file() -> Path:
    """The engine for any processor."""
    return next(_PACKAGE.glob("_core*.so"))
