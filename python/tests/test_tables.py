"""`mmulab explain --tables`, and the ways to ask for a page table."""

import json
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
    assert ["[0]", "0x40000000:", "2", "x", "4K", "rw-ad"] in lines
    assert ["[2]", "0x40400000:", "2M", "rw-ad"] in lines


@pytest.mark.parametrize(("marks", "frame"), [("ignored-bits", 0), ("frame-index", 1)])
def test_entries_that_lead_to_nodes_are_drawn(cli: Cli, trace: str, marks: str, frame: int) -> None:
    sets = ("--set", "table.kind=compendia", *FEW, "--set", f"table.compendia.marks={marks}")
    ran = cli("explain", MACHINE, "--trace", trace, "--policy", "linux-thp", "--tables", *sets)
    lines = ran.out.splitlines()
    entry = next(n for n, line in enumerate(lines) if "-> by " in line)
    bits, node = (int(line.split()[-1], 16) for line in lines[entry : entry + 2])
    # H is bit 52; or bit 7 (PSE) is set, and it is bit 13.
    assert bits == node | 0x67 | (0x2080 if frame else 1 << 52)


def test_three_levels_are_drawn(cli: Cli, trace: str) -> None:
    sets = ("--set", "table.kind=compendia", *FEW, "--set", "table.compendia.merge=1/512")
    lines = drawn(cli, trace, *sets, "--set", "table.compendia.merge_three=3")
    assert ["level", "3+2+1", "node", "of", "134217728", "entries"] in lines
    assert ["[262144]", "0x40000000:", "2", "x", "4K", "rw-ad"] in lines


def test_merged_nodes_are_drawn(cli: Cli, trace: str) -> None:
    lines = drawn(cli, trace, "--set", "table.kind=compendia", *FEW)
    assert ["level", "2+1", "node", "of", "262144", "entries"] in lines
    assert ["[512]", "0x40200000:", "4K", "rw-ad"] in lines
    assert ["[1024]", "0x40400000:", "2M", "rw-ad"] in lines


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (("table.compendia.merge=2/512",), 'compendia is for kind = "compendia" only'),
        (("table.levels=3",), "levels is 3: a table of kind x86-64-radix has 4 to 5"),
        (("table.kind=armv8-4k", "table.levels=5"), "a table of kind armv8-4k has 3 to 4"),
        (("table.kind=compendia", "table.compendia.merge=9/8"), "such as 1/8"),
        (("table.cuckoo.ways=3",), 'cuckoo is for kind = "elastic-cuckoo" only'),
        (("table.kind=hashed", "walker.cache=[]", "table.hashed.grow=1.0"), "less than 1"),
        (("table.kind=elastic-cuckoo", "walker.cache=[]", "table.cuckoo.ways=5"), "give 2 to 4"),
        (("table.kind=elastic-cuckoo",), "PWC holds level 2: caches of an elastic cuckoo table hold its walk tables"),
        (("table.kind=hashed",), "PWC: a hashed table has nothing that walk caches hold"),
        (("walker.hash_cycles=2",), "hash_cycles is for page tables found by hashing"),
        (("table.kind=compendia", "table.compendia.unmerge=1/4"), "at most compendia.merge"),
        (("table.kind=compendia", "table.compendia.merge_three=5"), "levels 3 to 4 have two levels of tables below"),
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


SMALL_CUCKOO = ("table.cuckoo.lines=64", "table.cuckoo.walk_table_lines=64")
SMALL_HASHED = ("table.hashed.lines=64",)


def test_hashed_tables_are_drawn(cli: Cli, trace: str) -> None:
    sets = ("table.kind=elastic-cuckoo", "walker.cache=[]", *SMALL_CUCKOO)
    ran = cli("explain", MACHINE, "--trace", trace, "--policy", "linux-thp", "--tables", *flags(sets))
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert "level 1, pages 4K: 3 x 64 lines" in lines
    assert "level 5, walk table of 2M: 2 x 64 lines" in lines
    # The slots worked out in docs/scenarios/hashed-tables.md.
    at = next(n for n, line in enumerate(lines) if line.startswith("    [0] 0x40000000: 2 x 4K rw-ad at "))
    assert any(lines[at - 1].startswith(f"  way {way} slot {slot} at ") for way, slot in enumerate((60, 63, 0)))
    assert any(line.startswith("    [2] 0x40400000: 2M rw-ad at ") for line in lines)
    assert any(line.startswith("    [0] 0x40000000: 4K 2M, 2M in way ") for line in lines)


def flags(sets: tuple[str, ...]) -> list[str]:
    return [part for one in sets for part in ("--set", one)]


SEARCHED = [("elastic-cuckoo", SMALL_CUCKOO), ("hashed", SMALL_HASHED)]


@pytest.mark.parametrize(("machine", "small"), SEARCHED)
@pytest.mark.parametrize("policy", ["linux-4k", "linux-thp", "linux-mthp", "freebsd-reserv"])
def test_hashed_tables_map_what_trees_do(cli: Cli, machine: str, small: tuple[str, ...], policy: str) -> None:
    trace = "gen:gups?footprint=256M&updates=3000"
    few = (*small, "memory.size=2G", "core.count=1")
    run = ("run", machine, "--trace", trace, "--policy", policy, "--json", "--set", "memory.size=2G")
    hashed = cli(*run, *flags(few))
    assert hashed.code == 0, hashed.err
    tree = cli(*run, *flags(("table={kind='x86-64-radix'}", "walker.hash_cycles=0", "walker.cache=[]", "core.count=1")))
    assert tree.code == 0, tree.err
    counts, plain = hashed.json()["counts"], tree.json()["counts"]
    assert counts["memory"]["mapped"] == plain["memory"]["mapped"]
    assert counts["kernel"]["faults"] == plain["kernel"]["faults"]
    assert counts["tlb"] == plain["tlb"]
    if policy == "linux-4k":
        assert counts["memory"]["tables"]["rehashed_lines"] > 0


@pytest.mark.parametrize(("machine", "small"), SEARCHED)
@pytest.mark.parametrize("guest", ["x86-64-radix", "elastic-cuckoo", "hashed"])
@pytest.mark.parametrize("mode", ["nested", "shadow"])
def test_hashed_tables_in_virtual_machines_are_sound(
    cli: Cli, machine: str, small: tuple[str, ...], guest: str, mode: str
) -> None:
    sets = (
        *small,
        "core.count=1",
        "memory.size=256M",
        "walker.cache=[]",
        "virtual.memory.size=64M",
        f"virtual.table.kind={guest}",
        f"virtual.mode={mode}",
    )
    trace = "gen:gups?footprint=2M&updates=300"
    options = ("--policy", "linux-thp", "--check", "translations", "--json")
    ran = cli("run", machine, "--trace", trace, *options, *flags(sets))
    assert ran.code == 0, ran.err
    assert ran.json()["complete"]


MERGED = ("compendia.merge=1/512", "compendia.unmerge=0/1")
# Tables, and what a walk of them reads for a page of 4 KiB without caches: docs/scenarios/nested-walks.md.
READS = {
    "hashed": (("kind=hashed", "hashed.lines=262144"), 1),
    "merged by pairs": (("kind=compendia", *MERGED), 2),
    "three merged": (("kind=compendia", *MERGED, "compendia.merge_three=3"), 2),
    "Armv8 of 39 bits": (("kind=armv8-4k", "levels=3"), 3),
    "elastic cuckoo": (("kind=elastic-cuckoo", "cuckoo.lines=64", "cuckoo.walk_table_lines=64"), 3),
    "x86-64": (("kind=x86-64-radix",), 4),
    "Sv48": (("kind=riscv-sv", "levels=4"), 4),
    "Sv57": (("kind=riscv-sv", "levels=5"), 5),
}


PAIRS = [(guest, host) for guest in READS for host in READS if "three merged" not in (guest, host)]


@pytest.mark.parametrize(("guest", "host"), [*PAIRS, ("three merged", "x86-64"), ("x86-64", "three merged")])
def test_any_table_below_any_other_reads_as_many(cli: Cli, tmp_path: Path, guest: str, host: str) -> None:
    path = tmp_path / "page.mmtx"
    path.write_text("mmap 0x40000000 4K rw anon populate\nr 0x40000000\n", encoding="utf-8")
    (guests, g), (hosts, h) = READS[guest], READS[host]
    sets = (
        *(f"table.{one}" for one in hosts),
        *(f"virtual.table.{one}" for one in guests),
        *("walker.cache=[]", "virtual.cache=[]", "memory.size=8G", "virtual.memory.size=4G"),
    )
    policies = ("--guest-policy", "linux-4k", "--host-policy", "linux-4k")
    ran = cli("explain", "compendia-nested", "--trace", str(path), *policies, *flags(sets))
    assert ran.code == 0, ran.err
    assert len(json.loads(ran.out.splitlines()[-1])["walk"]) == (g + 1) * (h + 1) - 1


@pytest.mark.parametrize(
    ("policy", "next_page", "cold", "warm"), [("linux-thp", "0x40200000", 30, 3), ("linux-4k", "0x40001000", 35, 7)]
)
def test_the_nested_cuckoo_machine_reads_what_its_guides_leave(
    cli: Cli, tmp_path: Path, policy: str, next_page: str, cold: int, warm: int
) -> None:
    """docs/scenarios/hashed-tables.md; of 4 KiB pages the guest has no cuckoo walk table: (3 + 1) (1 + 1) - 1."""
    path = tmp_path / "pages.mmtx"
    path.write_text(f"mmap 0x40000000 4M rw anon populate\nr 0x40000000\nr {next_page}\n", encoding="utf-8")
    policies = ("--guest-policy", policy, "--host-policy", policy)
    ran = cli("explain", "elastic-cuckoo-nested", "--trace", str(path), *policies)
    assert ran.code == 0, ran.err
    walks = [json.loads(line)["walk"] for line in ran.out.splitlines()]
    assert [sum(not step["cached"].endswith("CWC") for step in walk) for walk in walks] == [cold, warm]


@pytest.mark.parametrize(("kind", "small"), SEARCHED)
def test_lines_of_hashed_tables_coalesce_soundly(cli: Cli, kind: str, small: tuple[str, ...]) -> None:
    sets = (f"table.kind={kind}", *small, "walker.cache=[]", "core.count=1", "memory.size=64M")
    trace = "gen:gups?footprint=2M&updates=300"
    ran = cli("run", "zen3-5900x", "--trace", trace, "--check", "translations", "--json", *flags(sets))
    assert ran.code == 0, ran.err
    assert ran.json()["complete"]
