"""Claims about page tables of code that processes share (paper 2, sections I and VI-B), by how many there are."""

from collections.abc import Sequence

import pytest
from bench import Bench, Json
from claims import claim
from code_programs import LIBRARY, LIBRARY_CODE, PAGE, SUPERPAGE

from mmulab.reproduce.instruction.setting import SHARED, SKYLAKE

# A library alone in its 2 MB: 300 pages of code.
AT = LIBRARY + LIBRARY_CODE
PAGES = 300
# Upper tables of a process that has one library.
UPPER = 3


def maps(executable: str = "", at: int = AT) -> list[str]:
    """A process that maps the library, and executes a program of its own before."""
    begins = [f"exec {executable}"] if executable else []
    return [*begins, f"mmap {at:#x} {PAGES * 4}K rx file:/lib/c.so+{LIBRARY_CODE:#x}"]


def fetches(at: int = AT) -> list[str]:
    """A fetch of each of its pages."""
    return [f"f {at + page * PAGE:#x}" for page in range(PAGES)]


def run(bench: Bench, lines: Sequence[str], share: bool) -> Json:
    """The counts of a program under FreeBSD with code on base pages."""
    sets = SHARED if share else ()
    return bench.run(SKYLAKE, "\n".join(lines) + "\n", "freebsd-code-4k", *sets)["counts"]


def tables(counts: Json) -> int:
    """Page tables at the end."""
    return int(counts["memory"]["table_bytes"]) // PAGE


def joined(counts: Json) -> tuple[int, ...]:
    """Tables offered to others, joined by others, and copied because one process was to differ."""
    events = counts["kernel"]["events"]
    return tuple(events.get(f"page_tables_{what}", 0) for what in ("offered", "joined", "copied"))


@claim(
    "S1-011",
    "I, VI-B",
    "Page tables for a library grow with the processes that map it; shared, there is one copy",
)
@claim("S1-056", "VI-B", "Only the lowest tables are shared: upper ones stay each process's own")
@pytest.mark.parametrize("processes", [1, 2, 8, 32])
def test_one_copy_of_a_librarys_tables(processes: int, bench: Bench) -> None:
    lines = [line for n in range(1, processes + 1) for line in (f"p {n}.{n}", *maps(), *fetches())]
    alone, shared = (run(bench, lines, share) for share in (False, True))
    assert tables(alone) == processes * (UPPER + 1)
    assert tables(shared) == processes * UPPER + 1
    # All processes have all pages.
    assert shared["memory"]["mapped"]["4K"]["now"] == alone["memory"]["mapped"]["4K"]["now"] == processes * PAGES * PAGE


@claim("S1-054", "VI-B", "A process that maps a library gets the table that hangs off the file, if there is one")
def test_a_second_process_gets_the_table_of_the_file(bench: Bench) -> None:
    first = ["p 1.1", *maps(), *fetches()]
    second = ["p 2.2", *maps(), *fetches()]
    counts = run(bench, [*first, *second], share=True)
    assert joined(counts) == (1, 1, 0)
    # The second process's fetches fault no more.
    assert counts["kernel"]["faults"] == run(bench, first, share=True)["kernel"]["faults"]
    more = run(bench, [*first, *second], share=False)["kernel"]["faults"]
    assert sum(more.values()) > sum(counts["kernel"]["faults"].values())


@claim("S1-058", "VI-B", "A shared table is copied for the process that changes rights or stores to a page of it")
@pytest.mark.parametrize(
    "change",
    [
        [f"mprotect {AT:#x} 4K r"],
        [f"mprotect {AT:#x} 4K rw", f"w {AT:#x}"],
        [f"munmap {AT:#x} 4K"],
        [f"mmap {AT:#x} 4K rw anon", f"w {AT:#x}"],
    ],
)
def test_a_change_copies_the_table_for_one_process(change: list[str], bench: Bench) -> None:
    three = [line for n in (1, 2, 3) for line in (f"p {n}.{n}", *maps(), *fetches())]
    before = run(bench, three, share=True)
    rest = [f"f {AT + 9 * PAGE:#x}", "p 1.1", f"f {AT:#x}", "p 2.2", f"f {AT:#x}"]
    after = run(bench, [*three, *change, *rest], share=True)
    assert (joined(before), joined(after)) == ((1, 2, 0), (1, 2, 1))
    assert tables(after) == tables(before) + 1
    # The others run on, without a fault.
    assert after["segfaults"] == {"unmapped": 0, "forbidden": 0}


@claim("S1-059", "VI-B", "No template process is needed: programs with nothing else in common share a library's tables")
def test_programs_without_a_common_parent_share(bench: Bench) -> None:
    # Neither was forked, each executes another program, and the library lies elsewhere, at the same place in its 2 MB.
    elsewhere = AT + 64 * SUPERPAGE
    lines = ["p 1.1", *maps("/bin/a"), *fetches(), "p 2.2", *maps("/bin/b", elsewhere), *fetches(elsewhere)]
    counts = run(bench, lines, share=True)
    assert joined(counts) == (1, 1, 0)
    assert tables(counts) == 2 * UPPER + 1
    # At another place within its 2 MB there is no table to point to.
    shifted = AT + 64 * SUPERPAGE + 16 * PAGE
    lines = ["p 1.1", *maps("/bin/a"), *fetches(), "p 2.2", *maps("/bin/b", shifted), *fetches(shifted)]
    assert joined(run(bench, lines, share=True))[1] == 0
