"""Names for code: which function of an ELF file holds a file offset."""

import ctypes
import ctypes.util
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

# Elf64_Sym of the System V ABI, little-endian.
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_FUNCTION_TYPES = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
# Hand-written assembly has symbols without a size: they reach to the next, but no further than this.
_UNSIZED_REACH = 64 * 1024


@dataclass(frozen=True)
class _Functions:
    starts: list[int]
    ends: list[int]
    names: list[str]


@lru_cache(maxsize=64)
def _functions(path: str) -> _Functions | None:
    """The functions of a file by file offset; None if it cannot be read as ELF."""
    try:
        with Path(path).open("rb") as file:
            elf = ELFFile(file)
            if elf.elfclass != 64 or not elf.little_endian:
                return None
            loads = [s.header for s in elf.iter_segments("PT_LOAD")]
            found: dict[int, tuple[int, str]] = {}
            for name in (".dynsym", ".symtab"):
                section = elf.get_section_by_name(name)
                if section is None or section["sh_type"] == "SHT_NOBITS":
                    continue
                strings = elf.get_section(section["sh_link"]).data()
                table = np.frombuffer(section.data(), dtype=_SYMBOL)
                table = table[np.isin(table["info"] & 0xF, _FUNCTION_TYPES) & (table["section"] != 0)]
                for value, size, at in zip(
                    table["value"].tolist(), table["size"].tolist(), table["name"].tolist(), strict=True
                ):
                    for load in loads:
                        if load["p_vaddr"] <= value < load["p_vaddr"] + load["p_filesz"]:
                            offset = value - load["p_vaddr"] + load["p_offset"]
                            found[offset] = (size, strings[at : strings.index(b"\0", at)].decode("utf-8", "replace"))
                            break
    except (OSError, ELFError, ValueError, KeyError, AttributeError):
        return None
    starts = sorted(found)
    nexts = [*starts[1:], starts[-1] + _UNSIZED_REACH] if starts else []
    ends = [s + (found[s][0] or min(n - s, _UNSIZED_REACH)) for s, n in zip(starts, nexts, strict=True)]
    return _Functions(starts, ends, [found[s][1] for s in starts])


def function_at(path: str, offset: int) -> str | None:
    """The function of `path` that holds the byte at `offset` of the file; None if its symbols do not tell."""
    functions = _functions(path)
    if functions is None or not functions.starts:
        return None
    at = bisect_right(functions.starts, offset) - 1
    if at < 0 or offset >= functions.ends[at]:
        return None
    return demangle(functions.names[at])


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
