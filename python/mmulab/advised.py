"""What an adviser sees and may ask for, and how the engine asks it.

An adviser is any object with one of the methods `fault` and `tick`, or both::

    class Huge:
        def fault(self, fault):                  # at a fault on private anonymous memory
            return "2M" if "2M" in fault.sizes else None

    trace.run("zen3-5900x", ["linux-4k"], adviser=Huge())

`mmulab.advisers` has two that are ready to use. The guide: docs/guide/advisers.md.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mmulab import UserError
from mmulab.units import parse_bytes

# Bytes of a base page.
BASE = 4096
# What the engine hands over: a mapping, and a process with its mappings and its runs of pages.
_Mapping = tuple[int, int, str, str, str | None]
_Process = tuple[int, list[_Mapping], list[tuple[int, str, int]]]


def size_bytes(size: str) -> int:
    """The bytes of a page size, such as "2M". Raises UserError for a text that is none."""
    found = parse_bytes(size)
    if found is None or found < BASE or found & (found - 1):
        raise UserError(f"{size!r} is not a page size\nhint: write a power of two from 4K, such as 64K, 2M or 1G")
    return found


@dataclass(frozen=True)
class Mapping:
    """A mapping of private anonymous memory."""

    start: int
    # The address after the last.
    end: int
    # Of the region in reports that it belongs to: `heap`, `anon`, `stack`, ...
    kind: str
    # And its name: `[heap]`, `anon`, ...
    name: str
    # What the program advised: `hugepage`, `nohugepage` or None.
    advice: str | None


@dataclass(frozen=True)
class Fault:
    """A fault that is about to be served: nothing is mapped at its address."""

    address: int
    # `read`, `write` or `fetch`.
    access: str
    pid: int
    mapping: Mapping
    # The sizes that can be mapped there now, from the smallest up, such as ("4K", "2M").
    sizes: tuple[str, ...]


@dataclass(frozen=True)
class Pages:
    """Pages of one size that follow each other."""

    start: int
    # The size of each.
    size: str
    count: int

    @property
    def end(self) -> int:
        """The address after the last."""
        return self.start + self.count * size_bytes(self.size)


@dataclass(frozen=True)
class Process:
    """The memory of a process that can be promoted."""

    pid: int
    # From the lowest up.
    mappings: tuple[Mapping, ...]
    # The pages mapped in these, without zero pages, from the lowest up.
    pages: tuple[Pages, ...]

    def mapped(self, size: str) -> dict[int, int]:
        """Bytes mapped by smaller pages in each aligned range of `size` that has any, by its first address."""
        whole = size_bytes(size)
        found: dict[int, int] = {}
        for run in self.pages:
            if size_bytes(run.size) >= whole:
                continue
            at = run.start
            while at < run.end:
                first = at - at % whole
                upto = min(first + whole, run.end)
                found[first] = found.get(first, 0) + upto - at
                at = upto
        return found

    def holds(self, start: int, end: int) -> bool:
        """Whether one mapping has all of a range."""
        return any(mapping.start <= start and end <= mapping.end for mapping in self.mappings)


@dataclass(frozen=True)
class View:
    """All memory that can be promoted, at a tick. It is a copy: nothing follows from a change of it."""

    # Simulated nanoseconds since the start.
    now_ns: int
    # The sizes that memory can be promoted to.
    sizes: tuple[str, ...]
    # In the order in which they came into being.
    processes: tuple[Process, ...]


@dataclass(frozen=True)
class Promotion:
    """A range to be promoted: whole aligned pages of `size`, each of which becomes one page."""

    pid: int
    start: int
    # The address after the last.
    end: int
    size: str = "2M"


def qualified_name(adviser: object) -> str:
    """How results name an adviser: the module and the name of its class."""
    return f"{type(adviser).__module__}.{type(adviser).__qualname__}"


class Bridge:
    """An adviser as the engine calls it (crates/python/src/adviser.rs). It keeps the exception that ended the run."""

    def __init__(self, adviser: object) -> None:
        """Raises UserError where the adviser cannot be asked anything."""
        self.name = qualified_name(adviser)
        self._fault = self._method(adviser, "fault")
        self._tick = self._method(adviser, "tick")
        self.faults, self.ticks = self._fault is not None, self._tick is not None
        if not (self.faults or self.ticks):
            raise UserError(f"{self.name}: it advises nothing\nhint: give it a method fault(fault), or tick(view)")
        period = getattr(adviser, "period_ms", None)
        if period is not None and not (isinstance(period, int) and not isinstance(period, bool) and 0 < period < 2**63):
            raise UserError(f"{self.name}: period_ms is {period!r}\nhint: give whole milliseconds, from 1 on")
        self.period_ms: int | None = period
        self.raised: BaseException | None = None

    def _method(self, adviser: object, name: str) -> Any:
        method = getattr(adviser, name, None)
        if method is not None and not callable(method):
            raise UserError(f"{self.name}: {name} is {method!r}\nhint: make it a method")
        return method

    def fault(self, address: int, access: str, pid: int, mapping: _Mapping, sizes: list[str]) -> str | None:
        """The size that a fault is to map; None leaves that to the policy."""
        try:
            answer = self._fault(Fault(address, access, pid, Mapping(*mapping), tuple(sizes)))
            if answer is not None and answer not in sizes:
                raise UserError(
                    f"{self.name}: it asked for a page of {answer!r} at {address:#x} of process {pid}, which cannot be "
                    f"mapped there\nhint: return one of the fault's sizes, which were {', '.join(sizes)}, or None"
                )
        except BaseException as error:
            self.raised = error
            raise
        return None if answer is None else str(answer)

    def tick(self, now_ns: int, sizes: list[str], processes: list[_Process]) -> list[tuple[int, int, int, str]]:
        """Ranges to promote: process, first address, the one after the last, size."""
        try:
            view = View(now_ns, tuple(sizes), tuple(_processes(processes)))
            return [self._asked(promotion, view) for promotion in self._tick(view) or ()]
        except BaseException as error:
            self.raised = error
            raise

    def _asked(self, promotion: object, view: View) -> tuple[int, int, int, str]:
        if not isinstance(promotion, Promotion):
            raise UserError(f"{self.name}: tick gave {promotion!r}\nhint: give advised.Promotion(pid, start, end)")
        if promotion.size not in view.sizes:
            raise UserError(
                f"{self.name}: it asked to promote {promotion.start:#x} of process {promotion.pid} to "
                f"{promotion.size!r}\nhint: give one of the view's sizes: {', '.join(view.sizes) or 'there are none'}"
            )
        numbers = (promotion.pid, promotion.start, promotion.end)
        if not all(isinstance(number, int) and 0 <= number < 2**64 for number in numbers) or promotion.pid >= 2**32:
            raise UserError(f"{self.name}: tick gave {promotion!r}\nhint: give whole numbers that a process can have")
        return (promotion.pid, promotion.start, promotion.end, promotion.size)


def _processes(handed: Iterable[_Process]) -> Iterator[Process]:
    for pid, mappings, runs in handed:
        yield Process(pid, tuple(Mapping(*mapping) for mapping in mappings), tuple(Pages(*run) for run in runs))
