"""Names for code: which function of an ELF file holds a file offset, also of a stripped one.

The engine reads the file (`elf_functions`): symbols, those of its debug file, and unwind tables.
"""

import ctypes
import ctypes.util
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath

from mmulab import UserError, engine

# Where Linux distributions install debug files (GDB's manual, "Separate Debug Files").
DEBUG_ROOTS = ("/usr/lib/debug",)
_PAGE = 4096


@dataclass(frozen=True)
class Named:
    """What reports call a place in code, whether a symbol says so, and whether its function begins there."""

    name: str
    known: bool
    is_start: bool = False
    # Where in its file the function begins; no part of what it is called.
    start: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class _Functions:
    starts: list[int]
    ends: list[int]
    names: list[str | None]
    # Why nothing is known of the file; None if something is.
    lacks: str | None = None


@lru_cache(maxsize=64)
def _functions(path: str) -> _Functions:
    """The functions of a file by file offset."""
    try:
        found, _ = engine.elf_functions(path, DEBUG_ROOTS)
    except UserError as error:
        return _Functions([], [], [], str(error))
    lacks = None if found else "it has neither symbols nor unwind tables (packed, perhaps)"
    return _Functions([f[0] for f in found], [f[1] for f in found], [f[2] for f in found], lacks)


def lacks(path: str) -> str | None:
    """Why the functions of a file are not known; None if they are."""
    if path.startswith("gen:"):
        return "a generator has none"
    if not Path(path).is_file():
        return "it is not there any more"
    return _functions(path).lacks


def named(path: str, offset: int) -> Named:
    """What to call the byte at `offset` of a file: its function, or the file and where in it the function begins.

    Where nothing shows functions, places are told apart by page.
    """
    functions = _functions(path)
    file = PurePosixPath(path).name
    at = bisect_right(functions.starts, offset) - 1
    if at < 0 or offset >= functions.ends[at]:
        return Named(f"{file}+{offset - offset % _PAGE:#x} (page)", known=False)
    start, name = functions.starts[at], functions.names[at]
    if name is None:
        return Named(f"{file}+{start:#x}", known=False, is_start=offset == start, start=start)
    return Named(demangle(name), known=True, is_start=offset == start, start=start)


def sources(path: str, starts: Sequence[int]) -> list[str]:
    """The source lines at which functions of a file begin, as `gc.c:120`; empty where no line table has them."""
    try:
        found = engine.elf_source_lines(path, starts, DEBUG_ROOTS)
    except UserError:
        # As for names, the report says why nothing is known of the file.
        return [""] * len(starts)
    return [f"{line[0]}:{line[1]}" if line else "" for line in found]


@lru_cache(maxsize=1)
def _demangler() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None
    library.__cxa_demangle.restype = ctypes.c_void_p
    library.__cxa_demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    return library


def demangle(name: str) -> str:
    """A C++ name as its author wrote it; the name itself where there is no C++ library to ask."""
    library = _demangler()
    if not name.startswith("_Z") or library is None:
        return name
    status = ctypes.c_int()
    text = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value or not text:
        return name
    shown = ctypes.string_at(text).decode("utf-8", "replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(text))
    return shown
