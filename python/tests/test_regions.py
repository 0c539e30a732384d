"""Whose regions are, what memory they take, and what becomes of those that are gone."""

import re
from pathlib import Path

import pytest
from conftest import Cli

from mmulab import Failure
from mmulab.result import Result
from mmulab.study import Outcome, places
from mmulab.study.owners import Owners

MACHINE = "skylake-e3-1240v5"
MIB = 1 << 20
COSTS = ("l1i_misses", "l1d_misses", "walks", "walk_reads", "walk_cycles")


def _studied(cli: Cli, directory: Path, lines: list[str], *more: str) -> tuple[Outcome, str]:
    (directory / "a.mmtx").write_text("\n".join(lines) + "\n")
    ran = cli("study", "a.mmtx", "--machines", MACHINE, "--out", "out", *more)
    assert ran.code == 0, ran.err
    results = [Result.load(p) for p in sorted((directory / "out" / "results").glob("*.json"))]
    return Outcome(results), ran.out


def _work(base: int, count: int, pages: int = 4096) -> list[str]:
    return [f"w {base + i * 7919 % pages * 4096:#x}" for i in range(count)]


def _family() -> list[str]:
    """A shell starts a launcher, that a server, and that three children, who do equal work on memory of their own."""
    lines = [
        "mmap 0x400000 64K rx file:/bin/dash+0",
        "f 0x400000 x4",
        "brk 0x600000 0x620000",
        *_work(0x600000, 20, 32),
    ]
    lines += ["fork 2", "p 2.2", "exec /usr/bin/env", "mmap 0x400000 64K rx file:/usr/bin/env+0", "f 0x400000 x4"]
    lines += ["exec /opt/server", "mmap 0x400000 1M rx file:/opt/server+0", "f 0x400000 x4"]
    for child in (3, 4, 5):
        lines += ["p 2.2", f"fork {child}", f"p {child}.{child}", "mmap 0x40000000 16M rw anon"]
        for reference in _work(0x40000000, 4000):
            lines += ["f 0x400000 x4", reference]
        lines += ["exit"]
    return lines


def test_a_mapping_of_a_program_is_one_row_over_its_processes(cli: Cli, tmp_path: Path) -> None:
    """CHANGELOG number 9: three forked children with equal work have one verdict, under their program's name."""
    outcome, shown = _studied(cli, tmp_path, _family())
    rows = outcome.regions[MACHINE]
    anon = [row for row in rows if row.kind == "anon"]
    assert [row.name for row in anon] == ["anon of server (4 processes)"]
    assert anon[0].walks["linux-4k"] >= 3 * 3000, "what all three cost"
    assert anon[0].page_size == "2M"
    assert len(re.findall(r"^anon of server \(4 processes\)", shown, re.MULTILINE)) == 1
    report = (tmp_path / "out" / "report.html").read_text()
    assert "anon of server (4 processes)" in report
    assert "pid " not in report
    # The same 2 MB of each child are one block.
    starts = [s.start for s in outcome.blocks[MACHINE] if s.region.startswith("anon")]
    assert sorted(starts) == [0x40000000 + i * 2 * MIB for i in range(8)]


def test_shells_and_launchers_are_named_as_what_they_are(cli: Cli, tmp_path: Path) -> None:
    """CHANGELOG number 9: each program that ran has a row, with its part in the whole."""
    outcome, shown = _studied(cli, tmp_path, ["#: program /bin/dash", *_family()])
    found = {p.path: (p.role, p.processes) for p in outcome.programs[MACHINE]}
    assert found == {"/bin/dash": ("shell", 2), "/usr/bin/env": ("launcher", 1), "/opt/server": ("", 4)}
    assert outcome.programs[MACHINE][0].path == "/opt/server"
    assert "/bin/dash (shell)" in shown
    assert "/usr/bin/env (launcher)" in shown
    assert '<section id="programs">' in (tmp_path / "out" / "report.html").read_text()
    one, shown = _studied(cli, tmp_path, ["mmap 0x40000000 16M rw anon", *_work(0x40000000, 100)])
    assert [r.name for r in one.regions[MACHINE]] == ["anon"], "a program by itself needs no name"
    assert "Programs that ran" not in shown


def test_a_program_started_again_elsewhere_is_the_same_program(cli: Cli, tmp_path: Path) -> None:
    """CHANGELOG number 9: its text and heap are one row each, wherever they lie; another program's are others."""
    lines = []
    for run, base in ((2, 0x400000), (3, 0x7F0000000000), (4, 0x400000)):
        path = "/bin/cc" if run < 4 else "/bin/ld"
        lines += ["p 1.1", f"fork {run}", f"p {run}.{run}", f"exec {path}"]
        lines += [f"mmap {base:#x} 1M rx file:/lib/c.so+0x2000", f"brk {base + 16 * MIB:#x} {base + 17 * MIB:#x}"]
        for i in range(200):
            lines += [f"f {base + i % 100 * 4096:#x} x4", f"w {base + 16 * MIB + i * 4096:#x}"]
        lines += ["exit"]
    outcome, _ = _studied(cli, tmp_path, lines, "--policies", "linux-4k")
    names = sorted(row.name for row in outcome.regions[MACHINE])
    cc = ["/lib/c.so r-x of cc (2 processes)", "[heap] of cc (2 processes)"]
    assert names == sorted([*cc, "/lib/c.so r-x of ld", "[heap] of ld"])
    by_name = {row.name: row for row in outcome.regions[MACHINE]}
    assert by_name[cc[1]].walks["linux-4k"] == 2 * by_name["[heap] of ld"].walks["linux-4k"]


def test_members_of_a_mix_keep_their_regions_apart(cli: Cli) -> None:
    """Two members that run one generator are two programs, and each member's costs are its own."""
    found = cli(
        "run", MACHINE, "--trace", "mix:two-gups?footprint=1M&quantum=50", "--max-instructions", "50k", "--json"
    )
    result = Result(found.json())
    names = {Owners(result).of(region).name for region in result.regions if region["pid"]}
    assert len(names) == 2
    for member in result.members:
        first, last = next(m["pids"] for m in result.trace["mix"]["members"] if m["name"] == member["name"])
        own = [r for r in result.regions if first <= r["pid"] <= last]
        assert all(sum(r[key] for r in own) == member[key] > 0 for key in ("walks", "walk_reads", "l1d_misses"))


@pytest.fixture
def sparse(cli: Cli, tmp_path: Path) -> tuple[Outcome, str]:
    """256 MB of which the program only loads, and 8 MB of which it stores to every fourth page."""
    lines = ["mmap 0x400000 64K rx file:/bin/p+0", "mmap 0x40000000 256M rw anon", "mmap 0x80000000 8M rw anon"]
    lines += ["mmap 0x400000000 2M rw anon shared"]
    for i in range(6000):
        lines += [f"f {0x400000 + i % 16 * 4096:#x} x4", f"r {0x40000000 + i * 7919 % 65536 * 4096:#x}"]
        lines += [f"w {0x80000000 + i * 31 % 512 * 16384:#x}", f"w {0x400000000 + i % 64 * 4096:#x}"]
    return _studied(cli, tmp_path, lines, "--policies", "linux-4k,linux-thp")


def test_memory_cost_is_residency_everywhere(sparse: tuple[Outcome, str], cli: Cli, tmp_path: Path) -> None:
    """CHANGELOG number 5: verdict, tables and regions give one figure, in which zero pages do not count."""
    outcome, shown = sparse
    by_policy = {r.policy: r for r in outcome.results}
    base, thp = by_policy["linux-4k"], by_policy["linux-thp"]
    # By hand: stores take 2 MB in pages of 4 KB, 8 MB in pages of 2 MB; loads take nothing under either.
    assert thp.resident_peak - base.resident_peak == 6 * MIB
    assert base.resident_peak == 2 * MIB + (256 << 10) + (64 << 10)
    rows = {(row.start, row.kind): row for row in outcome.regions[MACHINE]}
    loaded, stored = rows[0x40000000, "anon"], rows[0x80000000, "anon"]
    assert (loaded.best, loaded.page_size, loaded.extra_memory) == ("linux-thp", "2M", 0)
    assert (stored.best, stored.page_size, stored.extra_memory) == ("linux-thp", "2M", 6 * MIB)
    assert sum(row.extra_memory for row in (loaded, stored)) == outcome.gain(thp).memory
    assert "for 6 MB more resident memory." in outcome.by_machine()[0]
    assert (thp.zero_mapped, thp.mapped_by_size["2M"]) == (256 * MIB, 8 * MIB)
    report = (tmp_path / "out" / "report.html").read_text()
    memory = report[report.index('id="memory"') : report.index("<h3>Page sizes</h3>")]
    assert "256 MB" not in memory
    assert "mapped" not in memory.replace("mappings", "")
    assert "264 MB" not in report + shown, "zero pages and others are never summed"
    told = cli("run", MACHINE, "--trace", "a.mmtx", "--policy", "linux-thp").out
    assert "Zero pages, which take no memory, map 256 MB." in told


def test_regions_hold_what_is_resident(sparse: tuple[Outcome, str]) -> None:
    """CHANGELOG number 5: each resident frame is one region's, now; a sum that does not come out is refused."""
    for result in sparse[0].results:
        names = {i.name for i in result.identities()}
        assert "resident bytes of all regions = total" in names
        assert sum(r["resident"]["now"] for r in result.regions) == result.memory["resident_bytes"] > 0
        assert all(r["resident"]["peak"] >= r["resident"]["now"] for r in result.regions)
        result.check()
        result.regions[1]["resident"]["now"] += 4096
        with pytest.raises(Failure, match="resident bytes of all regions = total"):
            result.check()


def test_mappings_that_come_and_go_take_no_room(cli: Cli, tmp_path: Path) -> None:
    """CHANGELOG number 19: of 200,000 mappings at as many addresses the small ones are one row; all sums stay."""
    pairs = 200_000
    with (tmp_path / "a.mmtx").open("w") as file:
        file.write("mmap 0x400000 1M rx file:/bin/p+0\n")
        for i in range(pairs):
            va = 0x1000000000 + i * 3 * 4096
            pages = 2 if i == pairs // 2 else 1
            file.write(f"f {0x400000 + i % 50 * 4096:#x} x4\nmmap {va:#x} {4 * pages}K rw anon\nw {va:#x}\n")
            file.write(f"munmap {va:#x} {4 * pages}K\n")
    ran = cli("run", MACHINE, "--trace", "a.mmtx", "--profile", "--json")
    assert len(ran.out) < MIB
    result = Result(ran.json())
    result.check()
    for profile in (result.code, result.heat):
        for key in COSTS:
            total = sum(place[key] for place in profile["places"]) + profile["rest"][key]
            assert total == sum(region[key] for region in result.regions), key
        numbers = {region["id"] for region in result.regions}
        assert {place["region"] for place in profile["places"]} <= numbers
    folded = [region for region in result.regions if region.get("folded")]
    assert [region["name"] for region in folded] == ["unmapped anon rw-"]
    anon = [region for region in result.regions if region["kind"] == "anon" and not region.get("folded")]
    assert folded[0]["folded"] + len(anon) == pairs
    assert sum(region["walks"] for region in [*folded, *anon]) >= pairs
    assert sum(region["end"] != region["start"] for region in anon) == len(anon)
    assert any(places.address(r["end"]) - places.address(r["start"]) == 8192 for r in anon), "the largest keeps its row"
    row = next(r for r in places.regions([result], "linux-4k") if r.name.startswith("unmapped"))
    assert row.name == f"unmapped anon rw- ({folded[0]['folded']:,} mappings)"
