"""What `explain` says of walks, evictions and frames (CHANGELOG number 23)."""

from collections import Counter
from pathlib import Path

import pytest
from bench import BASE, Bench, Json, K, M
from conftest import Cli
from test_claims_sizes import figure_8, mixed

THP = 'name = "thp"\nkind = "linux-thp"\n'


def references(lines: list[Json]) -> list[Json]:
    """The lines that are references."""
    return [line for line in lines if line["i"] is not None]


def events(lines: list[Json], name: str) -> list[Json]:
    """Events of a kind."""
    return [event for line in lines for event in line["events"] if event.get("event") == name]


def test_each_walk_has_a_border_and_an_outcome(bench: Bench) -> None:
    """CHANGELOG number 23: a fault, the walk after it, and a store that is forbidden."""
    trace = f"mmap {BASE:#x} 8K rw anon\nmmap {BASE + M:#x} 4K r anon\n"
    trace += f"r {BASE:#x}\nw {BASE:#x}\nr {BASE + M:#x}\nw {BASE + M:#x}\nr {BASE + 2 * M:#x}\n"
    lines, _ = bench.explain(bench.machine(""), trace, "linux-4k", "policy.linux.zero_page=false")
    told = references(lines)
    absent = {"outcome": "fault", "reason": "not_present"}
    assert [line["walks"] for line in told] == [
        [{**absent, "level": 4}, {"outcome": "mapped"}],
        [{"outcome": "mapped"}],
        [{**absent, "level": 1}, {"outcome": "mapped"}],
        [{"outcome": "fault", "reason": "denied", "level": 1}],
        [{**absent, "level": 2}],
    ]
    assert [line.get("failed") for line in told] == [None, None, None, "forbidden", "unmapped"]
    for line in told:
        begins = [at for at, step in enumerate(line["walk"]) if step.get("first")]
        assert len(begins) == len(line["walks"])
        assert begins[0] == 0
    assert [at for at, step in enumerate(told[0]["walk"]) if step.get("first")] == [0, 1]


def test_memory_that_runs_out_is_the_reason(bench: Bench) -> None:
    """The last reference has no physical address, and says why."""
    trace = f"mmap {BASE:#x} 64M rw anon\n{pages(9000)}"
    lines, result = bench.explain(bench.machine('[memory]\nsize = "32M"\n'), trace)
    assert result["ended"]["reason"] == "out-of-memory"
    assert (lines[-1]["pa"], lines[-1]["failed"]) == (None, "out-of-memory")


@pytest.mark.parametrize("mode", ["nested", "shadow"])
def test_walks_of_guests_end_in_faults_of_the_host(mode: str, bench: Bench) -> None:
    """The guest-physical address is named; with shadow tables there is one dimension."""
    tables = f'[virtual]\nmode = "{mode}"\n[virtual.memory]\nsize = "32M"\n'
    lines, result = bench.explain(
        bench.machine(tables), f"mmap {BASE:#x} 8K rw anon\nw {BASE:#x}\nw {BASE + 4096:#x}\n"
    )
    outcomes = Counter(ended["outcome"] for line in lines for ended in line["walks"])
    walks = result["counts"]["walks"]["data"]
    assert sum(outcomes.values()) == walks["walks"]
    assert outcomes["mapped"] == walks["completed"]
    assert outcomes["host_fault"] == (result["counts"]["virtual"]["walk_violations"] if mode == "nested" else 0)
    assert all(ended["gpa"] < 32 * M for line in lines for ended in line["walks"] if ended["outcome"] == "host_fault")


def test_evictions_of_mirrors_name_their_set(bench: Bench) -> None:
    """Figure 8 of paper 4: E takes the bundle's place in set 1; later copies take D's in set 1 and A's in set 0."""
    lines, _ = bench.explain(bench.machine(mixed(2, 2, 2)), figure_8(), "linux-thp")
    told = [[e for e in line["events"] if e.get("tlb") == "evicted"] for line in references(lines)[-8:]]
    # The second takes the place of the superpage that only used up memory.
    assert [[(e["set"], e["bytes"]) for e in of] for of in told] == [
        [],
        [(0, 2 * M)],
        [],
        [(1, 2 * M), (1, 2 * M)],
        [],
        [(1, 4 * K), (0, 4 * K)],
        [],
        [],
    ]
    # Other arrays hold an entry in one set, which its address names.
    lines, _ = bench.explain(bench.machine(""), f"mmap {BASE:#x} 64K rw anon\n" + pages(16))
    gone = [e for line in lines for e in line["events"] if e.get("tlb") == "evicted"]
    assert gone
    assert not any("set" in e for e in gone)


def pages(count: int, kind: str = "w") -> str:
    """A reference to each of some pages."""
    return "".join(f"{kind} {BASE + at * 4 * K:#x}\n" for at in range(count))


def test_populate_says_which_frames_it_gave(bench: Bench) -> None:
    """The references find what the event said."""
    lines, _ = bench.explain(bench.machine(""), f"mmap {BASE:#x} 256K rw anon populate\n{pages(64, 'r')}")
    given: dict[int, int] = {}
    for event in events(lines, "populated"):
        assert (event["size"], event["prot"]) == ("4K", 3)
        given |= {event["va"] + n * 4 * K: (event["pfn"] + n) * 4 * K for n in range(event["pages"])}
    assert given == {line["va"]: line["pa"] for line in references(lines)}
    huge, _ = bench.explain(
        bench.machine(""), f"mmap {BASE:#x} 4M rw anon populate\nr {BASE + 2 * M:#x}\n", bench.write("thp.toml", THP)
    )
    first = events(huge, "populated")[-1]
    at = (BASE + 2 * M - first["va"]) // (2 * M)
    assert first["size"] == "2M"
    assert references(huge)[0]["pa"] == (first["pfn"] + at * 512) * 4 * K


def test_collapses_say_which_frames_they_gave(bench: Bench) -> None:
    """By MADV_COLLAPSE, by khugepaged, in a block of base pages, and in place by FreeBSD."""
    thp = bench.write("thp.toml", THP)
    trace = f"mmap {BASE:#x} 2M rw anon\nmadvise {BASE:#x} 2M nohugepage\nw {BASE:#x}\n"
    trace += f"madvise {BASE:#x} 2M hugepage\nmadvise {BASE:#x} 2M collapse\nr {BASE + 5 * 4 * K:#x}\n"
    lines, _ = bench.explain(bench.machine(""), trace, thp)
    [collapsed] = events(lines, "collapsed")
    assert references(lines)[-1]["pa"] == (collapsed["pfn"] + 5) * 4 * K
    freebsd = f"mmap {BASE:#x} 2M rw anon\n{pages(512)}r {BASE + 5 * 4 * K:#x}\n"
    lines, _ = bench.explain(bench.machine(""), freebsd, "freebsd-super")
    [promoted] = events(lines, "promoted")
    assert references(lines)[-1]["pa"] == (promoted["pfn"] + 5) * 4 * K


def test_tables_show_accessed_and_dirty_bits(cli: Cli, tmp_path: Path) -> None:
    """Neighbours whose bits differ are lines of their own."""
    trace = f"mmap {BASE:#x} 16K rw anon populate\nmmap {BASE + M:#x} 4K rx file:/bin/x\nr {BASE:#x}\nf {BASE + M:#x}\n"
    (tmp_path / "t.mmtx").write_text(trace + f"madvise {BASE:#x} 8K free\nr {BASE:#x}\n")
    ran = cli("explain", "skylake-e3-1240v5", "--trace", "t.mmtx", "--policy", "linux-4k", "--tables")
    assert ran.code == 0, ran.err
    assert "4K rw-a- at" in ran.out
    assert "4K rw--- at" in ran.out
    assert "2 x 4K rw-ad at" in ran.out
    assert "r-xa- at" in ran.out


def test_flushes_are_named_as_the_pages_name_them(bench: Bench) -> None:
    """`space`, as work and scenarios call it; sizes are sizes."""
    trace = f"mmap {BASE:#x} 4M rw anon\n{pages(64)}munmap {BASE:#x} 4K\nmunmap {BASE:#x} 4M\n"
    lines, _ = bench.explain(bench.machine(""), trace)
    flushes = [e for line in lines for e in line["events"] if "flush" in e]
    assert [e["flush"] for e in flushes] == ["page", "space"]
    assert (flushes[0]["size"], flushes[0]["asid"]) == ("4K", flushes[1]["asid"])
