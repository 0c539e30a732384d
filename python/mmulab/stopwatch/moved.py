"""Code that the preloaded library moved onto 2 MB pages, by the sections of its files (`.text`, `.plt`, ..).

    report of a process --> texts: each mapping of code, and which 2 MB of it were moved
    ELF section headers --> sections: names of parts of a file ------------------------------+--> coverage, rows

A section that begins or ends outside of whole, aligned 2 MB is moved in part only. Nobody sees that in the sum of all
code, so each section has a row.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import UserError, engine

Json = dict[str, Any]
HUGE = 2 << 20
# How the library begins its lines.
_TEXT = "text_"
# What is in no section: headers, and padding between sections.
REST = "(no section)"


@dataclass(frozen=True)
class Text:
    """A mapping of a file's code as it was before any of it was moved."""

    start: int
    end: int
    # Where in the file it begins.
    offset: int
    # The first address that was moved; and of each 2 MB from there on, whether one huge page maps them.
    moved: int
    huge: tuple[bool, ...]
    file: str

    @property
    def moved_end(self) -> int:
        """The address behind the last that was moved."""
        return self.moved + len(self.huge) * HUGE

    def in_file(self, address: int) -> int:
        """Where in the file an address of the mapping is."""
        return address - self.start + self.offset


def whole(found: Iterable[Text]) -> int:
    """Bytes of code that lie in whole, aligned 2 MB: those that could be moved."""
    return sum(max(0, text.end // HUGE - -(-text.start // HUGE)) * HUGE for text in found)


def texts(report: Json) -> list[Text]:
    """The mappings of code in a process's report, by address."""
    found = []
    for key, value in report.items():
        if key.startswith(_TEXT):
            place, offset, moved, pages, file = str(value).split(" ", 4)
            start, _, end = place.partition("-")
            huge = tuple(page == "H" for page in pages if page != "-")
            found.append(Text(int(start, 16), int(end, 16), int(offset, 16), int(moved, 16), huge, file))
    return sorted(found, key=lambda text: text.start)


@dataclass(frozen=True)
class Section:
    """A part of a file, by offsets in it."""

    name: str
    start: int
    end: int


def sections(path: Path) -> list[Section]:
    """The sections of a 64-bit ELF file that are loaded into memory, by offset; none where it has no headers of them.

    The file is one that ran, so that it is a whole one; a damaged one has no sections.
    """
    try:
        return [Section(*one) for one in engine.elf_sections(str(path))]
    except UserError:
        return []


def coverage(found: Iterable[Text]) -> list[Json]:
    """For each section of each file among the code: its bytes, those that were moved, and those on 2 MB pages now."""
    rows: list[Json] = []
    for text in found:
        own = [Section(s.name, max(s.start, text.offset), min(s.end, text.in_file(text.end))) for s in _of(text)]
        own = [s for s in own if s.start < s.end]
        # Bytes are counted once, also those of sections that overlap.
        ends, parts = text.offset, []
        for section in own:
            parts += [Section(REST, ends, section.start)] if section.start > ends else []
            parts += [Section(section.name, max(ends, section.start), section.end)] if section.end > ends else []
            ends = max(ends, section.end)
        parts.append(Section(REST, ends, text.in_file(text.end)))
        blocks = [(text.in_file(text.moved + at * HUGE), huge) for at, huge in enumerate(text.huge)]
        by_name: dict[str, Json] = {}
        for part in parts:
            if part.start >= part.end:
                continue
            row = by_name.setdefault(
                part.name, {"file": text.file, "section": part.name, "bytes": 0, "moved": 0, "huge": 0}
            )
            row["bytes"] += part.end - part.start
            for start, huge in blocks:
                inside = max(0, min(part.end, start + HUGE) - max(part.start, start))
                row["moved"] += inside
                row["huge"] += inside if huge else 0
        rows += by_name.values()
    return rows


def _of(text: Text) -> Sequence[Section]:
    return sections(Path(text.file))
