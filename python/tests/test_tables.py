"""`mmulab explain --tables`, and the ways to ask for a page table."""

from pathlib import Path

import pytest
from conftest import Cli

MACHINE = "compendia-baseline"
TRACE = """\
mmap 0x40000000 8K rw anon populate
mmap 0x40200000 4K rw anon populate
mmap 0x40400000 2M rw anon populate
r 0x40000000
"""
FEW = ("--set", "table.compendia.merge=2/512", "--set", "table.compendia.unmerge=1/512")


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "t.mmtx"
    path.write_text(TRACE, encoding="utf-8")
    return str(path)


def drawn(cli: Cli, trace: str, *sets: str) -> list[list[str]]:
    """The lines, without addresses of memory, which are the allocator's affair."""
    ran = cli("explain", MACHINE, "--trace", trace, "--policy", "linux-thp", "--tables", *sets)
    assert ran.code == 0, ran.err
    return [line.split(" at ")[0].split() for line in ran.out.splitlines()]


def test_a_radix_tree_is_drawn(cli: Cli, trace: str) -> None:
    lines = drawn(cli, trace)
    assert lines[0] == ["process", "1"]
    assert sum(line[:2] == ["level", "1"] for line in lines) == 2
    assert ["[0]", "0x40000000:", "2", "x", "4K", "rw-"] in lines
    assert ["[2]", "0x40400000:", "2M", "rw-"] in lines


def test_merged_nodes_are_drawn(cli: Cli, trace: str) -> None:
    lines = drawn(cli, trace, "--set", "table.kind=compendia", *FEW)
    assert ["level", "2+1", "node", "of", "262144", "entries"] in lines
    assert ["[512]", "0x40200000:", "4K", "rw-"] in lines
    assert ["[1024]", "0x40400000:", "2M", "rw-"] in lines


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (("table.compendia.merge=2/512",), 'compendia is for kind = "compendia" only'),
        (("table.levels=3",), "levels is 3: a table of kind x86-64-radix has 4 to 5"),
        (("table.kind=armv8-4k", "table.levels=5"), "a table of kind armv8-4k has 3 to 4"),
        (("table.kind=compendia", "table.compendia.merge=9/8"), "such as 1/8"),
        (("table.kind=compendia", "table.compendia.unmerge=1/4"), "at most compendia.merge"),
        (("table.kind=compendium",), "did you mean `compendia`"),
    ],
)
def test_tables_that_cannot_be(cli: Cli, trace: str, sets: tuple[str, ...], message: str) -> None:
    ran = cli("run", MACHINE, "--trace", trace, *(part for s in sets for part in ("--set", s)))
    assert ran.code == 2
    assert message in ran.err


@pytest.mark.parametrize("machine", ["skylake-e3-1240v5", "zen3-5900x", "neoverse-n1", "compendia-baseline"])
@pytest.mark.parametrize("policy", ["linux-4k", "linux-thp", "freebsd-reserv"])
def test_any_machine_and_policy_takes_compendia(cli: Cli, machine: str, policy: str) -> None:
    trace = "gen:gups?footprint=256M&updates=3000"
    sets = ("--set", "table.kind=compendia", *FEW)
    ran = cli("run", machine, "--trace", trace, "--policy", policy, *sets, "--json")
    assert ran.code == 0, ran.err
    plain = cli("run", machine, "--trace", trace, "--policy", policy, "--json").json()["counts"]
    merged = ran.json()["counts"]
    assert merged["memory"]["mapped"] == plain["memory"]["mapped"]
    assert merged["kernel"]["faults"] == plain["kernel"]["faults"]
