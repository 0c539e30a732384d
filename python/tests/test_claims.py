"""Claims of the papers, by their numbers. The numbers are copied from the papers; docs/claims.md lists them all."""

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import narration
import pytest
from claims import CLAIMS, PAGE, claim, page, sized
from scenarios import changed, plain

from mmulab import engine, microbench

K, M, G = 1 << 10, 1 << 20, 1 << 30
BASE = 0x40000000
Json = dict[str, Any]


class Bench:
    """Runs small programs on machines by name, or given as text."""

    def __init__(self, directory: Path) -> None:
        """Files go into `directory`."""
        self.directory = directory

    def write(self, name: str, text: str) -> str:
        """A file of this text."""
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def machine(self, tables: str) -> str:
        """The plain machine of docs/scenarios, with other tables."""
        return self.write("machine.toml", changed(plain().machine, tables))

    def run(self, machine: str, trace: str, policy: str = "linux-4k", *sets: str, **options: Any) -> Json:
        """The result of a program, given as text or `gen:...`."""
        source = trace if trace.startswith("gen:") else self.write("trace.mmtx", trace)
        job = engine.Job(machine, policy, tuple(sets))
        return engine.run(source, [job], engine.Options(**options)).results[0].data

    def explain(self, machine: str, trace: str, policy: str = "linux-4k", *sets: str) -> tuple[list[Json], Json]:
        """Every line told, and the result."""
        job = engine.Job(machine, policy, tuple(sets))
        return narration.narrate(self.write("trace.mmtx", trace), job, engine.Options())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def described(name: str) -> Json:
    """A shipped machine."""
    machine: Json = engine.resolve(engine.Job(name, "linux-4k"))["machine"]
    return machine


def array(result: Json, name: str) -> Json:
    """What an array counted."""
    found: Json = next(a for a in result["counts"]["arrays"] if a["name"] == name)
    return found


def huge_bytes(result: Json) -> int:
    """Bytes that 2 MiB pages map at the end."""
    mapped: Json = result["counts"]["memory"]["mapped"]
    return int(mapped["2M"]["now"]) if "2M" in mapped else 0


SMALL_POOL = "policy.hugetlb.pool=2G"


# Paper 1 --------------------------------------------------------------------------------------------------------------


# The two machines of paper 1 with the pages of their groups, and the plain machine with one array that coalesces so.
ZEN = [("zen3-5900x", 4), ("zenplus-2700x", 8)]


def coalescing(group: int) -> str:
    """Tables of a machine whose data TLB coalesces groups of so many pages."""
    each = 'level = 1\nways = "full"\nsizes = ["4K"]\n'
    code = f'[[tlb]]\nname = "ITLB"\nside = "instruction"\nentries = 4\n{each}\n'
    return code + f'[[tlb]]\nname = "DTLB"\nside = "data"\nentries = 64\ndesign = "zen"\ngroup = {group}\n{each}'


def pages(operations: str) -> str:
    """`r0 w1 i2` as lines of a trace."""
    names = {"r": "r", "w": "w", "i": "invlpg", "f": "f"}
    return "".join(f"{names[o[0]]} {BASE + int(o[1:]) * 4 * K:#x}\n" for o in operations.split())


def all_of(kind: str, group: int) -> str:
    """The operation on every page of a group in order."""
    return " ".join(f"{kind}{page}" for page in range(group))


def fresh(group: int, operations: str, rights: str = "rw") -> str:
    """Operations on a group that nobody has touched, which lies aligned and contiguous if touched in order."""
    return f"mmap {BASE:#x} {group * 4}K {rights} anon\n" + pages(operations)


def told(bench: Bench, group: int, trace: str) -> tuple[list[Json], Json]:
    """Every line told of the machine of `coalescing`, on a kernel whose loads get pages of their own."""
    return bench.explain(bench.machine(coalescing(group)), trace, "linux-4k", "policy.linux.zero_page=false")


def filled(lines: list[Json]) -> list[Json]:
    """Entries that the data TLB of `coalescing` got."""
    return [f for line in lines for f in line["filled"]]


@claim("S0-001", "3", "Zen 2 and newer coalesce 4 PTEs, half a line (16 KB); Zen and Zen+ all 8 of it (32 KB)")
@pytest.mark.parametrize(("machine", "group"), ZEN)
def test_the_size_of_a_group(machine: str, group: int, bench: Bench) -> None:
    lines, _ = bench.explain(machine, fresh(16, all_of("w", 16)))
    data = [f for f in filled(lines) if f["array"] == "L1-DTLB"]
    large = [f for f in data if f["bytes"] > 4 * K]
    assert {f["bytes"] for f in large} == {group * 4 * K}
    assert [f["va"] for f in large] == [BASE + at * 4 * K for at in range(0, 16, group)]
    assert {f["level"] for line in lines for f in line["filled"] if f["bytes"] > 4 * K} == {1, 2}


@claim("S0-002", "3.2", "Virtually aligned, contiguous, mapped to aligned, contiguous frames, with equal attributes")
@pytest.mark.parametrize(
    ("trace", "reason"),
    [
        (f"mmap 0x50000000 4K rw anon\nr 0x50000000\n{fresh(4, 'r0 r1 r2 r3')}", "misaligned"),
        (fresh(4, "r1 r0 r2 r3"), "not_contiguous"),
        (fresh(4, "r0 r1 r2 r3") + f"mprotect {BASE + 12 * K:#x} 4K r\n" + pages("r3"), "rights_differ"),
        (fresh(3, "r0 r1 r2 r0"), "missing"),
        (fresh(4, "r0 r1 r2 w3"), "mixed_dirty"),
    ],
)
def test_each_violated_condition_prevents_a_group(trace: str, reason: str, bench: Bench) -> None:
    lines, result = told(bench, 4, trace)
    counted = array(result, "DTLB")["coalescing"]
    assert counted[reason] >= 1
    # Rights differ only after they were equal: that group came before.
    assert counted["coalesced"] == (1 if reason == "rights_differ" else 0)
    assert sum(f["bytes"] > 4 * K for f in filled(lines)) == counted["coalesced"]


@claim("S0-003", "1", "Unlike CoLT, no page of a group may be missing")
@pytest.mark.parametrize("group", [4, 8])
def test_no_holes(group: int, bench: Bench) -> None:
    for hole in range(group):
        # The hole is punched in what had been a group.
        rest = " ".join(f"r{page}" for page in range(group) if page != hole)
        trace = fresh(group, all_of("w", group)) + f"munmap {BASE + hole * 4 * K:#x} 4K\ninvlpg {BASE:#x}\n"
        lines, result = told(bench, group, trace + pages(rest))
        assert all(f["bytes"] == 4 * K for line in lines[group:] for f in line["filled"])
        assert array(result, "DTLB")["coalescing"]["coalesced"] == 1


@claim("S0-004", "3.2", "Equal attributes: protection, accessed bit and modified bit of every PTE")
@pytest.mark.parametrize("group", [4, 8])
def test_each_attribute_must_be_equal(group: int, bench: Bench) -> None:
    reads = all_of("r", group)
    last = f"{BASE + (group - 1) * 4 * K:#x}"
    cases = {
        "rights_differ": fresh(group, reads) + f"mprotect {last} 4K r\n" + pages(f"r{group - 1}"),
        "mixed_dirty": fresh(group, reads) + pages(f"w{group - 1}"),
        # MADV_FREE clears the A bits; all but one are set again.
        "untouched": fresh(group, reads) + f"madvise {BASE:#x} {group * 4}K free\n" + pages(all_of("r", group - 1)),
    }
    for reason, trace in cases.items():
        lines, result = told(bench, group, trace)
        assert array(result, "DTLB")["coalescing"][reason] >= 1
        assert all(f["bytes"] == 4 * K for line in lines[group:] for f in line["filled"]), reason


@claim("S0-005", "3.2", "Every page of a group must have been touched before there is a coalesced entry")
@pytest.mark.parametrize(("machine", "group"), ZEN)
def test_coalesced_reloads_begin_with_the_last_page(machine: str, group: int) -> None:
    program = ": ".join(f"r{page}" for page in range(group))
    samples = microbench.run(program, engine.Job(machine, "linux-4k")).samples
    coalesced = [s["l2_miss_coalesced"] + s["l2_hit_coalesced"] for s in samples]
    assert coalesced[:-1] == [0] * (group - 1)
    assert coalesced[-1] == 2048 // group


@claim("S0-006", "3.2", "A writable group with all modified bits set becomes a read-write entry")
@pytest.mark.parametrize("group", [4, 8])
def test_a_dirty_group_lets_stores_through(group: int, bench: Bench) -> None:
    trace = fresh(group, all_of("w", group) + " " + all_of("w", group))
    lines, result = told(bench, group, trace)
    assert (filled(lines)[-1]["bytes"], filled(lines)[-1]["writable"]) == (group * 4 * K, True)
    assert all(line["l1"] == "hit" and not line["walk"] for line in lines[group:])
    assert array(result, "DTLB")["hits_by_size"][f"{group * 4}K"] == group


@claim("S0-007", "3.2", "A writable group with no modified bit set becomes an entry that is logically read-only")
@pytest.mark.parametrize("group", [4, 8])
def test_a_clean_group_is_logically_read_only(group: int, bench: Bench) -> None:
    lines, _ = told(bench, group, fresh(group, all_of("r", group)))
    assert (filled(lines)[-1]["bytes"], filled(lines)[-1]["writable"]) == (group * 4 * K, False)


@claim("S0-008", "3.2", "A store to it destroys it, after one walk that rechecks the page table")
@pytest.mark.parametrize("group", [4, 8])
def test_a_store_destroys_a_clean_group(group: int, bench: Bench) -> None:
    lines, result = told(bench, group, fresh(group, all_of("r", group) + " w0"))
    store = lines[-1]
    dropped = [e for e in store["events"] if e.get("tlb") == "invalidated"]
    assert [(e["va"], e["bytes"]) for e in dropped] == [(BASE, group * 4 * K)]
    assert [(f["va"], f["bytes"], f["writable"]) for f in store["filled"]] == [(BASE, 4 * K, True)]
    assert [step["level"] for step in store["walk"]] == [4, 3, 2, 1]
    assert array(result, "DTLB")["coalescing"]["destroyed"] == 1


@claim("S0-009", "3.2", "No read-write entry comes before all pages of the group have been written")
@pytest.mark.parametrize(("machine", "group"), ZEN)
def test_all_pages_must_be_written(machine: str, group: int, bench: Bench) -> None:
    lines, _ = told(bench, group, fresh(group, f"{all_of('r', group)} {all_of('w', group)}"))
    large = [[f["writable"] for f in line["filled"] if f["bytes"] > 4 * K] for line in lines]
    assert large == [[]] * (group - 1) + [[False]] + [[]] * (group - 1) + [[True]]
    program = all_of("r", group) + ": " + ": ".join(f"w{page}" for page in range(group))
    samples = microbench.run(program, engine.Job(machine, "linux-4k")).samples
    # Reloads after the first store's, which may find the clean entry in the L2 before it goes.
    coalesced = [s["l2_miss_coalesced"] + s["l2_hit_coalesced"] for s in samples[2:]]
    assert coalesced == [0] * (group - 2) + [2048 // group]


@claim("S0-012", "3.3", "Accessed and dirty bits in the page table are as if there were no coalescing")
@claim("S0-013", "3.2", "No two cached entries disagree on a page: all agree with the table, or grant less")
@pytest.mark.parametrize("machine", [name for name, _ in ZEN])
def test_coalescing_is_transparent(machine: str, bench: Bench) -> None:
    random = Random(5)
    lines = [f"mmap {BASE:#x} 256K rwx anon\n", f"mmap {BASE + M:#x} 128K rx file:/lib/x\n"]
    for _ in range(600):
        page = BASE + random.randrange(64) * 4 * K
        code = BASE + M + random.randrange(32) * 4 * K
        lines.append(
            random.choice(
                [*3 * [f"r {page:#x}\n"], *3 * [f"w {page:#x}\n"], f"f {code:#x}\n", f"f {page:#x}\n"]
                + [f"invlpg {page:#x}\n"]
                + ([f"madvise {page & ~0x7FFF:#x} 32K free\n"] if random.random() < 0.2 else [])
                + ([f"mprotect {page:#x} 8K {random.choice(['rx', 'rwx'])}\n"] if random.random() < 0.2 else [])
            )
        )
    # Once as it comes, and once after all pages were written in order, their bits cleared, and all were read.
    every = [f"{BASE + at * 4 * K:#x}\n" for at in range(64)]
    clean = [*(f"w {at}" for at in every), f"madvise {BASE:#x} 256K free\n", *(f"r {at}" for at in every)]
    for lines_in_order in (lines, [*lines[:2], *clean, *lines[2:]]):
        # The check compares every entry with the table, and the table with that of a run without coalescing.
        result = bench.run(machine, "".join(lines_in_order), "linux-4k", "core.count=2", check="translations")
        assert result["complete"], result["ended"]
    assert array(result, "L1-DTLB")["coalescing"]["coalesced"] > 10
    assert array(result, "L1-DTLB")["coalescing"]["destroyed"] > 0


@claim("S0-015", "3.2", "After INVLPG of one page, another page of the group may still hit its lingering 4 KB entry")
@pytest.mark.parametrize("group", [4, 8])
def test_invlpg_leaves_lingering_entries(group: int, bench: Bench) -> None:
    trace = fresh(group, f"{all_of('r', group)} r0 i1 r0 r1")
    lines, result = told(bench, group, trace)
    assert [line["l1"] for line in lines[group:]] == ["hit", "hit", "miss"]
    by_size = array(result, "DTLB")["hits_by_size"]
    assert (by_size[f"{group * 4}K"], by_size["4K"]) == (1, 1)


@claim("S0-016", "3.2", "After a store to a clean group, other pages may hit their lingering clean 4 KB entries")
@pytest.mark.parametrize("group", [4, 8])
def test_a_store_leaves_lingering_entries(group: int, bench: Bench) -> None:
    lines, result = told(bench, group, fresh(group, f"{all_of('r', group)} w0 r1"))
    assert (lines[-1]["l1"], lines[-1]["walk"]) == ("hit", [])
    assert array(result, "DTLB")["hits_by_size"]["4K"] == 1


@claim(
    "S0-017",
    "3.2",
    "A store through a lingering clean entry walks, rechecks that the PTE is writable, and sets the modified bit",
    "in part: the fault where it is not writable is tested in the engine (crates/tlb, zen.rs)",
)
def test_a_store_through_a_lingering_entry_walks(bench: Bench) -> None:
    lines, result = told(bench, 4, fresh(4, "r0 r1 r2 r3 w0 w1 w1"))
    assert [(line["l1"], len(line["walk"])) for line in lines[4:]] == [("hit", 4), ("hit", 4), ("hit", 0)]
    assert result["counts"]["walks"]["dirty_updates"] == 2


@claim(
    "S0-020",
    "3.2, 4.1, 5",
    "Zen+ coalesces code too: where frames are contiguous, its L1 ITLB misses fall",
    "direction",
)
def test_zen_plus_coalesces_code(bench: Bench) -> None:
    # 800 KB of code fetched page by page: 200 pages are more than the 64 entries of the first level, 25 groups are not.
    fetches = "".join(f"f {BASE + page * 4 * K:#x}\n" for _ in range(6) for page in range(200))
    trace = f"mmap {BASE:#x} 800K rx file:/bin/x\n" + fetches
    sets = ("policy.linux.page_cache=warm",)
    on = bench.run("zenplus-2700x", trace, "linux-4k", *sets)["counts"]["tlb"]["l1i"]["misses"]
    off = bench.run("zenplus-2700x", trace, "linux-4k", *sets, "tlb_rules.coalescing=data")["counts"]["tlb"]["l1i"]
    assert on < off["misses"] / 2


@claim("S0-021", "3.1", "A word is applied to every subregion in order before the next: r0: r1: r2: r3 has four of one")
def test_words_of_the_microbenchmark() -> None:
    job = engine.Job("zen3-5900x", "linux-4k")
    four, one = microbench.run("r0: r1: r2: r3", job), microbench.run("r0 r1 r2 r3", job)
    assert [s["text"] for s in four.samples] == ["r0", "r1", "r2", "r3"]
    assert [s["text"] for s in one.samples] == ["r0 r1 r2 r3"]
    # Page by page of each group in turn, each touch misses; the order shows in what the first level still has: in one
    # word a second round over the group's pages finds them there, in words of their own it does not.
    again = microbench.run("r0 r1 r2 r0 r1 r2", job).samples[0]
    apart = microbench.run("r0: r1: r2: r0: r1: r2", job).samples
    assert sum(again[name] for name in microbench.COUNTERS) == 3 * 512
    assert sum(s[name] for s in apart for name in microbench.COUNTERS) == 6 * 512


@claim("S0-023", "3.1", "The counters are sampled after each word")
def test_a_sample_for_each_word() -> None:
    plan = microbench.Plan(trace_repeats=3, global_repeats=2)
    samples = microbench.run("r0: w1 r2: i0 r0", engine.Job("zen3-5900x", "linux-4k"), plan).samples
    assert [(s["round"], s["word"]) for s in samples] == [(r, w) for r in range(3) for w in range(3)]


@claim("S0-024", "3.1", "Four counters of L1 DTLB misses: L2 miss and hit of 4 KB pages, and of coalesced ones")
def test_four_counters() -> None:
    sample = microbench.run("r0 r1 r2 r3", engine.Job("zen3-5900x", "linux-4k")).samples[0]
    assert set(sample) - {"round", "word", "text"} == set(microbench.COUNTERS)
    assert len(microbench.COUNTERS) == 4
    assert sum(sample[name] for name in microbench.COUNTERS) == 2048


@claim("S0-025", "3.1", "The region is 8 MB by default: 512 subregions of 16 KB on Zen 3, 256 of 32 KB on Zen+")
@pytest.mark.parametrize(("machine", "groups"), [("zen3-5900x", 512), ("zenplus-2700x", 256)])
def test_the_default_region(machine: str, groups: int) -> None:
    measured = microbench.run("r0", engine.Job(machine, "linux-4k"), pages=True)
    assert measured.plan["region"] == 8 * M
    assert measured.groups == groups
    assert measured.pages is not None
    assert len(measured.pages) == 2048


@claim("S0-027", "3.1", "Operation, local, global and trace repeats")
def test_repeats_multiply_accesses() -> None:
    job = engine.Job("zen3-5900x", "linux-4k", ("tlb_rules.coalescing=none", "tlb.L1-DTLB.entries=64"))

    def misses(**repeats: int) -> int:
        # INVLPG makes each load behind it a miss, so misses count the accesses, whatever the order.
        plan = microbench.Plan(region=2 * M, group=4, **repeats)
        samples = microbench.run("i0 r0 i1 r1: i2 r2", job, plan).samples
        return sum(int(s[name]) for s in samples for name in microbench.COUNTERS)

    once = misses()
    assert once == 3 * 128
    for kind in ("local_repeats", "global_repeats", "trace_repeats"):
        assert misses(**{kind: 3}) == 3 * once
    assert misses(local_repeats=2, global_repeats=3, trace_repeats=5) == 30 * once
    # An operation repeated at once hits.
    assert misses(operation_repeats=4) == once


@claim("S0-028", "3.1", "Re-reading 8 MB on Zen 3 takes 512 coalesced L2 hits a pass and no 4 KB miss")
def test_the_steady_state_of_reads() -> None:
    job = engine.Job("zen3-5900x", "linux-4k")
    samples = microbench.run("r0 r1 r2 r3", job, microbench.Plan(trace_repeats=5)).samples
    assert all(s["l2_miss_4k"] == s["l2_hit_4k"] == 0 for s in samples[1:])
    for sample in samples[2:]:
        assert [sample[name] for name in microbench.COUNTERS] == [0, 0, 0, 512]


@claim("S0-029", "4.1, Table 2", "L1 misses are L2 hits and misses, for data and code; hits are sums over the sizes")
@pytest.mark.parametrize("machine", [m["name"] for m in engine.machines()])
def test_first_level_misses_are_second_level_accesses(machine: str, bench: Bench) -> None:
    counts = bench.run(machine, "gen:zipf?footprint=64M&references=20000", "linux-thp")["counts"]
    for side in ("i", "d"):
        first, second = counts["tlb"][f"l1{side}"], counts["tlb"][f"l2{side}"]
        assert first["hits"] + first["misses"] == first["accesses"]
        assert first["misses"] == second["accesses"] == second["hits"] + second["misses"]
    for level in (1, 2):
        hits = sum(sum(a["hits_by_size"].values()) for a in counts["arrays"] if a["level"] == level)
        assert hits == counts["tlb"][f"l{level}i"]["hits"] + counts["tlb"][f"l{level}d"]["hits"]


@claim("S0-030", "4.1, Table 2", "Figures per 1000 instructions are counter / retired instructions x 1000")
def test_figures_per_thousand_instructions(bench: Bench) -> None:
    result = bench.run("skylake-e3-1240v5", "gen:gups?footprint=64M&updates=5000")
    for level, counted in result["counts"]["tlb"].items():
        rate = result["per_kilo_instruction"][f"{level}_misses"]
        assert rate == pytest.approx(counted["misses"] / result["counts"]["instructions"] * 1000)


@claim("S0-032", "4.1, Tables 4-11", "The L2 DTLB holds no 1 GB mapping, on Zen+ and Zen 3")
@pytest.mark.parametrize("machine", ["zenplus-2700x", "zen3-5900x"])
def test_the_second_level_never_hits_a_giant_page(machine: str, bench: Bench) -> None:
    giants = "".join(f"r {BASE + i % 2 * G + i * 4096:#x}\n" for i in range(200))
    trace = f"mmap {BASE:#x} 2G rw anon\n" + giants
    result = bench.run(machine, trace, "hugetlb-1g", SMALL_POOL, "tlb.L1-DTLB.entries=1", "tlb.L1-DTLB.ways=1")
    assert "1G" not in array(result, "L2-DTLB")["hits_by_size"]
    assert array(result, "L2-DTLB")["fills"] == 0
    assert array(result, "L1-DTLB")["evictions"] > 100


@claim("S0-034", "4.1", "1 GB instruction mappings are smashed to 2 MB entries in the L2 ITLB, 512 for the whole")
@pytest.mark.parametrize("machine", ["zenplus-2700x", "zen3-5900x"])
def test_giant_code_is_smashed(machine: str, bench: Bench) -> None:
    # Between two steps through the first page another one takes the only entry of the first level.
    steps = "".join(f"f {BASE + i * 2 * M:#x}\nf {BASE + G:#x}\n" for i in range(512))
    trace = f"mmap {BASE:#x} 2G rwx anon populate\n" + steps
    small = ("tlb.L1-ITLB.entries=1", "tlb.L1-ITLB.ways=1")
    lines, _ = bench.explain(machine, trace, "hugetlb-1g", SMALL_POOL, *small)
    fills = [f for line in lines for f in line["filled"] if f["array"] == "L2-ITLB"]
    assert {f["bytes"] for f in fills} == {2 * M}
    assert {f["va"] for f in fills} == {BASE + i * 2 * M for i in range(513)}


@claim("S0-052", "2.1", "The first fault in an eligible aligned 2 MB region allocates, zeroes and maps a 2 MB page")
def test_the_first_fault_maps_a_huge_page(bench: Bench) -> None:
    counts = bench.run("zen3-5900x", f"mmap {BASE:#x} 4M rw anon\nw {BASE + 0x123456:#x}\n", "linux-thp")["counts"]
    assert counts["memory"]["mapped"]["2M"]["now"] == 2 * M
    assert counts["kernel"]["work"]["zero_bytes"] == 512 * 4096
    assert counts["kernel"]["huge_faults"] == sum(counts["kernel"]["faults"].values()) == 1


def every_page(base: int, size: int, kind: str = "w", step: int = 4 * K) -> str:
    """Touches of each page of a range."""
    return "".join(f"{kind} {at:#x}\n" for at in range(base, base + size, step))


def shares(result: Json) -> Json:
    """How base pages lie together at the end."""
    found: Json = result["counts"]["memory"]["contiguity"]
    return found


@claim("S0-043", "2.2", "A first fault in 2 MB of anonymous memory reserves 2 MB of frames and maps one page")
def test_the_first_fault_reserves(bench: Bench) -> None:
    memory = bench.run("zen3-5900x", f"mmap {BASE:#x} 4M rw anon\nw {BASE:#x}\n", "freebsd-reserv")["counts"]["memory"]
    assert memory["mapped"]["4K"]["now"] == memory["private_bytes"] == 4096
    assert memory["reserved_bytes"] == 2 * M - 4096


@claim("S0-045", "2.2", "Pages of a reservation have VPN = PFN modulo 512 in any order, also in a heap below 2 MB")
@pytest.mark.parametrize("seed", range(4))
def test_reserved_pages_agree_with_their_frames(seed: int, bench: Bench) -> None:
    rng = Random(seed)
    pages = [*range(300), *(0x10000 + i for i in range(1200))]
    rng.shuffle(pages)
    touches = "".join(f"{rng.choice('rw')} {BASE + page * 4096:#x}\n" for page in pages)
    start = f"brk {BASE:#x} {BASE + 300 * 4096:#x}\nmmap {BASE + 0x10000000:#x} 1200 rw anon\n".replace("1200", "4800K")
    lines, result = bench.explain("zen3-5900x", start + touches, "freebsd-reserv")
    seen = [line for line in lines if line["pa"] is not None]
    assert len(seen) == len(pages)
    assert all((line["va"] >> 12) % 512 == (line["pa"] >> 12) % 512 for line in seen)
    assert shares(result)["pages_in_16K"] == shares(result)["pages"] == 1500


@claim("S0-047", "2.2", "Files have reservations for whole 2 MB only; 1.9, 2, 3 and 4 MB have 0, 1, 1 and 2")
@pytest.mark.parametrize(("size", "reservations"), [(1900 * K, 0), (2 * M, 1), (3 * M, 1), (4 * M, 2)])
def test_files_are_reserved_in_whole_parts(size: int, reservations: int, bench: Bench) -> None:
    trace = f"mmap {BASE:#x} {size // K}K r file:/data+0\n" + every_page(BASE, size, "r", 64 * K)
    happenings = bench.run("zen3-5900x", trace, "freebsd-reserv")["counts"]["kernel"]["happenings"]
    assert happenings["reservations_made"] == reservations


@claim("S0-048", "2.2", "A file fault maps neighbours, and only the page that faulted has its accessed bit set")
def test_neighbours_are_not_accessed(bench: Bench) -> None:
    trace = f"mmap {BASE:#x} 4M rx file:/bin/prog+0\n" + "".join(f"f {BASE + i * 4096:#x}\n" for i in (5, 6, 5))
    lines, result = bench.explain("zen3-5900x", trace, "freebsd-reserv")
    assert result["counts"]["memory"]["mapped"]["4K"]["now"] == 64 * K
    assert [len(line["fault"]) for line in lines if line["i"] is not None] == [1, 0, 0]
    # Promotion that asks for accessed bits counts them: with all but one cluster touched page by page, none is made.
    asks = ("policy.freebsd.promotion_needs_accessed=true",)
    head = f"mmap {BASE:#x} 2M rx file:/bin/prog+0\n"
    once = head + every_page(BASE, 2 * M, "f", 64 * K)
    refused = bench.run("zen3-5900x", once, "freebsd-super", *asks)["counts"]["kernel"]
    assert refused["happenings"]["promotions"] == 0 < refused["refusals"]["promote_not_accessed"]
    assert bench.run("zen3-5900x", once, "freebsd-super")["counts"]["kernel"]["happenings"]["promotions"] == 1


@claim("S0-054", "7", "FreeBSD promotes when all 512 pages are in use; Quicksilver when 64 are")
@pytest.mark.parametrize("threshold", [512, 64])
def test_promotion_waits_for_its_threshold(threshold: int, bench: Bench) -> None:
    sets = (f"policy.freebsd.promotion_threshold={threshold}",)
    for pages, promotions in ((threshold - 1, 0), (threshold, 1)):
        trace = f"mmap {BASE:#x} 2M rw anon\n" + every_page(BASE, pages * 4 * K)
        result = bench.run("zen3-5900x", trace, "freebsd-super", *sets)
        assert result["counts"]["kernel"]["happenings"]["promotions"] == promotions
        assert huge_bytes(result) == promotions * 2 * M


@claim("S0-055", "7", "Files below 2 MB have no reservation; smaller ones make their pages contiguous", "direction")
def test_small_reservations_serve_small_files(bench: Bench) -> None:
    trace = f"mmap {BASE:#x} 512K rx file:/lib/small.so+0\n" + every_page(BASE, 512 * K, "f")
    plain_, small = (
        bench.run("zen3-5900x", trace, "freebsd-reserv", *sets)
        for sets in ((), ('policy.freebsd.levels=["2M", "64K", "32K", "16K"]',))
    )
    assert plain_["counts"]["kernel"]["happenings"]["reservations_made"] == 0
    assert shares(plain_)["pages_in_32K"] < shares(small)["pages_in_64K"] == 128


@claim("S0-056", "6", "Navarro and others reserved 64 KB, 512 KB and 4 MB")
def test_reservations_have_several_sizes(bench: Bench) -> None:
    sets = ('policy.freebsd.levels=["64K", "512K", "4M"]',)
    trace = f"mmap {BASE:#x} 4672K r file:/data+0\n" + every_page(BASE, 4672 * K, "r", 64 * K)
    result = bench.run("zen3-5900x", trace, "freebsd-reserv", *sets)
    # 4 MB, 512 KB and 64 KB, and nothing left over.
    assert result["counts"]["kernel"]["happenings"]["reservations_made"] == 3
    assert shares(result)["pages_in_64K"] == shares(result)["pages"] == 1168


@claim("S0-039", "2.3", "A file out of phase by a page has no aligned group, though its frames are reserved")
@claim("S0-042", "5.2", "Code out of phase gets neither aligned groups nor superpages")
@pytest.mark.parametrize("shift", [1, 2, 3, 5, 511])
def test_code_out_of_phase_gains_nothing(shift: int, bench: Bench) -> None:
    at = BASE + shift * 4096
    trace = f"mmap {at:#x} 4M rx file:/bin/prog+0\n" + every_page(at, 4 * M, "f")
    result = bench.run("zen3-5900x", trace, "freebsd-super")
    assert result["counts"]["kernel"]["happenings"]["reservations_made"] == 2
    assert shares(result)["pages_in_16K"] == huge_bytes(result) == 0
    aligned = bench.run("zen3-5900x", trace.replace(f"{at:#x} 4M", f"{BASE:#x} 4M"), "freebsd-super")
    assert aligned["counts"]["kernel"]["happenings"]["promotions"] > 0


@claim(
    "S0-065",
    "5.1.1",
    "Coalescible pages of a compiler: FreeBSD with reservations > Linux > FreeBSD without",
    "direction",
)
def test_reservations_make_a_compiler_coalescible(bench: Bench) -> None:
    recorded = str(Path(__file__).parents[2] / "tests" / "data" / "cc1-small.mmt")
    job = [engine.Job("zen3-5900x", policy, ()) for policy in ("freebsd-reserv", "linux-4k", "freebsd-noresv")]
    grouped = [shares(run.data)["pages_in_16K"] for run in engine.run(recorded, job, engine.Options()).results]
    assert grouped[0] > 4 * grouped[1] > 4 * grouped[2] > 0


# Paper 2 --------------------------------------------------------------------------------------------------------------


def superpages_of_code(count: int, rounds: int) -> str:
    """One function in each of `count` 2 MB pages, at increasing offsets, called in turn."""
    calls = "".join(f"f {BASE + i * (2 * M + 64):#x}\n" for i in range(count))
    return f"mmap {BASE:#x} {count * 2}M rwx anon\n" + calls * rounds


@claim("S1-009", "I", "A residual region takes up to 511 of 1536 STLB entries, almost a third")
def test_the_residual_region_in_the_second_level(bench: Bench) -> None:
    fetches = "".join(f"f {BASE + i * 4096:#x}\n" for i in range(511))
    result = bench.run("skylake-e3-1240v5", f"mmap {BASE:#x} 2044K rx file:/bin/prog+0\n{fetches}")
    stlb = array(result, "STLB")
    assert (stlb["fills"], stlb["evictions"]) == (511, 0)
    assert sized(described("skylake-e3-1240v5"), 2, "instruction", "4K") == 1536
    assert pytest.approx(0.3327, abs=1e-4) == 511 / 1536


@claim(
    "S1-012", "II, Table I", "Skylake has 8 ITLB entries for 2 MB and none for 1 GB; the STLB 1,536", "in part: Skylake"
)
def test_the_capacities_of_skylake() -> None:
    machine = described("skylake-e3-1240v5")
    assert sized(machine, 1, "instruction", "2M") == 8
    assert sized(machine, 1, "instruction", "1G") == 0
    assert sized(machine, 2, "instruction", "2M") == 1536


@claim("S1-036", "V-A", "An STLB hit costs 7 cycles")
def test_a_second_level_hit_of_skylake(bench: Bench) -> None:
    trace = f"mmap {BASE:#x} 4K rwx anon populate\nr {BASE:#x}\nf {BASE:#x}\n"
    lines, _ = bench.explain("skylake-e3-1240v5", trace)
    assert (lines[1]["l1"], lines[1]["l2"], lines[1]["cycles"]) == ("miss", "hit", 7)


@claim(
    "S1-039",
    "V-A",
    "8 functions in 8 superpages never miss once warm; with 9, every call misses",
    "exactly, its misses",
)
@claim("S1-040", "V-A", "With 9 superpages virtually all ITLB misses hit the STLB", "exactly, its hits")
def test_nine_superpages_of_code_on_skylake(bench: Bench) -> None:
    rounds = 50
    eight = bench.run("skylake-e3-1240v5", superpages_of_code(8, rounds), "linux-thp")["counts"]["tlb"]
    nine = bench.run("skylake-e3-1240v5", superpages_of_code(9, rounds), "linux-thp")["counts"]["tlb"]
    assert eight["l1i"]["misses"] == 8
    assert nine["l1i"]["misses"] == nine["l1i"]["accesses"] == 9 * rounds
    assert nine["l2i"]["misses"] == 9


@claim("S1-031", "V", "The anomaly comes from the split ITLB: one that does not tell sizes apart has none")
@pytest.mark.parametrize("machine", ["zenplus-2700x", "zen3-5900x"])
def test_nine_superpages_of_code_on_zen(machine: str, bench: Bench) -> None:
    for count in (8, 9, 16, 32):
        tlb = bench.run(machine, superpages_of_code(count, 20), "linux-thp")["counts"]["tlb"]
        assert tlb["l1i"]["misses"] == count


def server(superpages: int, calls: int = 6000) -> str:
    """A program of 16 code regions with 24 hot pages each, in random order, and 1,400 pages of data. The first regions
    are superpages."""
    random = Random(7)
    data = BASE + 64 * M
    lines = [f"mmap {BASE:#x} 32M rwx anon", f"mmap {data:#x} 5600K rw anon"]
    lines += [f"madvise {BASE:#x} {superpages * 2}M hugepage"] if superpages else []
    lines += [f"w {BASE + i * 2 * M:#x}" for i in range(superpages)]
    hot = [BASE + region * 2 * M + page * 84 * K for region in range(16) for page in range(24)]
    lines += [f"w {va:#x}" for va in hot] + [f"w {data + i * 4096:#x}" for i in range(1400)]
    for _ in range(calls):
        lines += [f"f {random.choice(hot):#x} x20", f"r {data + random.randrange(1400) * 4096:#x}"]
    return "\n".join(lines) + "\n"


def walk_cycles(result: Json, side: str) -> int:
    """Cycles of walks."""
    cycles: int = result["counts"]["walks"][side]["cycles"]
    return cycles


@claim("S1-028", "V, Figures 5-6", "Instruction and data walk cycles fall as code superpages are added", "direction")
@claim(
    "S1-029", "V, Figures 5-6", "ITLB misses have an optimum at a small number of superpages, then rise", "direction"
)
def test_more_and_more_superpages_of_code(bench: Bench) -> None:
    counts = (0, 4, 8, 12, 16)
    runs = [bench.run("skylake-e3-1240v5", server(n), "linux-thp-madvise") for n in counts]
    data = [walk_cycles(run, "data") for run in runs]
    code = [walk_cycles(run, "instruction") for run in runs]
    assert data == sorted(data, reverse=True)
    assert code[0] > code[2] > 0
    misses = [run["counts"]["tlb"]["l1i"]["misses"] for run in runs]
    best = misses.index(min(misses))
    assert 0 < best < len(counts) - 1
    assert counts[best] in (8, 12)
    assert misses[-1] > 1.5 * misses[best]


SPLIT_SECOND = """
[[tlb]]
name = "ITLB"
level = 1
side = "instruction"
entries = 128
ways = 8
sizes = ["4K", "2M"]

[[tlb]]
name = "DTLB"
level = 1
side = "data"
entries = 64
ways = 4
sizes = ["4K", "2M"]
"""


def second(name: str, side: str, entries: int) -> str:
    """A second-level array."""
    return (
        f'\n[[tlb]]\nname = "{name}"\nlevel = 2\nside = "{side}"\nentries = {entries}\nways = 12\n'
        'sizes = ["4K", "2M"]\nhit_cycles = 7\n'
    )


@claim(
    "S1-027",
    "V, VIII",
    "Superpages for code help data too, because the STLB is shared; a private one does not",
    "direction",
)
def test_superpages_of_code_help_data_only_where_the_second_level_is_shared(bench: Bench) -> None:
    def data_walks(tables: str, superpages: int) -> int:
        walks = bench.run(bench.machine(tables), server(superpages), "linux-thp-madvise")["counts"]["walks"]["data"]
        walked: int = walks["walks"]
        return walked

    shared = SPLIT_SECOND + second("STLB", "both", 1536)
    private = SPLIT_SECOND + second("L2I", "instruction", 768) + second("L2D", "data", 768)
    # The warm-up writes the code pages once: count what superpages change beyond that.
    warm_up = 16 * 24 * 2
    assert data_walks(shared, 16) < 0.8 * data_walks(shared, 0)
    assert abs(data_walks(private, 16) - data_walks(private, 0)) <= warm_up


@claim("S1-033", "V", "Each promotion saves one leaf page table of 4 KB in each process that maps the region")
def test_a_huge_page_saves_a_page_table(bench: Bench) -> None:
    touch = "".join(f"w {BASE + i * 2 * M:#x}\n" for i in range(3))
    program = f"mmap {BASE:#x} 6M rw anon\n{touch}"
    trace = f"{program}p 2.2\n{program}"
    base, huge = (bench.run("skylake-e3-1240v5", trace, p)["counts"]["memory"] for p in ("linux-4k", "linux-thp"))
    assert base["table_bytes"] - huge["table_bytes"] == 3 * 2 * 4096


@claim("S1-065", "III, Table II", "WALK_PENDING adds 1 per walk and cycle, WALK_ACTIVE at most 1 per cycle")
def test_two_overlapping_walks(bench: Bench) -> None:
    tables = "[core]\nfrequency_mhz = 1000\nwindow = 1000\n\n[walker]\ncount = 2\n"
    trace = f"mmap {BASE:#x} 8K rw anon populate\nr {BASE:#x}\nr {BASE + 4096:#x}\n"
    model = bench.run(bench.machine(tables), trace)["model"]
    walk = 400
    assert (model["walk_pending"], model["walk_active"]) == (2 * walk, walk)


# Paper 3 --------------------------------------------------------------------------------------------------------------


@claim(
    "S2-031", "VI", "N1: 48-entry fully associative L1s, a 1280-entry 5-way L2 for any size; L1 misses cost 3 cycles"
)
def test_the_tlbs_of_neoverse_n1() -> None:
    arrays = {a["name"]: a for a in described("neoverse-n1")["tlb"]}
    for name in ("L1-ITLB", "L1-DTLB"):
        assert (arrays[name]["entries"], arrays[name]["ways"]) == (48, "full")
    second_level = arrays["L2-TLB"]
    assert (second_level["entries"], second_level["ways"], second_level["side"]) == (1280, 5, "both")
    assert second_level["hit_cycles"] == 3
    assert {"4K", "2M"} <= set(second_level["sizes"])


@claim("S2-032", "VI", "L2 reach on N1: 5 MiB at 4 KiB, 2.5 GiB at 2 MiB", "in part: 4 KiB and 2 MiB")
@pytest.mark.parametrize(("policy", "size", "reach"), [("linux-4k", 4 * K, 5 * M), ("linux-thp", 2 * M, 2560 * M)])
def test_the_reach_of_neoverse_n1(policy: str, size: int, reach: int, bench: Bench) -> None:
    def misses(footprint: int, rounds: int) -> int:
        once = "".join(f"r {va:#x}\n" for va in range(BASE, BASE + footprint, size))
        trace = f"mmap {BASE:#x} {footprint} rw anon populate\n{once * rounds}"
        counted: int = bench.run("neoverse-n1", trace, policy)["counts"]["tlb"]["l2d"]["misses"]
        return counted

    assert misses(reach, 3) == reach // size
    assert misses(reach + 64 * size, 3) > (reach + 64 * size) // size


@claim(
    "S2-033",
    "VI",
    "The tool leaves the footprint free at the FMFI wanted: the share 1 - FMFI of it can be huge",
    "within 2 points",
)
@pytest.mark.parametrize("target", [0.0, 0.5, 0.99])
def test_huge_pages_after_the_fragmentation_tool(target: float, bench: Bench) -> None:
    # At an index of X, the share 1 - X of the footprint gets huge pages (the paper's text has it the other way round).
    memory = f'[memory]\nsize = "8G"\n[memory.fragment]\nkind = "fmfi"\ntarget = {target}\nfree = "2G"\n'
    touch = "".join(f"w {va:#x}\n" for va in range(BASE, BASE + 2 * G - 64 * M, 2 * M))
    result = bench.run(bench.machine(memory), f"mmap {BASE:#x} 2G rw anon\n{touch}", "linux-thp")
    assert huge_bytes(result) / (2 * G) == pytest.approx(1 - target, abs=0.04 if target == 0 else 0.02)


# Paper 4 --------------------------------------------------------------------------------------------------------------


@claim("S3-003", "1", "Split TLBs are probed together: one of them hits, or none")
def test_at_most_one_of_the_split_tlbs_hits(bench: Bench) -> None:
    mixed = "".join(f"r {BASE + i * 64 * K:#x}\nr {BASE + 512 * M + i // 4 * 4 * K:#x}\n" for i in range(600))
    trace = f"mmap {BASE:#x} 64M rw anon\nmmap {BASE + 512 * M:#x} 4M rw file:/data+0\n{mixed}"
    result = bench.run("haswell-mix-baseline", trace, "linux-thp")
    hits = {name: array(result, name)["hits"] for name in ("DTLB-4K", "DTLB-2M", "DTLB-1G")}
    assert sum(hits.values()) == result["counts"]["tlb"]["l1d"]["hits"]
    assert hits["DTLB-4K"] > 0
    assert hits["DTLB-2M"] > 0
    assert {array(result, name)["accesses"] for name in hits} == {result["counts"]["tlb"]["l1d"]["accesses"]}


@claim("S3-004", "1", "With superpages only, split small-page entries lie unused and the superpage TLB thrashes")
def test_split_tlbs_lie_unused(bench: Bench) -> None:
    pages = "".join(f"r {BASE + i * 2 * M:#x}\n" for i in range(40))
    result = bench.run("haswell-mix-baseline", f"mmap {BASE:#x} 80M rw anon populate\n{pages * 10}", "linux-thp")
    assert array(result, "DTLB-4K")["fills"] == 0
    # 40 pages in 8 sets of 4: each set holds 5 in turn, under LRU none is found again.
    assert array(result, "DTLB-2M")["hits"] == 0


@claim("S3-007", "2", "A native walk of four levels is 4 sequential accesses", "in part: native")
@claim("S4-006", "2.1", "A four-level walk costs 4 accesses", "in part: the conventional table")
@claim("S4-008", "4.5", "A 2 MiB page costs 3 accesses in a conventional table", "in part: the conventional table")
@pytest.mark.parametrize(("policy", "reads"), [("linux-4k", [4, 3, 2, 1]), ("linux-thp", [4, 3, 2])])
def test_cold_native_walks(policy: str, reads: list[int], bench: Bench) -> None:
    trace = f"mmap {BASE:#x} 2M rw anon populate\nr {BASE:#x}\n"
    lines, _ = bench.explain("compendia-baseline", trace, policy)
    assert [step["level"] for step in lines[0]["walk"]] == reads


@claim("S3-008", "3", "A walk reads a line of 64 bytes: 8 translations of 8 bytes")
def test_a_line_has_eight_translations(bench: Bench) -> None:
    reads = "".join(f"r {BASE + i * 4096:#x}\n" for i in range(24))
    lines, _ = bench.explain("compendia-baseline", f"mmap {BASE:#x} 96K rw anon populate\n{reads}")
    leaves = [line["walk"][-1]["pa"] for line in lines]
    assert [pa - leaves[0] for pa in leaves] == [8 * i for i in range(24)]
    assert [pa // 64 - leaves[0] // 64 for pa in leaves] == [i // 8 for i in range(24)]


@claim(
    "S3-036",
    "4.4",
    "A store through a clean entry writes the table's dirty bit, through a dirty one not",
    "in part: no bundles",
)
def test_dirty_bits_are_written_once(bench: Bench) -> None:
    trace = f"mmap {BASE:#x} 4K rw anon\nr {BASE:#x}\n" + f"w {BASE:#x}\n" * 5
    walks = bench.run("haswell-mix-baseline", trace, "linux-4k", "policy.linux.zero_page=false")["counts"]["walks"]
    assert walks["dirty_updates"] == 1


@claim("S3-039", "5.1", "Hash-rehash probes size by size: hits cost 1 to 3 probes, a miss 3")
def test_hash_rehash_probes_in_turn(bench: Bench) -> None:
    first = '[[tlb]]\nname = "L1"\nlevel = 1\nside = "both"\nentries = 1\nways = 1\nsizes = ["4K", "2M", "1G"]\n'
    serial = (
        '\n[[tlb]]\nname = "L2"\nlevel = 2\nside = "both"\nentries = 64\nways = 4\nsizes = ["4K", "2M", "1G"]\n'
        'probe = "serial"\nhit_cycles = 10\n\n[memory]\nsize = "8G"\n'
    )
    machine = bench.machine(first + serial)
    other = BASE + 4 * G
    cases = [("linux-4k", "4K", "4K", 1), ("linux-thp", "2M", "2M", 2), ("hugetlb-1g", "1G", "1G", 3)]
    for policy, length, _, probes in cases:
        sets = (SMALL_POOL,) if policy == "hugetlb-1g" else ()
        trace = f"mmap {BASE:#x} {length} rw anon populate\nmmap {other:#x} {length} rw anon populate\n"
        trace += f"r {BASE:#x}\nr {other:#x}\nr {BASE:#x}\n"
        lines, _ = bench.explain(machine, trace, policy, *sets)
        walk = sum(step["cycles"] for step in lines[0]["walk"])
        assert lines[0]["cycles"] == 3 * 10 + walk
        assert (lines[2]["l2"], lines[2]["cycles"]) == ("hit", probes * 10)


@claim(
    "S3-042", "6.1", "Baseline: L1 64 x 4-way 4 KB, 32 x 4-way 2 MB, 4 for 1 GB; L2 512 for 4 KB and 2 MB, 32 for 1 GB"
)
def test_the_haswell_baseline() -> None:
    arrays = {a["name"]: a for a in described("haswell-mix-baseline")["tlb"]}
    shape = {name: (a["entries"], a["ways"], a["sizes"]) for name, a in arrays.items()}
    assert shape["DTLB-4K"] == (64, 4, ["4K"])
    assert shape["DTLB-2M"] == (32, 4, ["2M"])
    assert shape["DTLB-1G"] == (4, "full", ["1G"])
    assert (shape["L2-4K-2M"][0], shape["L2-4K-2M"][2]) == (512, ["4K", "2M"])
    assert (shape["L2-1G"][0], shape["L2-1G"][2]) == (32, ["1G"])


@claim("S3-046", "7.1, Figure 9", "With memhog at 40 % more than 80 % of a footprint is superpages", "direction")
def test_superpages_beside_memhog(bench: Bench) -> None:
    # As the paper's 80 GB with footprints that leave memory over: a quarter of it, scaled down.
    memory = '[memory]\nsize = "4G"\n[memory.fragment]\nkind = "memhog"\npercent = {}\n'

    def share(percent: int) -> float:
        touch = "".join(f"w {va:#x}\n" for va in range(BASE, BASE + G, 2 * M))
        machine = bench.machine(memory.format(percent))
        return huge_bytes(bench.run(machine, f"mmap {BASE:#x} 1G rw anon\n{touch}", "linux-thp")) / G

    shares = [share(percent) for percent in (0, 40, 60, 80)]
    assert shares[1] > 0.8
    assert shares == sorted(shares, reverse=True)
    assert shares[3] < 0.3


# Paper 5 --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def accesses() -> Callable[..., float]:
    """Memory accesses per TLB miss of random updates."""
    path = Path(__file__).parents[2] / "scripts" / "gups_curve.py"
    spec = importlib.util.spec_from_file_location("gups_curve", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    measure: Callable[..., float] = module.measure
    return measure


@claim(
    "S4-034",
    "5",
    "Simulator: 64-entry L1, 1024-entry L2, a 64-entry 8-way cache for PGD, PUD and PMD entries; hits cost nothing",
    "in part: native",
)
def test_the_simulated_machine_of_paper_5() -> None:
    machine = described("compendia-baseline")
    assert sized(machine, 1, "data", "4K") == 64
    assert sized(machine, 2, "data", "4K") == 1024
    (cache,) = machine["walker"]["cache"]
    assert (cache["entries"], cache["ways"], sorted(cache["levels"]), cache["hit_cycles"]) == (64, 8, [2, 3, 4], 0)


@claim(
    "S4-047",
    "6.2, Figure 15",
    "RandomAccess: one access per miss until 128 MiB, more beyond",
    "within 2 %, see [the curve](gups-curve.md)",
)
def test_accesses_per_miss_rise_beyond_128_mib(accesses: Callable[..., float]) -> None:
    for size in (16 * M, 32 * M, 64 * M, 128 * M):
        assert accesses(size, updates=60_000) == pytest.approx(1, abs=0.02)
    assert accesses(256 * M, updates=60_000) > 1.4


@claim(
    "S4-051",
    "6.2",
    "A larger walk cache moves that point linearly; 2 MiB pages move it 512 times",
    "in part: no Compendia",
)
def test_what_moves_the_point(accesses: Callable[..., float]) -> None:
    for entries, limit in ((32, 64 * M), (128, 256 * M)):
        sets = (f"walker.cache.PWC.entries={entries}",)
        assert accesses(limit, 60_000, sets=sets) == pytest.approx(1, abs=0.05)
        assert accesses(2 * limit, 60_000, sets=sets) > 1.4
    assert accesses(32 * G, 60_000, policy="linux-thp") == pytest.approx(1, abs=0.02)


@claim(
    "S4-050", "6.2", "Up to 8 GiB huge pages also mean fewer walks: their entries reach 512 times further", "direction"
)
def test_huge_pages_mean_fewer_walks(bench: Bench) -> None:
    def misses(policy: str) -> int:
        counted: int = bench.run("compendia-baseline", "gen:gups?footprint=1G&updates=30000", policy)["counts"]["tlb"][
            "l2d"
        ]["misses"]
        return counted

    assert misses("linux-thp") < 0.1 * misses("linux-4k")


@claim(
    "S4-059",
    "5",
    "The gain is walk cycles times a savable share: the cycles that would be saved were walks gone",
    "exactly, the share",
)
def test_the_savable_share(bench: Bench) -> None:
    for share in (0.0, 0.4, 1.0):
        model = bench.run("compendia-baseline", "gen:gups?footprint=64M&updates=3000", savable=share)["model"]
        assert model["method"] == "savable"
        assert model["cycles"]["walk"] == math.floor(model["walk_pending"] * share + 0.5)


FIGURE_1 = [{"flags": 4, "file_bytes": 26 * K, "bytes": 26 * K}, {"flags": 5, "file_bytes": 22 * K, "bytes": 22 * K}]


def placed(max_page_size: int, parts: list[Json], linker: str = "lld") -> list[Json]:
    """The segments of a program, as a linker places them."""
    found: list[Json] = engine.elf_layout({"parts": parts, "linker": linker, "max_page_size": max_page_size})[
        "segments"
    ]
    return found


def memory_page(segment: Json, file_page: int) -> int:
    """Where a page of the file is mapped."""
    return int((segment["address"] >> 12) + file_page - (segment["offset"] >> 12))


@claim(
    "S0-036",
    "2.3",
    "With a maxpagesize of 4 KB the boundary page is mapped twice, and all later code one page out of step",
    "exactly",
)
def test_figure_1_with_4_kb() -> None:
    data, code = placed(4 * K, FIGURE_1)
    assert (memory_page(data, 6), memory_page(code, 6)) == (6, 7)
    assert code["shares_page"]
    assert [memory_page(code, page) for page in range(8, 12)] == [9, 10, 11, 12]
    assert [(g["shift"], g["coalescible"]) for g in code["phase"]["groups"]] == [(1, 0)] * 4


@claim("S0-037", "2.3", "With 16 KB, virtual superpage 3 is physical superpage 2", "exactly")
def test_figure_1_with_16_kb() -> None:
    _, code = placed(16 * K, FIGURE_1)
    assert memory_page(code, 6) == 10
    assert [memory_page(code, page) for page in range(8, 12)] == [12, 13, 14, 15]
    assert code["phase"]["groups"][0] == {"size": code["phase"]["groups"][0]["size"], "shift": 0, "coalescible": 1}


@claim("S0-038", "2.3", "A maxpagesize of at least the coalescing size removes the shift", "exactly")
def test_a_large_max_page_size_removes_the_shift() -> None:
    draw = Random(38)
    for _ in range(50):
        parts = [
            {"flags": draw.choice([4, 5, 6]), "file_bytes": size, "bytes": size}
            for size in (draw.randrange(1, 3 * M) for _ in range(draw.randrange(2, 6)))
        ]
        for order, max_page_size in enumerate((16 * K, 32 * K, 64 * K, 2 * M)):
            for segment in placed(max_page_size, parts):
                assert all(g["shift"] == 0 for g in segment["phase"]["groups"][: order + 1])


@claim("S0-040", "2.3", "Files are as large with a maxpagesize of 2 MB as with 4 KB", "exactly, for the model of LLD")
def test_files_do_not_grow_with_max_page_size() -> None:
    def bytes_of(max_page_size: int) -> int:
        last = placed(max_page_size, FIGURE_1)[-1]
        return int(last["offset"] + last["file_bytes"])

    assert bytes_of(2 * M) == bytes_of(4 * K) == 48 * K


@claim("S0-041", "2.3", "LLD's default maxpagesize is 4 KB; older LLD's and GNU ld's was 2 MB", "exactly")
def test_defaults_of_linkers() -> None:
    defaults = {
        name: engine.elf_layout({"parts": FIGURE_1, "linker": name})["max_page_size"] for name in ("lld", "old")
    }
    assert defaults == {"lld": 4 * K, "old": 2 * M}


def test_the_page_lists_every_claim_that_is_checked() -> None:
    """To accept a change, delete the page and run the tests again."""
    if not PAGE.exists():
        PAGE.write_text(page(), encoding="utf-8")
        pytest.fail(f"{PAGE.name} did not exist: wrote it")
    assert PAGE.read_text(encoding="utf-8") == page()
    assert len({c.id for c in CLAIMS}) == len(CLAIMS)
