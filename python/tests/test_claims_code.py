"""Claims about translation of instructions (paper 2), by their numbers."""

from random import Random

import pytest
from bench import BASE, Bench, Json, K, M, array, described, every_page
from claims import claim, sized

from mmulab import engine


def superpages_of_code(count: int, rounds: int) -> str:
    """One function in each of `count` 2 MB pages, at increasing offsets, called in turn."""
    calls = "".join(f"f {BASE + i * (2 * M + 64):#x}\n" for i in range(count))
    return f"mmap {BASE:#x} {count * 2}M rwx anon\n" + calls * rounds


@claim(
    "S1-009",
    "I",
    "A residual region takes almost a third of the STLB's 1536 entries: 511, for 512 pages are a superpage",
    "exactly; the paper states the third, from which 511 follows",
)
def test_the_residual_region_in_the_second_level(bench: Bench) -> None:
    def small_pages(residual: int) -> tuple[int, int]:
        """A superpage of code and pages behind it: 4 KB pages mapped, and entries that the STLB gets for them."""
        count = 512 + residual
        code = f"mmap {BASE:#x} {count * 4}K rx file:/bin/prog+0\n" + every_page(BASE, count * 4 * K, "f")
        again = f"mprotect {BASE:#x} {count * 4}K r\nmprotect {BASE:#x} {count * 4}K rx\n"
        again += every_page(BASE, count * 4 * K, "f")
        lines, result = bench.explain("skylake-e3-1240v5", code + again, "freebsd-super")
        written = [f for line in lines[-count:] for f in line["filled"] if f["array"] == "STLB" and f["bytes"] == 4 * K]
        return result["counts"]["memory"]["mapped"]["4K"]["now"] // (4 * K), len(written)

    assert small_pages(511) == (511, 511)
    assert small_pages(512) == (0, 0)
    entries = sized(described("skylake-e3-1240v5"), 2, "instruction", "4K")
    assert entries == 1536
    assert 0.33 < small_pages(511)[1] / entries < 1 / 3


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


@claim(
    "S1-041",
    "V-A",
    "The functions begin at higher and higher offsets, so that a cache holds them all",
    "exactly, by sets",
)
def test_the_chain_of_functions_is_the_papers(bench: Bench) -> None:
    """The generator and the program of the same code: one superpage more than the ITLB holds, and every call misses."""
    rounds = 50
    missed = {}
    for functions in (8, 9):
        program = f"gen:code-chain?functions={functions}&rounds={rounds}"
        missed[functions] = bench.run("skylake-e3-1240v5", program, "linux-thp")["counts"]["tlb"]
    assert missed[8]["l1i"]["misses"] == 8
    assert missed[9]["l1i"]["misses"] == missed[9]["l1i"]["accesses"] == 9 * rounds
    assert missed[9]["l2i"]["misses"] == 9
    told = engine.trace_head("gen:code-chain?functions=9&rounds=1", 100)["text"]
    calls = [int(line.split()[1], 16) for line in told.splitlines() if line.startswith("f ")]
    assert len(calls) == len({call // (2 * M) for call in calls}) == 9
    # Skylake's L1 instruction cache: 64 sets of 64-byte lines.
    assert len({call // 64 % 64 for call in calls}) == 9


@claim("S1-031", "V", "The anomaly comes from the split ITLB: one that does not tell sizes apart has none")
@pytest.mark.parametrize("machine", ["zenplus-2700x", "zen3-5900x"])
def test_nine_superpages_of_code_on_zen(machine: str, bench: Bench) -> None:
    for count in (8, 9, 16, 32):
        result = bench.run(machine, superpages_of_code(count, 20), "linux-thp")
        assert result["counts"]["tlb"]["l1i"]["misses"] == count
        # All else hits, and what it hits are superpages.
        assert array(result, "L1-ITLB")["hits_by_size"]["2M"] == 19 * count


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
