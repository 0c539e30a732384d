"""Where instruction misses come from: by jump, by function and origin, and over time."""

import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench import Bench
from conftest import CHECKOUT, Cli

from mmulab import engine
from mmulab.result import Result
from mmulab.study.instructions import CALL, UNKNOWN, WITHIN, Edge, Instructions, by_kind
from mmulab.study.strip import BLOCK_BYTES, ROWS, data_strip, strip, svg, words

COMPILER = str(CHECKOUT / "tests" / "data" / "cc1-small.mmt")
SKYLAKE = "skylake-e3-1240v5"
# A TLB with one entry for instructions: each jump to another page misses.
ONE = """
[[tlb]]
name = "ITLB"
level = 1
side = "instruction"
entries = 1
ways = "full"
sizes = ["4K"]

[[tlb]]
name = "DTLB"
level = 1
side = "data"
entries = 4
ways = "full"
sizes = ["4K"]
"""
A, B, C = 0x400000, 0x401000, 0x402000
MAPPED = f"mmap {A:#x} 12K rx anon\n"


def run(bench: Bench, trace: str, **options: Any) -> Result:
    """The trace on the machine with one entry, with a profile."""
    path = bench.directory / "t.mmtx"
    path.write_text(trace)
    job = engine.Job(bench.machine(ONE), "linux-4k")
    return engine.run(str(path), [job], engine.Options(profile=True, **options)).results[0]


def jumps(result: Result) -> dict[tuple[int | None, int], int]:
    """Misses by the block that ran before and the one that missed."""
    return {(place["from"], place["addr"]): place["l1i_misses"] for place in result.edges["places"]}


def test_each_miss_is_counted_under_the_jump_that_met_it(bench: Bench) -> None:
    """A calls B ten times from two places, and B returns; loads and stores in between change nothing."""
    around = f"f {A:#x}\nr {C:#x}\nf {B:#x}\nr {C + 8:#x}\nf {A + 64:#x}\nf {B:#x}\nf {A + 128:#x}\n"
    result = run(bench, MAPPED + around * 10)
    result.check()
    # The first one is the first of the trace; A + 128 and A are on one page.
    assert jumps(result) == {(None, A): 1, (A, B): 10, (B, A + 64): 10, (A + 64, B): 10, (B, A + 128): 10}


def test_threads_have_edges_of_their_own(bench: Bench) -> None:
    """What another thread ran before is no jump of this one."""
    turns = f"f {A:#x}\np 1.2\nf {B:#x}\nf {C:#x}\np 1.1\nf {B + 64:#x}\n"
    assert jumps(run(bench, MAPPED + turns)) == {(None, A): 1, (None, B): 1, (B, C): 1, (None, B + 64): 1}


def test_a_core_in_time_counts_the_same_edges() -> None:
    """The compiler's misses by jump do not depend on how time is modelled, but for the order of walks."""
    job = engine.Job(SKYLAKE, "linux-4k")
    for timing in (None, True):
        options = engine.Options(profile=True, timing=timing, max_instructions=300_000)
        result = engine.run(COMPILER, [job], options).results[0]
        result.check()
        places = result.edges["places"]
        missed = sum(place["l1i_misses"] for place in places) + result.edges["rest"]["l1i_misses"]
        assert missed == result.tlb("l1i")["misses"] > 100
        unknown = sum(place["l1i_misses"] for place in places if place["from"] is None)
        assert unknown < 0.01 * missed


def test_without_a_profile_nothing_is_kept() -> None:
    """Golden results have no edges."""
    result = engine.run(COMPILER, [engine.Job(SKYLAKE, "linux-4k")], engine.Options(max_instructions=10_000))
    assert "edges" not in result.results[0].data
    assert result.code_windows is None


@pytest.fixture
def program(tmp_path: Path) -> tuple[Path, dict[str, int]]:
    """A program whose functions are on pages of their own, and their offsets in its file."""
    functions = "".join(
        f"__attribute__((noinline, aligned(4096))) int {name}(int x) {{ return x * 3; }}\n" for name in ("one", "two")
    )
    (tmp_path / "p.c").write_text(functions + "int main(void) { return one(two(1)); }\n")
    subprocess.run(["cc", "-O1", "-o", "p", "p.c"], cwd=tmp_path, check=True)
    listed = subprocess.run(["nm", "p"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    segments = engine.elf_check(str(tmp_path / "p"), False)["files"][0]["segments"]
    code = next(s for s in segments if s["rights"] == "r-x")
    found = {line.split()[2]: int(line.split()[0], 16) for line in listed.splitlines() if len(line.split()) == 3}
    return tmp_path / "p", {name: found[name] - code["address"] + code["offset"] for name in ("one", "two")}


def test_functions_origins_and_kinds_of_jumps(bench: Bench, program: tuple[Path, dict[str, int]]) -> None:
    """A call goes to a function's first byte; JIT code has no file; another file than the program's is a library."""
    path, offsets = program
    one, two = offsets["one"], offsets["two"]
    base = 0x10000000
    size = max(one, two) + 4096
    trace = f"exec {path}\nmmap {base:#x} {size} rx file:{path}+0\nmmap 0x20000000 4K rwx anon\n"
    trace += f"mmap 0x30000000 4K rx file:/lib/other.so+0\nf {base + one:#x}\n"
    # From one to two, back into one, to JIT code, to a library, and back into two.
    calls = (two, one + 1, 0x20000000 - base, 0x30000000 - base, two + 1)
    trace += "".join(f"f {base + at:#x}\n" for at in calls)
    found = Instructions(run(bench, trace))
    assert {origin: misses.misses for origin, misses in found.origins} == {
        "the program": 4,
        "JIT, or code without a file": 1,
        "libraries": 1,
    }
    assert {(name, misses.misses) for (name, _, _), misses in found.functions} == {
        ("one", 2),
        ("two", 2),
        ("anon (no names kept)", 1),
        ("other.so+0x0 (page)", 1),
    }
    edges = {(edge.caller, edge.callee): edge.kind for edge, _ in found.edges}
    assert edges["one", "two"] == CALL
    assert edges["two", "one"] == "return or jump"
    assert edges["other.so+0x0 (page)", "two"] == "return or jump"
    assert found.total == 6
    kinds = by_kind(found.edges)
    assert (kinds[CALL], kinds[WITHIN], kinds[UNKNOWN], sum(kinds.values())) == (1, 0, 1, 6)
    assert isinstance(found.edges[0][0], Edge)


def test_the_pages_of_code_by_window(bench: Bench) -> None:
    """Pages 0 and 1 in turn, then page 2 alone, for as long: the first half has two pages a window, the second one."""
    half = 1 << 20
    both = "".join(f"f {A if n % 2 else B:#x} x1024\n" for n in range(half // 1024))
    alone = f"f {C:#x} x1024\n" * (half // 1024)
    path = bench.directory / "t.mmtx"
    path.write_text(MAPPED + both + alone)
    ran = engine.run(str(path), [engine.Job(bench.machine(ONE), "linux-4k")], engine.Options(code_windows=True))
    windows = ran.code_windows
    assert windows is not None
    count = len(windows["pages"])
    assert count * windows["instructions"] == 2 * half
    assert windows["pages"] == [2] * (count // 2) + [1] * (count // 2)
    assert windows["total_pages"] == 3
    drawn = strip(windows, ran.results[0])
    assert (drawn.peak, drawn.mean, len(drawn.rows)) == (2, 1.5, 1)
    assert drawn.rows[0].pages == tuple(windows["pages"])
    assert "3 pages of code ran (12 KB)" in words(drawn)
    ElementTree.fromstring(svg(drawn).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" '))


def test_data_by_window_have_the_names_of_their_mappings(bench: Bench) -> None:
    """The first half of the run writes to 8 MB of anonymous memory, the second to the heap: 2 MB by 2 MB."""
    half = 1 << 20
    mapped = f"{MAPPED}mmap 0x40000000 8M rw anon\nbrk 0x600000 0x800000\n"
    anon = "".join(f"w {0x40000000 + n % 4 * BLOCK_BYTES:#x}\nf {A:#x} x1024\n" for n in range(half // 1024))
    heap = f"w 0x7f0000\nf {A:#x} x1024\n" * (half // 1024)
    path = bench.directory / "t.mmtx"
    path.write_text(mapped + anon + heap)
    ran = engine.run(str(path), [engine.Job(bench.machine(ONE), "linux-4k")], engine.Options(code_windows=True))
    assert ran.code_windows is not None
    drawn = data_strip(ran.code_windows, ran.results[0])
    assert drawn is not None
    count = len(drawn.pages)
    assert drawn.pages == (4,) * (count // 2) + (1,) * (count // 2)
    assert (drawn.total, drawn.row_bytes) == (5, BLOCK_BYTES)
    assert [(row.name, row.offset) for row in drawn.rows] == [
        *(("anonymous memory", 0x40000000 + n * BLOCK_BYTES) for n in range(4)),
        ("[heap]", 0x600000),
    ]
    assert drawn.rows[-1].pages == (0,) * (count // 2) + (1,) * (count // 2)
    assert "Data accesses used 5 blocks of 2 MB" in words(drawn)
    assert 'aria-label="Memory that data accesses used, by part of the run"' in svg(drawn)


def test_the_strip_of_a_compiler_fits_a_page() -> None:
    """Its rows have the names of its files; the drawing is some ten kilobytes and valid XML."""
    options = engine.Options(code_windows=True, profile=True, max_instructions=2_000_000)
    ran = engine.run(COMPILER, [engine.Job(SKYLAKE, "linux-4k")], options)
    assert ran.code_windows is not None
    drawn = strip(ran.code_windows, ran.results[0])
    assert 1 <= len(drawn.rows) <= ROWS
    assert drawn.rows[0].name == "cc1"
    assert sum(sum(row.pages) for row in drawn.rows) <= sum(drawn.pages)
    text = svg(drawn)
    assert len(text) < 200_000
    ElementTree.fromstring(text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" '))


def test_a_study_shows_all_of_it(cli: Cli) -> None:
    """In its report and summary; the windows beside them."""
    ran = cli("study", COMPILER, "--machines", SKYLAKE, "--max-instructions", "1M", "--no-here", "--out", "out")
    assert ran.code == 0, ran.err
    summary = (cli.cwd / "out" / "summary.txt").read_text()
    assert "Instruction misses: the program" in summary
    assert "pages of code ran" in summary
    report = (cli.cwd / "out" / "report.html").read_text()
    assert 'aria-label="Pages of code that ran, by part of the run"' in report
    assert 'aria-label="Memory that data accesses used, by part of the run"' in report
    assert "By kind: " in report
    assert (cli.cwd / "out" / "code-windows.json").exists()
