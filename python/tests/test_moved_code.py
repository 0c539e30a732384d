"""Code moved onto 2 MB pages: how much of which section, and names for profilers. Programs are built and run here."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import Build, Cli

from mmulab import Failure, UserError, perf_map, stopwatch
from mmulab.stopwatch import moved, process, report
from mmulab.stopwatch.moved import REST, Section, Text
from mmulab.study.jit import Names
from mmulab.study.jit import perf_map as read_map

Json = dict[str, Any]
MB = 1 << 20
BY_NAME = {setting.name: setting for setting in stopwatch.SETTINGS}
pytestmark = [
    pytest.mark.skipif(BY_NAME["code"].missing() is not None, reason=str(BY_NAME["code"].missing())),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program is x86-64 assembly"),
]

# Code of 11 MB in two sections, `.text` and `.text.far`, with a function in each that has whole, aligned 2 MB. It says
# where they are, and that it runs them right; then it runs one until its input ends.
PROGRAM = r"""
__asm__(
    ".text\n.globl early\n.type early,@function\nearly:\n.cfi_startproc\n.fill 6291456, 1, 0x90\nmov $7, %eax\nret\n"
    ".cfi_endproc\n.size early, .-early\n"
    ".section .text.far,\"ax\",@progbits\n.globl late\n.type late,@function\n.fill 1048576, 1, 0x90\n"
    "late:\n.cfi_startproc\n.fill 2097152, 1, 0x90\nmov $9, %eax\nret\n.cfi_endproc\n.size late, .-late\n"
    ".fill 2097152, 1, 0x90\n.text\n");
#include <stdio.h>
#include <poll.h>
int early(void); int late(void);
int main(void) {
    int right = early() == 7 && late() == 9;
    printf("%lx %lx %d\n", (long)early, (long)late, right); fflush(stdout);
    struct pollfd in = {0, POLLIN, 0};
    while (poll(&in, 1, 0) == 0) early();
    return !right;
}
"""
# The sections stay apart, and the code begins at 0x401000 each time.
LINKED = ("-O1", "-no-pie", "-Wl,--unique=.text.far")


@contextmanager
def _running(program: Path, reports: Path) -> Iterator[tuple[int, int, int]]:
    """The program with its code moved: its number, and where it says that its functions are."""
    reports.mkdir(exist_ok=True)
    env = {**BY_NAME["code"].environment(reports)}
    with subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            early, late, right = child.stdout.readline().split()
            assert right == "1", "moved code runs as before"
            yield child.pid, int(early, 16), int(late, 16)
        finally:
            assert child.stdin is not None
            child.stdin.close()
            assert child.wait(20) == 0


@pytest.fixture
def own_map() -> Iterator[Any]:
    """Maps of processes that a test starts are gone after it."""
    made: list[Path] = []

    def path(pid: int) -> Path:
        made.append(perf_map.default(pid))
        return made[-1]

    yield path
    for one in made:
        one.unlink(missing_ok=True)


def test_each_section_has_a_row_of_what_lies_on_huge_pages(build: Build, tmp_path: Path) -> None:
    """The linker's own table of sections says how long they are; the library's sums are those of the rows."""
    program = build(PROGRAM, *LINKED)
    reports = tmp_path / "reports"
    with _running(program, reports) as (pid, _, _):
        smaps = Path(f"/proc/{pid}/smaps").read_text()
    (found,) = process.reported(reports)
    assert found["pid"] == pid
    texts = moved.texts(found)
    assert sum(t.end - t.start for t in texts) == found["code_bytes"]
    assert sum(len(t.huge) for t in texts) * moved.HUGE == found["code_moved"] >= 8 * MB
    assert sum(sum(t.huge) for t in texts) * moved.HUGE == found["code_huge"]
    # The kernel's own account of these addresses.
    (own,) = [t for t in texts if t.file == str(program)]
    at = re.search(rf"^0*{own.moved:x}-0*{own.moved_end:x} r-xp.*?^AnonHugePages:\s+(\d+) kB", smaps, re.M | re.S)
    assert at is not None
    assert int(at[1]) << 10 == sum(own.huge) * moved.HUGE
    rows = {row["section"]: row for row in moved.coverage(texts) if row["file"] == str(program)}
    listed = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    for name in (".text", ".text.far", ".init", ".fini"):
        (size,) = re.findall(rf"] {re.escape(name)} +PROGBITS +[0-9a-f]+ +[0-9a-f]+ +([0-9a-f]+)", listed)
        assert rows[name]["bytes"] == int(size, 16)
    assert 0 < rows[".text"]["moved"] <= rows[".text"]["bytes"]
    assert 0 < rows[".text.far"]["moved"] <= rows[".text.far"]["bytes"]
    # What begins the mapping lies before the first whole 2 MB.
    assert rows[".init"]["moved"] == rows[".init"]["huge"] == 0
    assert sum(row["moved"] for row in rows.values()) == len(own.huge) * moved.HUGE
    assert sum(row["bytes"] for row in rows.values()) == own.end - own.start


def test_the_table_of_try_has_sections(build: Build, cli: Cli, tmp_path: Path) -> None:
    """And the JSON; under settings that move nothing there are none."""
    program = build(PROGRAM, *LINKED)
    ran = cli("try", "--settings", "4k,code", "--pairs", "1", "--out", "found.json", "--", program)
    assert ran.code == 0, ran.err
    plain, code = json.loads((tmp_path / "found.json").read_text())["settings"]
    assert plain["in_force"]["code_sections"] == []
    rows = [row for row in code["in_force"]["code_sections"] if row["file"] == str(program)]
    assert {".text", ".text.far"} <= {row["section"] for row in rows}
    table = [line.split() for line in ran.out.splitlines() if ".text.far" in line]
    assert table[0][:2] == [program.name, ".text.far"]
    assert "code under code" in ran.out
    assert re.search(r"\d+ other files", ran.out)


def test_coverage_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code from 1 MB on; the whole 2 MB are 2-4 (huge) and 4-6 MB (not); sections meet at 3 MB and end at 6.5 MB."""
    named = [Section("a", 0, 3 * MB), Section("b", 3 * MB, 6 * MB + MB // 2), Section("b", 3 * MB, 4 * MB)]
    monkeypatch.setattr(moved, "sections", lambda _path: named)
    text = Text(1 * MB, 7 * MB, 1 * MB, 2 * MB, (True, False), "/x")
    found = {row["section"]: (row["bytes"], row["moved"], row["huge"]) for row in moved.coverage([text])}
    assert found == {
        "a": (2 * MB, 1 * MB, 1 * MB),
        "b": (3 * MB + MB // 2, 3 * MB, 1 * MB),
        REST: (MB // 2, 0, 0),
    }
    monkeypatch.setattr(moved, "sections", lambda _path: [])
    assert [row["section"] for row in moved.coverage([text])] == [REST]


def test_files_without_sections_have_none(tmp_path: Path) -> None:
    """Damaged, cut, or no ELF files at all."""
    whole = Path("/bin/true").read_bytes()
    assert any(section.name == ".text" for section in moved.sections(Path("/bin/true")))
    path = tmp_path / "x"
    for data in (b"", b"#!/bin/sh\n", whole[:64], whole[:40] + b"\xff" * 24, whole[:5] + b"\x02" + whole[6:]):
        path.write_bytes(data)
        assert moved.sections(path) == []
    assert moved.sections(tmp_path / "missing") == []


@pytest.mark.parametrize("more", [[], ["-pie", "-fPIE"], ["-s"]], ids=["fixed", "position-independent", "stripped"])
def test_a_perf_map_names_moved_functions(
    more: list[str], build: Build, cli: Cli, tmp_path: Path, own_map: Any
) -> None:
    """The addresses are those that the program itself says; twice is once; other lines stay.

    A stripped program has its functions in its unwind tables, and is called by where they begin in it.
    """
    program = build(PROGRAM, *LINKED, *more)
    with _running(program, tmp_path / "reports") as (pid, early, late):
        path = own_map(pid)
        # A run-time compiler was there, and was stopped within a line.
        path.write_text("7f0000001000 20 jitted one\n7f0000002000 2")
        ran = cli("elf", "perf-map", str(pid))
        assert ran.code == 0, ran.err
        assert program.name in ran.out
        text = path.read_text()
        assert text.startswith("7f0000001000 20 jitted one\n7f0000002000 2\n")
        names = Names(read_map(text))
        mapped = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
        anonymous = [
            [int(end, 16) for end in words[0].split("-")] for words in mapped if words[1] == "r-xp" and len(words) == 5
        ]
        assert anonymous
        for name, first, length in (("early", early, 6 * MB), ("late", late, 2 * MB)):
            inside = [a for low, high in anonymous for a in range(low, high, 4096) if first <= a < first + length]
            assert len(inside) > 256
            called = f"{program.name}+{first - 0x400000:#x}" if more == ["-s"] else name
            assert {names.at(address) for address in inside} == {called}
        again = cli("elf", "perf-map", str(pid), "--json").json()
        assert again["added"] == 0
        assert again["functions"] > 1
        assert path.read_text() == text
        assert {one["file"] for one in again["moved"]} >= {str(program)}


def test_names_are_added_after_each_run(build: Build, cli: Cli, tmp_path: Path, own_map: Any) -> None:
    """`try --perf-map`: perf reads maps when it reports, so they stay."""
    script = "import os, sys; print(os.getpid(), file=open('pids', 'a')); os.execv(sys.argv[1], sys.argv[1:])"
    program = build(PROGRAM, *LINKED)
    argv = ("try", "--settings", "4k,code", "--pairs", "1", "--perf-map", "--", sys.executable, "-c", script, program)
    ran = cli(*argv)
    assert ran.code == 0, ran.err
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 4
    written = [path for path in map(own_map, pids) if path.exists()]
    assert len(written) == 2, "each setting has two runs, one of which does not count"
    assert all("early" in path.read_text() for path in written)
    refused = cli("try", "--settings", "4k,thp", "--perf-map", "--", "true")
    assert refused.code == 2
    assert "--perf-map names code that was moved" in refused.err


JIT = """
import os, sys
how = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if sys.argv[1] == "append" else 0)
os.open(f"/tmp/perf-{os.getpid()}.map", how, 0o644)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["append", "overwrite"])
def test_a_map_that_would_be_written_over_is_refused(
    how: str, own_map: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run-time compiler that holds its map open and writes where it stopped, not at the end."""
    monkeypatch.setattr(perf_map, "moved_code", lambda _maps: [perf_map.Moved(4096, 8192, "/bin/true", 0)])
    monkeypatch.setattr(perf_map, "_functions", lambda _file: ((0, 64, "f"),))
    command = [sys.executable, "-c", JIT, how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            path = own_map(child.pid)
            assert child.stdout.readline() == "ready\n"
            if how == "append":
                assert perf_map.of_process(child.pid).added == 1
                assert path.read_text() == "1000 40 f\n"
            else:
                with pytest.raises(UserError, match="would write over what is added"):
                    perf_map.of_process(child.pid)
                assert path.read_text() == ""
                assert perf_map.of_process(child.pid, tmp_path / "apart.map").added == 1
        finally:
            child.stdin.close()


def test_processes_without_moved_code_and_foreign_files_are_refused(cli: Cli, tmp_path: Path) -> None:
    """With the reason."""
    ran = cli("elf", "perf-map", str(os.getpid()))
    assert ran.code == 2
    assert "none of its code lies in anonymous memory" in ran.err
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert "there is no such process" in cli("elf", "perf-map", str(gone.pid)).err
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "other")
    with pytest.raises(Failure, match="link"):
        perf_map.add(link, [])
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UserError, match="not a file of this user's"):
        perf_map.add(tmp_path / "fifo", [])


def test_functions_moved_in_part_are_named_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: 0x1000 to 0x3000 of a file lie at 0x401000. One function begins before, one ends behind."""
    inside = ((0x800, 0x1100, "before"), (0x1100, 0x1180, "inside"), (0x2F00, 0x4000, "behind"))
    monkeypatch.setattr(perf_map, "_functions", lambda _file: (*inside, (0x4000, 0x4100, "outside")))
    lines = perf_map.lines([perf_map.Moved(0x401000, 0x403000, "/x", 0x1000)])
    assert lines == ["401000 100 before", "401100 80 inside", "402f00 100 behind"]


def test_a_real_profiler_names_moved_code(build: Build, cli: Cli, tmp_path: Path, own_map: Any) -> None:
    """perf attached to the running process: without the map it has addresses, with it functions."""
    if shutil.which("perf") is None:
        pytest.skip("no perf here")
    program = build(PROGRAM, *LINKED)
    with _running(program, tmp_path / "reports") as (pid, _, _):
        recorded = subprocess.run(
            ["perf", "record", "-q", "-e", "cpu-clock", "-o", "data", "-p", str(pid), "sleep", "0.5"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        if recorded.returncode != 0:
            pytest.skip(f"perf cannot record here: {recorded.stderr[-200:]}")

        # Its last part is in a whole 2 MB, whose pages are no file's.
        maps = Path(f"/proc/{pid}/maps").read_text()
        (moved_to,) = [m for m in perf_map.moved_code(maps) if m.file == str(program)]

        def names() -> list[str]:
            command = ["perf", "script", "-i", "data", "-F", "ip,sym"]
            said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
            samples = [line.split(maxsplit=1) for line in said.splitlines() if line.strip()]
            return [name for ip, name in samples if moved_to.start <= int(ip, 16) < moved_to.end]

        own_map(pid)
        assert len(names()) > 10
        assert set(names()) == {"[unknown]"}
        assert cli("elf", "perf-map", str(pid)).code == 0
        # `main` lies behind `early` in the moved part, and calls it.
        assert "early" in names()
        assert set(names()) <= {"early", "main"}


def test_rows_of_a_setting_that_moved_nothing_are_no_table() -> None:
    """Nor those of results of earlier versions, which have none."""
    assert report.sections({"name": "code", "in_force": {}}) is None
    row = {"file": "/x", "section": ".text", "bytes": 1, "moved": 0, "huge": 0}
    assert report.sections({"name": "code", "in_force": {"code_sections": [row]}}) is None
