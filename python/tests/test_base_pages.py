"""Kernels with base pages of 16 and 64 KB: programs that see them, recorded and run, and what they gain."""

import shutil
import struct
from pathlib import Path

import pytest
from conftest import Bench, Cli

from mmulab import engine
from mmulab.study.plan import Plan

# Ends with the page size that the system told it (AT_PAGESZ), in units of 4 KB, as its exit status.
CODE = (
    0xF94003E0,  # ldr x0, [sp]              the number of arguments
    0x910023E1,  # add x1, sp, #8
    0x8B000C21,  # add x1, x1, x0, lsl #3
    0x91002021,  # add x1, x1, #8            the environment
    0xF8408422,  # 1: ldr x2, [x1], #8
    0xB5FFFFE2,  # cbnz x2, 1b
    0xA8C10C22,  # 2: ldp x2, x3, [x1], #16  the auxiliary vector
    0xF100185F,  # cmp x2, #6
    0x54FFFFC1,  # b.ne 2b
    0xD34CFC60,  # lsr x0, x3, #12
    0xD2800BA8,  # mov x8, #93               exit
    0xD4000001,  # svc #0
)
WORDS = "gen:gups?footprint=64M&updates=20000&init=true"


def program(path: Path) -> Path:
    """A static program for aarch64 whose one segment is aligned for every granule, with a page of zeroes behind it."""
    code = struct.pack(f"<{len(CODE)}I", *CODE)
    base, head = 0x400000, 64 + 56
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, base + head, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = head + len(code)
    segment = struct.pack("<IIQQQQQQ", 1, 7, 0, base, base, size, size + 0x1000, 0x10000)
    path.write_bytes(ident + header + segment + code)
    path.chmod(0o755)
    return path


@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="qemu-aarch64 is missing")
@pytest.mark.parametrize(("size", "status"), [("", 1), ("16K", 4), ("64K", 16)])
def test_a_recorded_program_sees_the_pages_it_is_given(cli: Cli, tmp_path: Path, size: str, status: int) -> None:
    made = program(tmp_path / "pagesize")
    given = ("--page-size", size) if size else ()
    ran = cli("record", *given, "-o", "a.mmt", "--", str(made))
    assert f"the program ended with status {status}" in ran.err
    machine = f"neoverse-n1-{size.lower()}" if size else "neoverse-n1"
    result = cli("run", machine, "--trace", "a.mmt", "--json").json()
    assert result["counts"]["kernel"]["events"]["segfaults"] == 0
    mapped = {at: found["peak"] for at, found in result["counts"]["memory"]["mapped"].items() if found["peak"]}
    assert list(mapped) == [size or "4K"]


@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="qemu-aarch64 is missing")
def test_a_program_that_saw_smaller_pages_is_partial_and_says_why(cli: Cli, tmp_path: Path) -> None:
    made = program(tmp_path / "pagesize")
    cli("record", "-o", "a.mmt", "--", str(made))
    ran = cli("run", "neoverse-n1-64k", "--trace", "a.mmt")
    assert "record the program with --page-size 64K" in ran.err
    assert ran.code != 0


def test_entries_of_64k_reach_what_those_of_4k_do_not(bench: Bench) -> None:
    """64 MB are 1,024 pages of 64 KB, which the second level of 1,280 entries holds. 16 KB are too small."""
    skipped = {"skip": 41_943_040}

    def walks(machine: str, policy: str = "linux-4k") -> int:
        counted: int = bench.run(machine, WORDS, policy, **skipped)["counts"]["tlb"]["l2d"]["misses"]
        return counted

    small, middle, large = (walks(f"neoverse-n1{name}") for name in ("", "-16k", "-64k"))
    assert small > middle > large == 0
    assert walks("neoverse-n1-16k", "linux-thp") == 0


def test_policies_for_pages_of_4k_are_refused_with_the_page_table(cli: Cli) -> None:
    for policy, key in (
        ("elastic", "fault.reach"),
        ("freebsd-reserv", "kind"),
        ("linux-thp-khugepaged", "thp.khugepaged"),
    ):
        ran = cli("run", "neoverse-n1-64k", "--trace", WORDS, "--policy", policy)
        assert ran.code == 2
        assert f"{key}: works with base pages of 4K only" in ran.err
        assert "armv8-64k" in ran.err


def test_whole_systems_have_the_pages_of_their_kernel(cli: Cli) -> None:
    ran = cli("record", "--system", "--page-size", "64K", "--", "true")
    assert ran.code == 2
    assert "--page-size does not apply to a whole system" in ran.err


def test_a_machine_whose_tlbs_hold_no_base_page_is_refused(cli: Cli) -> None:
    ran = cli("run", "neoverse-n1", "--trace", WORDS, "--set", "table.kind=armv8-16k")
    assert ran.code == 2
    assert "no TLB holds pages of 16K" in ran.err


@pytest.mark.parametrize(
    ("host", "guest", "levels"), [("-64k", "armv8-4k", 4), ("-16k", "armv8-64k", 3), ("-64k", "armv8-16k", 4)]
)
def test_guest_and_host_may_have_different_base_pages(host: str, guest: str, levels: int) -> None:
    """An entry is of the smaller page, and every walk finds the host's frame (`check`)."""
    sets = ("virtual.memory.size=1G", f"virtual.table.kind={guest}", f"virtual.table.levels={levels}")
    job = engine.Job(f"neoverse-n1{host}", "linux-4k", sets, "linux-4k")
    options = engine.Options(check="translations")
    result = engine.run("gen:gups?footprint=16M&updates=4000", [job], options).results[0].data
    assert result["complete"]
    assert result["counts"]["tlb"]["l1d"]["hits"] > 0


def test_a_study_leaves_out_policies_that_the_page_table_is_not_for(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.mmtx").write_text("mmap 0x40000000 4M rw anon\nw 0x40000000\nw 0x40200000\n", "utf-8")
    ran = cli("study", "a.mmtx", "--machines", "neoverse-n1-64k", "--out", "out")
    assert ran.code == 0
    assert "linux-code-remap left out" in ran.err
    assert any("hugetlb-2m" in path.name for path in (tmp_path / "out").rglob("*"))


def test_all_machines_of_a_study_have_base_pages_of_4k() -> None:
    """Few programs are recorded for larger ones, and few policies run there: who wants them names them."""
    named = engine.machines()
    chosen = Plan.make(WORDS, ("all",), None, (), engine.Options()).machines
    assert {str(one["name"]) for one in named} - set(chosen) == {"neoverse-n1-16k", "neoverse-n1-64k"}
