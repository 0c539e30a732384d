"""Contiguity of a run's pages at its end, as paper 4 (section 7.1) defines it."""

from dataclasses import dataclass
from typing import Any

from mmulab.result import Result
from mmulab.units import parse_bytes


def memhog(percent: int, chunk: str | None = None) -> tuple[str, ...]:
    """What is set so that another program holds so much of memory, in chunks at random."""
    if percent == 0:
        return ("memory.fragment.kind=none",)
    size = (f"memory.fragment.chunk={chunk}",) if chunk else ()
    return ("memory.fragment.kind=memhog", f"memory.fragment.percent={percent}", *size)


@dataclass(frozen=True)
class Row:
    """The runs of one page size."""

    percent: int | None
    size: str
    pages: int
    # Of the bytes mapped, those in pages of this size.
    share: float
    runs: int
    average: float
    # Runs by their length in pages.
    lengths: dict[int, int]
    # Of base pages, those in whole aligned blocks of each size that lie in an aligned block of frames.
    in_blocks: dict[str, int]
    # What the memory is for; None where all is counted together.
    kind: str | None = None

    @property
    def bytes(self) -> int:
        """What its pages map."""
        return self.pages * _bytes(self.size)

    @property
    def cdf(self) -> list[tuple[int, float]]:
        """For each length of runs the share of pages in runs no longer."""
        out, seen = [], 0
        for length, count in sorted(self.lengths.items()):
            seen += length * count
            out.append((length, seen / self.pages))
        return out

    def quantile(self, share: float) -> int:
        """The shortest length of a run such that this share of the pages lies in runs of it or shorter ones."""
        return next(length for length, below in self.cdf if below >= share)


def _bytes(size: str) -> int:
    return parse_bytes(size) or 0


def rows(result: Result, percent: int | None = None) -> list[Row]:
    """A row for each page size that is mapped, smallest first."""
    return rows_of(result.counts["memory"]["contiguity"]["by_size"], percent)


def by_kind(result: Result) -> list[Row]:
    """A row for each page size of each kind of memory."""
    return rows_by_kind(result.counts["memory"]["contiguity"]["by_kind"])


def rows_by_kind(found: dict[str, Any]) -> list[Row]:
    """A row for each page size of each kind of memory, of runs as the engine tells them."""
    return [row for kind, by_size in found.items() for row in rows_of(by_size, kind=kind)]


def rows_of(found: dict[str, Any], percent: int | None = None, kind: str | None = None) -> list[Row]:
    """A row for each page size, smallest first, of runs as the engine tells them."""
    total = sum(_bytes(size) * runs["pages"] for size, runs in found.items())
    made = [
        Row(
            percent,
            size,
            runs["pages"],
            _bytes(size) * runs["pages"] / total,
            runs["runs"],
            runs["average"],
            {int(length): count for length, count in runs["lengths"].items()},
            runs.get("in_blocks", {}),
            kind,
        )
        for size, runs in found.items()
    ]
    return sorted(made, key=lambda row: _bytes(row.size))
