"""Mappings: a list of intervals, neighbours that continue each other made one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from reference.frames import PAGE


class Object:
    """A file, or shared memory: its pages in the cache, by number."""

    def __init__(self, is_memory: bool) -> None:
        """Nothing cached."""
        self.is_memory = is_memory
        self.pages: dict[int, object] = {}
        # Pages any mapping showed so far.
        self.end = 0


@dataclass(frozen=True)
class Kind:
    """Everything two mappings must agree in to be one."""

    prot: int
    shared: bool = False
    grows_down: bool = False
    is_global: bool = False
    hugetlb: int | None = None
    advice: str = ""
    object: Object | None = None
    # Of an object: its page at address 0, so to speak; neighbours that continue each other agree in it.
    shift: int = 0

    @property
    def is_anon(self) -> bool:
        """Private anonymous memory."""
        return self.object is None


@dataclass
class Vma:
    """A mapping."""

    start: int
    end: int
    kind: Kind
    has_private: bool = False

    def page(self, va: int) -> int:
        """The page of the object at `va`."""
        return va // PAGE + self.kind.shift

    def fits(self, va: int, bytes_: int) -> bool:
        """Whether the aligned page of this size around `va` lies inside."""
        first = va - va % bytes_
        return self.start <= first and first + bytes_ <= self.end


class Vmas:
    """All mappings of an address space, in order."""

    def __init__(self) -> None:
        """None."""
        self.all: list[Vma] = []

    def copy(self) -> Vmas:
        """For a child."""
        out = Vmas()
        out.all = [replace(v) for v in self.all]
        return out

    def find(self, va: int) -> Vma | None:
        """The mapping that holds `va`."""
        return next((v for v in self.all if v.start <= va < v.end), None)

    def over(self, start: int, end: int) -> list[Vma]:
        """The mappings that share an address with a range."""
        return [v for v in self.all if v.start < end and start < v.end]

    def hole(self, start: int, end: int) -> int:
        """The first address of a range that no mapping holds, or its end."""
        at = start
        for v in self.over(start, end):
            if v.start > at:
                break
            at = v.end
        return min(at, end)

    def cut(self, start: int, end: int) -> list[Vma]:
        """Removes what lies on a range, and returns it."""
        kept, gone = [], []
        for v in self.all:
            for first, last, target in (
                (v.start, min(v.end, start), kept),
                (max(v.start, start), min(v.end, end), gone),
                (max(v.start, end), v.end, kept),
            ):
                if first < last:
                    target.append(replace(v, start=first, end=last))
        self.all = kept
        return gone

    def insert(self, vma: Vma) -> None:
        """Lays a mapping where nothing lies."""
        assert not self.over(vma.start, vma.end)
        merged: list[Vma] = []
        for v in sorted([*self.all, vma], key=lambda v: v.start):
            if merged and merged[-1].end == v.start and merged[-1].kind == v.kind:
                merged[-1].end = v.end
                merged[-1].has_private |= v.has_private
            else:
                merged.append(v)
        self.all = merged
