"""Where instruction misses come from: by origin (program, library, JIT), by function, and by the jump that met them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mmulab.result import Result, address
from mmulab.study.aliases import shown_file
from mmulab.study.naming import CodeNames, is_dump

# What a jump is, by where it goes.
CALL, WITHIN, BACK, UNKNOWN = "call", "within", "return or jump", "not known"


@dataclass(frozen=True)
class Site:
    """A place of code: its function, or where in its file; and whether the function begins there."""

    name: str
    file: str
    origin: str
    is_start: bool = False


@dataclass
class Misses:
    """What misses of one kind cost."""

    misses: int = 0
    walks: int = 0
    cycles: int = 0

    def add(self, edge: dict[str, Any]) -> None:
        """Counts an edge in."""
        self.misses += int(edge["l1i_misses"])
        self.walks += int(edge["walks"])
        self.cycles += int(edge["stall_cycles"])


@dataclass(frozen=True)
class Edge:
    """A jump between two functions, or within one."""

    caller: str
    caller_file: str
    callee: str
    callee_file: str
    kind: str


class Instructions:
    """The instruction misses of a result, in three tables; each adds up to all misses of the first level."""

    def __init__(self, result: Result, recording: str = "") -> None:
        """Sums up the result's edges. `recording`: as for [`CodeNames`]."""
        self._code = CodeNames(result, recording)
        # What runs before the first exec of a trace.
        self._first = str(result.trace.get("program") or "")
        found = result.edges
        origins: dict[str, Misses] = {}
        functions: dict[tuple[str, str, str], Misses] = {}
        edges: dict[Edge, Misses] = {}
        for place in found["places"]:
            to = self._site(place["region"], place["pid"], place["addr"])
            origins.setdefault(to.origin, Misses()).add(place)
            functions.setdefault((to.name, to.file, to.origin), Misses()).add(place)
            edges.setdefault(self._edge(place, to), Misses()).add(place)
        rest = Misses()
        rest.add(found["rest"])
        self.rest = rest
        self.origins = _sorted(origins)
        self.functions = _sorted(functions)
        self.edges = _sorted(edges)
        self.total = sum(misses.misses for _, misses in self.origins) + rest.misses

    def _site(self, number: Any, pid: Any, at: Any) -> Site:
        region = self._code.region(number)
        path = str(region.get("file") or "")
        what = self._code.at(region, int(pid), address(at))
        file = path or str(region.get("name", "unmapped"))
        return Site(what.name, file, self._origin(region, path), what.is_start)

    def _origin(self, region: dict[str, Any], path: str) -> str:
        if path and not is_dump(path):
            is_own = shown_file(region, self._first) == (region.get("program") or self._first)
            return "the program" if is_own else "libraries"
        if not region:
            return "unmapped"
        # The kernel's own pages have names in brackets; other memory that holds code was written as it ran.
        return "the kernel's pages" if region.get("kind") == "special" else "JIT, or code without a file"

    def _edge(self, place: dict[str, Any], to: Site) -> Edge:
        if place["from"] is None:
            return Edge("", "", to.name, to.file, UNKNOWN)
        come = self._site(place["from_region"], place["pid"], place["from"])
        other = CALL if to.is_start else BACK
        kind = WITHIN if (come.name, come.file) == (to.name, to.file) else other
        return Edge(come.name, come.file, to.name, to.file, kind)


def _sorted(found: dict[Any, Misses]) -> list[tuple[Any, Misses]]:
    return sorted(found.items(), key=lambda item: (-item[1].misses, -item[1].cycles, str(item[0])))


def by_kind(edges: Iterable[tuple[Edge, Misses]]) -> dict[str, int]:
    """Misses by what kind of jump met them."""
    found = dict.fromkeys((CALL, BACK, WITHIN, UNKNOWN), 0)
    for edge, misses in edges:
        found[edge.kind] += misses.misses
    return found
