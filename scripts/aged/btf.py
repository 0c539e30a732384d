"""Offsets of fields in a kernel's structures, from the description of its types that the kernel carries (BTF)."""

import struct
from typing import Any

# Kinds of types: those that have a size of their own, and those of members.
ARRAY, STRUCTS, SIZED, POINTER = 3, (4, 5), (1, 4, 5, 6, 16, 19), 2
# Bytes after a type's head: of kinds that have a fixed number, and for each of its `vlen` parts.
FIXED = {1: 4, 3: 12, 14: 4, 17: 4}
PER_PART = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}
MAGIC = 0xEB9F


class Btf:
    """The types of a kernel."""

    def __init__(self, data: bytes) -> None:
        """Reads all of them."""
        magic, _, _, head, at, length, strings, size = struct.unpack("<HBBIIIII", data[:24])
        assert magic == MAGIC, "no BTF here: the kernel's addresses are not those of its symbols"
        self._names = data[head + strings : head + strings + size]
        self._types: list[dict[str, Any]] = [{}]
        self._structs: dict[str, dict[str, Any]] = {}
        at, end = head + at, head + at + length
        while at < end:
            name, info, size = struct.unpack("<III", data[at : at + 12])
            kind, parts = info >> 24 & 0x1F, info & 0xFFFF
            body = data[at + 12 : at + 12 + FIXED.get(kind, 0) + PER_PART.get(kind, 0) * parts]
            at += 12 + len(body)
            made: dict[str, Any] = {"kind": kind, "size": size}
            if kind in STRUCTS:
                bits = 0xFFFFFF if info >> 31 else 0xFFFFFFFF
                made["members"] = [(self._name(n), t, (o & bits) // 8) for n, t, o in struct.iter_unpack("<III", body)]
                self._structs.setdefault(self._name(name), made)
            elif kind == ARRAY:
                made["of"], _, made["count"] = struct.unpack("<III", body)
            self._types.append(made)

    def _name(self, at: int) -> str:
        return self._names[at : self._names.index(b"\0", at)].decode()

    def _size(self, number: int) -> int:
        found = self._types[number]
        if found["kind"] == ARRAY:
            return int(found["count"]) * self._size(found["of"])
        if found["kind"] == POINTER:
            return 8
        return int(found["size"]) if found["kind"] in SIZED else self._size(found["size"])

    def size(self, name: str) -> int:
        """Bytes of a structure."""
        return int(self._structs[name]["size"])

    def field(self, name: str, field: str) -> tuple[int, int]:
        """Offset and size of a structure's field, which may be in one without a name within it."""
        found = self._look(self._structs[name], field)
        assert found is not None, f"{name} has no {field}: this kernel is another"
        return found

    def _look(self, of: dict[str, Any], field: str) -> tuple[int, int] | None:
        for name, number, offset in of.get("members", ()):
            if name == field:
                return offset, self._size(number)
            inner = None if name else self._look(self._types[number], field)
            if inner:
                return offset + inner[0], inner[1]
        return None
