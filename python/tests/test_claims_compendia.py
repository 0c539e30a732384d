"""Claims about denser page tables (paper 5), by their numbers."""

import math
from typing import Any

import pytest
from bench import Bench, G, K, M, described
from claims import claim, sized

from mmulab import engine
from mmulab.reproduce.compendia.figure_15 import NATIVE_ROOM
from mmulab.reproduce.compendia.figure_15 import trace as gups

MERGED = "table.kind=compendia"
RADIX = '[memory]\nsize = "512M"\n'
COMPENDIA = f'{RADIX}[table]\nkind = "compendia"\n'
# PMD, PUD and PGD entries span so much.
PMD, PUD, PGD = 2 * M, G, 512 * G
THP = 'name = "thp"\nkind = "linux-thp"\n'


def few(entries: int, levels: int = 4, more: str = "") -> str:
    """A table that merges for this number of entries."""
    limits = f'merge = "{entries}/512"\nunmerge = "1/512"\n'
    return f'{RADIX}[table]\nkind = "compendia"\nlevels = {levels}\n[table.compendia]\n{limits}{more}'


def mapped(places: list[int], size: int = 4 * K) -> str:
    """Memory that is there from the start."""
    return "".join(f"mmap {at:#x} {size} rw anon populate\n" for at in places)


def walks(bench: Bench, machine: str, trace: str, at: list[int], policy: str = "linux-4k") -> list[list[int]]:
    """The levels of the entries that a load of each place reads."""
    reads = "".join(f"r {place:#x}\n" for place in at)
    lines, _ = bench.explain(bench.machine(machine), trace + reads, policy)
    return [[step["level"] for step in line["walk"]] for line in lines if line["i"] is not None]


def tables(bench: Bench, machine: str, trace: str) -> dict[str, Any]:
    """What tables consist of and did."""
    found: dict[str, Any] = bench.run(bench.machine(machine), trace)["counts"]["memory"]["tables"]
    return found


def accesses(footprint: int, updates: int = 60_000, policy: str = "linux-4k", sets: tuple[str, ...] = ()) -> float:
    """Entries read a TLB miss of random updates, all pages mapped beforehand."""
    job = engine.Job("compendia-baseline", policy, (*NATIVE_ROOM, *sets))
    options = engine.Options(reshape=engine.POPULATED)
    return engine.run(gups(footprint, updates), [job], options).results[0].accesses_per_walk


@claim(
    "S4-034",
    "5",
    "Simulator: 64-entry L1, 1024-entry L2, a 64-entry 8-way cache for PGD, PUD and PMD entries, virtualised another "
    "for gPA to hPA; hits cost nothing",
    "exactly; the other holds upper entries, for two accesses are called ideal",
)
def test_the_simulated_machine_of_paper_5() -> None:
    for name in ("compendia-baseline", "compendia-nested"):
        machine = described(name)
        assert sized(machine, 1, "data", "4K") == 64
        assert sized(machine, 2, "data", "4K") == 1024
        for cache in machine["walker"]["cache"] + machine.get("virtual", {"cache": []})["cache"]:
            assert (cache["entries"], cache["ways"], sorted(cache["levels"]), cache["hit_cycles"]) == (
                64,
                8,
                [2, 3, 4],
                0,
            )


@claim(
    "S4-047",
    "6.2, Figure 15",
    "RandomAccess: one access per miss until 128 MiB, more beyond",
    "within 2 %, see [the curve](gups-curve.md)",
)
def test_accesses_per_miss_rise_beyond_128_mib() -> None:
    for size in (16 * M, 32 * M, 64 * M, 128 * M):
        assert accesses(size, updates=60_000) == pytest.approx(1, abs=0.02)
    assert accesses(256 * M, updates=60_000) > 1.4


@claim(
    "S4-051",
    "6.2",
    "A larger walk cache moves that point linearly; 2 MiB pages and Compendia move it 512 times each",
    "within 5 %",
)
def test_what_moves_the_point() -> None:
    for entries, limit in ((32, 64 * M), (128, 256 * M)):
        sets = (f"walker.cache.PWC.entries={entries}",)
        assert accesses(limit, 60_000, sets=sets) == pytest.approx(1, abs=0.05)
        assert accesses(2 * limit, 60_000, sets=sets) > 1.4
    assert accesses(32 * G, 60_000, policy="linux-thp") == pytest.approx(1, abs=0.02)
    # An eighth of the entries, an eighth of the footprint: the point is at 8 GiB, not at 16 MiB.
    fewer = ("walker.cache.PWC.entries=8", MERGED)
    assert accesses(4 * G, 60_000, sets=fewer) == pytest.approx(1, abs=0.02)
    assert accesses(16 * G, 60_000, sets=fewer) > 1.3


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


@claim("S4-006", "2.1, 4.3", "A four-level walk costs 4 accesses; one along merged PGD and PUD, PMD and PTE costs 2")
@claim("S4-007", "4.4, Figure 8", "Merging only the middle, PUD and PMD, gives 3 accesses")
@claim("S4-021", "4.1", "A merged PGD and PUD serves the whole tree: every walk is one access shorter")
@claim("S4-026", "4.4.1", "Where merges conflict, those nearer the translation come first: 2 accesses, not 3")
def test_accesses_of_merged_paths(bench: Bench) -> None:
    dense = [pgd * PGD + pud * PUD + pmd * PMD for pgd in (1, 2) for pud in (0, 1) for pmd in (0, 1)]
    trace = mapped(dense)
    assert walks(bench, RADIX, trace, dense) == [[4, 3, 2, 1]] * 8
    assert walks(bench, few(2), trace, dense) == [[3, 1]] * 8
    assert walks(bench, few(2, more="merge_levels = [3]\n"), trace, dense) == [[4, 2, 1]] * 8
    assert walks(bench, few(2, more="merge_levels = [4]\n"), trace, dense) == [[3, 2, 1]] * 8


@claim("S4-008", "4.5", "A 2 MiB page costs 3 accesses; with PUD and PMD merged 2, and 1 if the PGD entry is cached")
def test_accesses_of_huge_pages(bench: Bench) -> None:
    places = [PGD, PGD + PUD, PGD + 2 * PUD]
    trace, policy = mapped(places, 2 * M), bench.write("thp.toml", THP)
    assert walks(bench, RADIX, trace, places, policy) == [[4, 3, 2]] * 3
    assert walks(bench, few(3), trace, places, policy) == [[4, 2]] * 3
    cache = '[walker]\ncount = 1\n[[walker.cache]]\nname = "PWC"\nlevels = [4]\nentries = 4\nways = "full"\n'
    lines, _ = bench.explain(bench.machine(few(3) + cache), trace + f"r {PGD:#x}\nr {PGD + PUD:#x}\n", policy)
    assert [step["cached"] for step in lines[-1]["walk"]] == ["PWC", "memory"]


@claim("S4-009", "4.6, Figure 12b", "Five levels, 4 KiB pages: PGD alone, P4D and PUD, PMD and PTE: 3 accesses")
@claim("S4-010", "4.6, Figure 12c", "Five levels, 2 MiB pages: PGD and P4D, PUD and PMD: 2 accesses")
def test_accesses_of_five_levels(bench: Bench) -> None:
    upper = [pgd * 512 * PGD + p4d * PGD + pud * PUD for pgd in (0, 1) for p4d in (0, 1) for pud in (0, 1)]
    small = [at + pmd * PMD for at in upper for pmd in (1, 2)]
    assert walks(bench, few(2, 5), mapped(small), small) == [[5, 3, 1]] * 16
    huge = [at + PMD for at in upper]
    policy = bench.write("thp.toml", THP)
    assert walks(bench, few(2, 5), mapped(huge, 2 * M), huge, policy) == [[4, 2]] * 8


@claim("S4-013", "4", "513 frames of 512 entries become one 2 MiB frame of 262,144")
@claim("S4-014", "4.1", "A fully mapped GiB takes no more space merged")
def test_a_full_gibibyte(bench: Bench) -> None:
    found = tables(bench, COMPENDIA.replace("512M", "2G"), mapped([PUD], G))
    assert found["unmerged_bytes"] == (513 + 2) * 4096
    assert (found["small_bytes"], found["node_bytes"]) == (2 * 4096, 2 * M)


@claim("S4-015", "4.1", "The two tables of a single page in a GiB take 256 times as much merged")
def test_a_single_page(bench: Bench) -> None:
    found = tables(bench, few(1, more="merge_levels = [2]\n"), mapped([PUD]))
    assert found["node_bytes"] == 256 * (found["unmerged_bytes"] - found["small_bytes"]) == 2 * M


@claim("S4-016", "4.1", "A layer is merged with its children when an eighth of its 512 are non-zero: 64")
@claim("S4-019", "4.1", "Updates of PTEs alone decide nothing")
@claim("S4-054", "6.3", "Over 12.5 % of a PMD's entries allocated means merging: 128 MiB of touched 2 MiB")
def test_merged_at_an_eighth(bench: Bench) -> None:
    children = [PUD + n * PMD for n in range(64)]
    for count, merged in ((63, 0), (64, 1)):
        assert tables(bench, COMPENDIA, mapped(children[:count]))["merges"]["2+1"] == merged
    strict = COMPENDIA + "[table.compendia]\nstrict = true\n"
    assert tables(bench, strict, mapped(children))["merges"]["2+1"] == 0
    more = "".join(f"mmap {at + 4 * K:#x} 1M rw anon populate\n" for at in children)
    checks = [tables(bench, COMPENDIA, mapped(children) + rest)["checks"] for rest in ("", more)]
    assert checks[0] == checks[1] > 0


@claim("S4-017", "4.1", "The worst overhead: each child has one page", "differs: 4.47 at 64 children, not 5 at 52")
def test_the_worst_overhead(bench: Bench) -> None:
    def overhead(machine: str, children: int) -> float:
        """Tables and pages of the GiB, merged and not. The two tables above it stay as they are."""
        memory = bench.run(bench.machine(machine), mapped([PUD + n * PMD for n in range(children)]))["counts"]["memory"]
        found, pages = memory["tables"], memory["private_bytes"]
        assert (found["merges"]["2+1"], pages) == (1, children * 4096)
        return float((found["node_bytes"] + pages) / (found["unmerged_bytes"] - 2 * 4096 + pages))

    assert overhead(COMPENDIA, 64) == pytest.approx((512 + 64) / (65 + 64)) == pytest.approx(4.47, abs=0.01)
    # The paper's 52 children, if they were enough.
    assert overhead(few(52, more="merge_levels = [2]\n"), 52) == pytest.approx(5.37, abs=0.01)


@claim("S4-020", "4.1", "The same threshold at every level")
def test_one_threshold_for_all_levels(bench: Bench) -> None:
    for stride, pair in ((PMD, "2+1"), (PUD, "3+2"), (PGD, "4+3")):
        for count, merged in ((63, 0), (64, 1)):
            places = [PGD + n * stride for n in range(count)]
            assert tables(bench, COMPENDIA, mapped(places))["merges"][pair] == merged


@claim(
    "S4-027",
    "4.4.2, Figures 9 and 10",
    "Overlap: the first access of a merged PMD and PTE is no better, the next needs one",
)
def test_branching_overlap(bench: Bench) -> None:
    dense, sparse = [PGD, PGD + PMD, PGD + 2 * PMD], [PGD + n * PUD for n in (1, 2, 3)]
    cache = '[walker]\ncount = 1\n[[walker.cache]]\nname = "PWC"\nlevels = [2, 3, 4]\nentries = 8\nways = "full"\n'
    lines, result = bench.explain(
        bench.machine(few(3) + cache), mapped(dense + sparse) + f"r {PGD:#x}\nr {PGD + PMD:#x}\n"
    )
    assert result["counts"]["memory"]["tables"]["merges"] == {"2+1": 1, "3+2": 1, "4+3": 0, "5+4": 0}
    told = [[(step["level"], step["cached"]) for step in line["walk"]] for line in lines if line["i"] is not None]
    assert told == [[(4, "memory"), (2, "memory"), (1, "memory")], [(3, "PWC"), (1, "memory")]]


@claim(
    "S4-029",
    "4.4.3, Figure 11",
    "Nodes next but one are pointed to directly; a PUD and PMD nobody gains by is eliminated",
)
def test_multi_layer_overlap(bench: Bench) -> None:
    dense, sparse = [PGD, PGD + PMD, PGD + 2 * PMD], [PGD + n * PUD for n in (1, 2, 3)]
    trace = mapped([*dense, *sparse, 2 * PGD, 3 * PGD])
    assert walks(bench, few(3, more="direct = false\n"), trace, [PGD, PGD + PUD]) == [[3, 2, 1]] * 2
    assert walks(bench, few(3), trace, [PGD, PGD + PUD]) == [[3, 1], [3, 2, 1]]
    gone = "".join(f"munmap {at:#x} 4K\n" for at in sparse)
    assert tables(bench, few(3), trace + gone)["unmerges"]["3+2"] == 1


@claim("S4-031", "4.5", "A huge page among merged PTEs is found by the O bit, in a merged PUD and PMD directly")
def test_huge_pages_among_merged_tables(bench: Bench) -> None:
    policy = bench.write("thp.toml", THP)
    trace = mapped([PGD], 2 * M) + mapped([PGD + n * PMD for n in (1, 2, 3)])
    assert walks(bench, few(3), trace, [PGD + 5 * K]) == [[4, 3, 1]]
    assert walks(bench, few(3), trace, [PGD + 5 * K], policy) == [[4, 3, 1]]
    wider = trace + mapped([PGD + n * PUD for n in (1, 2, 3)])
    assert walks(bench, few(3), wider, [PGD + 5 * K, PGD + PMD], policy) == [[4, 2], [4, 2, 1]]


@claim("S4-035", "5", "A merge costs about 20 us; 15 of them less than 3 ms", "exactly: 0.3 ms at 3.5 GHz")
def test_what_a_merge_costs(bench: Bench) -> None:
    # 15 tables of level 2 with an eighth of their entries each.
    dense = mapped([PUD * (table + 1) + n * PMD for table in range(15) for n in range(64)])

    def seconds(*sets: str) -> tuple[float, int]:
        """The kernel's time, and the merges it made."""
        result = bench.run("skylake-e3-1240v5", dense, "linux-4k", MERGED, *sets)
        merges: int = result["counts"]["kernel"]["work"]["table_merge"]
        return result["model"]["cycles"]["kernel"] / (result["machine"]["core"]["frequency_mhz"] * 1e6), merges

    (whole, merges), (without, _) = seconds(), seconds("costs.table_merge=0")
    assert merges == 15
    assert whole - without == pytest.approx(15 * 20e-6)
    assert whole - without < 3e-3


@claim(
    "S4-036",
    "Abstract, 6",
    "Accesses per miss fall to about 1 natively (1.39 to 1.01 over all workloads)",
    "in part: random updates of 1 to 32 GiB, at most 1.02",
)
@claim("S4-048", "6.2", "Compendia: one access per miss up to 512 times 128 MiB, observed to 32 GiB", "within 2 %")
def test_compendia_restores_one_access() -> None:
    for size in (256 * M, G, 8 * G):
        assert accesses(size, updates=60_000) > 1.4
        assert accesses(size, updates=60_000, sets=(MERGED,)) == pytest.approx(1, abs=0.02)


@claim("S4-025", "4.3", "Merging is never worse than the baseline, caches and all", "direction")
def test_never_worse() -> None:
    for size in (16 * M, 64 * M, 128 * M, 256 * M, G, 4 * G):
        for sets in ((), ("walker.cache.PWC.levels=[2]",), ("walker.cache.PWC.levels=[3, 4]",)):
            plain, merged = (
                accesses(size, updates=20_000, sets=sets),
                accesses(size, updates=20_000, sets=(*sets, MERGED)),
            )
            assert merged <= plain + 1e-3, (size, sets)
            # From here on an eighth of the entries are there, so that tables are merged, and better.
            assert size < 256 * M or merged < plain - 0.2, (size, sets)


@claim(
    "S4-046",
    "6.1",
    "Merging everything makes the tables of a small, sparse program larger than its memory",
    "direction",
)
def test_merging_everything(bench: Bench) -> None:
    trace = mapped([PUD + n * PUD for n in range(8)], 64 * K)
    always = tables(bench, few(1), trace)
    assert always["node_bytes"] > 8 * 64 * K
    assert tables(bench, COMPENDIA, trace)["node_bytes"] == 0
