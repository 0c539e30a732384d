"""Claims about coalescing hardware and its microbenchmark (paper 1), by their numbers."""

from random import Random

import pytest
from bench import BASE, SMALL_POOL, Bench, G, Json, K, M, array
from claims import claim

from mmulab import engine, microbench

# The two machines of paper 1 with the pages of their groups, and the plain machine with one array that coalesces so.
ZEN = [("zen3-5900x", 4), ("zenplus-2700x", 8)]


def coalescing(group: int) -> str:
    """Tables of a machine whose data TLB coalesces groups of this number of pages."""
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
    # Page by page of each group in turn, each touch misses. The order shows in what the first level still has. In one
    # word, a second round over the group's pages finds them there. In words of their own, it does not.
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


@claim(
    "S0-029", "4.1, Table 2", "L1 misses are L2 hits and misses, for data and code, and these are sums over the sizes"
)
@pytest.mark.parametrize("machine", [m["name"] for m in engine.machines()])
def test_first_level_misses_are_second_level_accesses(machine: str, bench: Bench) -> None:
    counts = bench.run(machine, "gen:zipf?footprint=64M&references=20000", "linux-thp")["counts"]
    for side in ("i", "d"):
        first, second = counts["tlb"][f"l1{side}"], counts["tlb"][f"l2{side}"]
        assert first["hits"] + first["misses"] == first["accesses"]
        assert first["misses"] == second["accesses"] == second["hits"] + second["misses"]
        reloads = counts["reloads"][f"l1{side}"]
        assert (sum(reloads["l2_hits"].values()), sum(reloads["l2_misses"].values())) == (
            second["hits"],
            second["misses"],
        )
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
