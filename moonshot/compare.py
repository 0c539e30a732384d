#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Holds a real kernel's page tables against a simulated one's, page for page, for a recording of `touch`.

The recording contains in which frame each page lay, and whether its entry had the contiguous bit (a page of 64K). The
simulated kernel runs the same references, and `mmulab explain --tables` draws its tables. Frames themselves differ:
they depend on what was free. What must be equal is, for each page of private memory:

    present    whether it is mapped when the program ends
    in place   whether its frame and its page number agree modulo 16, and its frame lies in the block of 64 KiB where
               most such pages of its range lie
    bit        whether its entry has the contiguous bit

Usage: compare.py RECORDING SAID POLICY [--totals] [MMULAB-OPTION...], where SAID is the file with what the program
printed. Prints a row for each part of the memory and the first differences, or with --totals one row for all. Ends with
status 1 if a page differs, but for parts whose difference is known (KNOWN).
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = 4096
GROUP = 16
# Sizes of pages, and how many entries each takes.
ENTRIES = {"4K": 1, "64K": GROUP}
MACHINE = "neoverse-n1"
# Parts that differ, and why.
KNOWN = {
    "stack": "Linux moves its first pages, as it starts a program, from where it placed them",
    "one-protected-and-forked": "after fork() no entry may be stored to: Linux has equal entries of two mappings",
}
# Print one row for all parts.
TOTALS = "--totals"
# Differences that are printed one by one; the rest is counted.
SHOWN = 20


class Entry(NamedTuple):
    """Where a page lies: the number of its frame, and whether its entry has the contiguous bit."""

    frame: int
    bit: bool
    in_place: bool = False


class Part(NamedTuple):
    """A stretch of the program's private memory: page numbers from `start` to before `end`."""

    name: str
    start: int
    end: int


class Row(NamedTuple):
    """Pages of a part: there, in place and with the bit under each kernel; those that agree; those of either kernel."""

    name: str
    there: int
    in_place: int
    bit: int
    simulated_there: int
    simulated_in_place: int
    simulated_bit: int
    agree: int
    pages: int


Tables = dict[int, Entry]


def fail(why: str) -> None:
    """Ends with the reason."""
    sys.exit(f"compare.py: {why}")


def placed(tables: Tables) -> Tables:
    """The same entries, which say now whether they are in place."""
    blocks: dict[int, Counter[int]] = defaultdict(Counter)
    for page, entry in tables.items():
        if (entry.frame - page) % GROUP == 0:
            blocks[page // GROUP][entry.frame // GROUP] += 1

    def is_in_place(page: int, entry: Entry) -> bool:
        return (entry.frame - page) % GROUP == 0 and entry.frame // GROUP == most(blocks[page // GROUP])

    return {page: entry._replace(in_place=is_in_place(page, entry)) for page, entry in tables.items()}


def most(blocks: Counter[int]) -> int:
    """The block that most pages lie in, of equals the lowest; -1 if there is none."""
    return min(blocks, key=lambda block: (-blocks[block], block), default=-1)


def mmulab(*arguments: str) -> str:
    """What a command of mmulab prints."""
    ran = subprocess.run([sys.executable, "-m", "mmulab", *arguments], capture_output=True, text=True, check=False)
    if ran.returncode:
        fail(f"mmulab {' '.join(arguments)}\n{ran.stderr}")
    return ran.stdout


def parts_of(said: str, stack: tuple[int, int] | None) -> list[Part]:
    """The mappings that the program named, and its stack. Raises SystemExit if it named none."""
    found = [
        Part(name, int(start, 16) // PAGE, (int(start, 16) + int(length, 16)) // PAGE)
        for name, start, length in re.findall(r"part (\S+) ([0-9a-f]+) ([0-9a-f]+)", said)
    ]
    if not found:
        fail("the program named no part of its memory: it did not run")
    return [*found, Part("stack", *stack)] if stack else found


def recorded(text: str) -> tuple[Tables, tuple[int, int] | None]:
    """The first process's pages when it ended, from a trace as text; and the pages of its stack."""
    tables: Tables = {}
    stack = None
    process = 1
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["p"]:
            process = int(words[1].split(".")[0])
        elif process != 1:
            continue
        elif words[:1] == ["frames"]:
            at, frame = int(words[1], 16) // PAGE, int(words[2], 16) // PAGE
            times = int(words[4][1:]) if len(words) > 4 else 1
            entries = ENTRIES.get(words[3], 0)
            if not entries:
                fail(f"{line}: a page of this size is not compared")
            for i in range(times * entries):
                tables[at + i] = Entry(frame + i, entries == GROUP)
        elif words[:1] == ["madvise"] and "dontneed" in words:
            # The end of the process lists what is there; these pages are not, unless they were used again.
            first = int(words[1], 16) // PAGE
            for page in range(first, first + size_of(words[2]) // PAGE):
                tables.pop(page, None)
        elif words[:1] == ["mmap"] and "label=[stack]" in words:
            first = int(words[1], 16) // PAGE
            stack = first, first + size_of(words[2]) // PAGE
    return placed(tables), stack


def size_of(text: str) -> int:
    """Bytes, from a number that may end in K or M."""
    for unit, bytes_ in (("K", 1 << 10), ("M", 1 << 20)):
        if text.endswith(unit):
            return int(text[:-1], 0) * bytes_
    return int(text, 0)


def simulated(text: str) -> Tables:
    """The first process's pages, from what `mmulab explain --tables` draws."""
    tables: Tables = {}
    for times, bits, at, size, frame in leaves(text):
        entries = times * ENTRIES.get(size, 0)
        if not entries:
            fail(f"the simulated kernel has a page of {size}: such are not compared")
        for i in range(entries):
            tables[at // PAGE + i] = Entry(frame // PAGE + i, bits)
    return placed(tables)


def leaves(text: str) -> Iterator[tuple[int, bool, int, str, int]]:
    """Of each leaf of process 1: how many follow each other, the contiguous bit, address, size, physical address."""
    pattern = re.compile(r"\[\d+\] 0x([0-9a-f]+): (?:(\d+) x )?(\d+[KMG]) \S+ at 0x([0-9a-f]+)( \(16 entries\))?")
    mine = False
    for line in text.splitlines():
        if line.startswith("process "):
            mine = line.split()[1] == "1"
        elif mine and (leaf := pattern.search(line)):
            at, times, size, frame, group = leaf.groups()
            yield int(times or 1), bool(group), int(at, 16), size, int(frame, 16)


def as_it_ends(trace: str) -> str:
    """The trace without the end of its first process, which would take its tables with it."""
    head, ending, tail = trace.rstrip("\n").rpartition("\nexit ")
    if not ending or "\n" in tail:
        fail("the recording does not end with the end of the program")
    return head + "\n"


def count(tables: Tables, part: Part) -> tuple[int, int, int]:
    """Of its pages: those there, those in place, those with the bit."""
    there = [tables[page] for page in range(part.start, part.end) if page in tables]
    return len(there), sum(entry.in_place for entry in there), sum(entry.bit for entry in there)


def said_of(page: int, entry: Entry | None) -> str:
    """An entry in words."""
    if entry is None:
        return "not there"
    apart = (entry.frame - page) % GROUP
    place = "in place" if entry.in_place else f"{apart} out of place" if apart else "in another block"
    return f"{place}, {'bit' if entry.bit else 'no bit'}"


def differ(real: Entry | None, ours: Entry | None) -> bool:
    """Whether the two kernels disagree about the page. Where both are out of place, how far does not matter."""
    if real is None or ours is None:
        return real != ours
    return (real.in_place, real.bit) != (ours.in_place, ours.bit)


def compared(part: Part, real: Tables, ours: Tables) -> Row:
    """Both kernels' counts of its pages."""
    pages = [page for page in range(part.start, part.end) if page in real or page in ours]
    agree = sum(not differ(real.get(page), ours.get(page)) for page in pages)
    return Row(part.name, *count(real, part), *count(ours, part), agree, len(pages))


def differences(parts: list[Part], real: Tables, ours: Tables, policy: str) -> Iterator[str]:
    """Every page that the kernels disagree about for no known reason, in words."""
    for part in parts:
        for page in range(part.start, part.end):
            if part.name not in KNOWN and differ(real.get(page), ours.get(page)):
                yield (
                    f"{part.name} {page * PAGE:#x} (page {page % GROUP} of 16): Linux {said_of(page, real.get(page))}; "
                    f"{policy} {said_of(page, ours.get(page))}"
                )


def show(found: list[str]) -> None:
    """Prints the first of them."""
    for line in found[:SHOWN]:
        print(f"  {line}")
    if len(found) > SHOWN:
        print(f"  and {len(found) - SHOWN:,} more")


def main(recording: str, said: str, policy: str, *options: str) -> int:
    """Prints the table, then the differences. Returns how the program ends."""
    settings = [option for option in options if option != TOTALS]
    with tempfile.TemporaryDirectory() as made:
        whole, cut = Path(made, "whole.mmtx"), Path(made, "cut.mmtx")
        mmulab("trace", "convert", recording, str(whole))
        text = whole.read_text(encoding="utf-8")
        cut.write_text(as_it_ends(text), encoding="utf-8")
        drawn = mmulab("explain", MACHINE, "--trace", str(cut), "--policy", policy, "--tables", *settings)
    real, stack = recorded(text)
    ours = simulated(drawn)
    printed = Path(said).read_text(encoding="utf-8")
    parts = parts_of(printed, stack)

    rows = [compared(part, real, ours) for part in parts]
    total = Row("all", *[sum(column) for column in zip(*(row[1:] for row in rows), strict=True)])
    print(f"{'':22}{'Linux':^26}{policy:^26}")
    print(f"{'pages':22}{'there':>8}{'in place':>10}{'bit':>6}  {'there':>8}{'in place':>10}{'bit':>6}{'agree':>8}")
    for row in [total] if TOTALS in options else [*rows, total]:
        print(f"{row[0]:22}{row[1]:8}{row[2]:10}{row[3]:6}  {row[4]:8}{row[5]:10}{row[6]:6}{row[7]:8}")
    print(f"{total.agree:,} of {total.pages:,} pages agree")
    if TOTALS not in options:
        show(list(differences(parts, real, ours, policy)))
    if counted := dict(re.findall(r"count (\w+) (\d+)", printed)):
        print("the kernel counted: " + ", ".join(f"{name} {value}" for name, value in counted.items()))
    known = [row for row in rows if row.agree < row.pages and row.name in KNOWN]
    for row in known if TOTALS not in options else []:
        print(f"known: {row.name} ({row.pages - row.agree} pages): {KNOWN[row.name]}")
    return 0 if sum(row.agree for row in rows) + sum(row.pages - row.agree for row in known) == total.pages else 1


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
