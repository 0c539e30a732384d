"""Claims about TLBs for all page sizes (paper 4), by their numbers."""

import math

import pytest
from bench import BASE, SMALL_POOL, Bench, G, Json, K, M, array, described, huge_bytes, shares
from claims import claim

from mmulab import engine
from mmulab.reproduce.mix import designs as all_page_sizes


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


SHAPES = '[[tlb]]\nname = "ITLB"\nlevel = 1\nside = "instruction"\nentries = 4\nways = "full"\nsizes = ["4K"]\n\n'
# The first huge page of a fresh memory is no neighbour of the next; those after it are.
LONE = f"mmap {BASE:#x} 2M rw anon\nw {BASE:#x}\n"
FIRST = BASE + 4 * M


def mixed(sets: int, ways: int, group: int, more: str = "", level: int = 1) -> str:
    """A MIX array for data; in level 2 behind a first level of one entry."""
    array = (
        f'[[tlb]]\nname = "MIX"\nlevel = {level}\nside = "data"\nentries = {sets * ways}\nways = {ways}\n'
        f'sizes = ["4K", "2M"]\ndesign = "mix"\ngroup = {group}\n{more}\n'
    )
    small = '[[tlb]]\nname = "D"\nlevel = 1\nside = "data"\nentries = 1\nways = 1\nsizes = ["4K", "2M"]\n\n'
    return SHAPES + (small if level == 2 else "") + array


def superpages(count: int, kind: str = "w") -> str:
    """Superpages beside each other in both memories, all touched; then every translation is dropped."""
    touch = "".join(f"{kind} {FIRST + i * 2 * M:#x}\n" for i in range(count))
    flush = f"mprotect {FIRST:#x} {2 * count}M r\nmprotect {FIRST:#x} {2 * count}M rw\n"
    return f"{LONE}mmap {FIRST:#x} {2 * count}M rw anon\n{touch}{flush}"


def last(lines: list[Json], count: int) -> list[Json]:
    """The last few references told."""
    return [line for line in lines if "va" in line][-count:]


def hits(lines: list[Json], count: int) -> list[bool]:
    """Of the last few, which hit the first level."""
    return [line["l1"] == "hit" for line in last(lines, count)]


def one_big(memory: str = "1G") -> str:
    """The plain machine's memory, larger."""
    return f'\n[memory]\nsize = "{memory}"\n'


@claim("S3-009", "3, Figure 2", "B at 0x400000 and C at 0x600000 share one entry of each of two sets")
@claim("S3-012", "3, Figure 4", "A lookup asks one set, chosen by the region within the superpage")
@claim("S3-025", "4.2", "A miss fills all mirrors: other regions hit")
def test_a_bundle_is_in_every_set(bench: Bench) -> None:
    trace = superpages(2) + f"r {FIRST:#x}\n"
    reads = "".join(f"r {FIRST + i * 2 * M + region * 4 * K:#x}\n" for i in range(2) for region in (0, 1, 2, 511))
    lines, _ = bench.explain(bench.machine(mixed(2, 2, 2)), trace + reads, "linux-thp")
    assert hits(lines, 9) == [False] + [True] * 8


@claim("S3-010", "3", "The small page's index serves all sizes: a superpage is in every set that its regions choose")
@claim("S3-011", "3", "Mirrors are min(regions, sets): 512 regions of 2 MB")
@pytest.mark.parametrize(("sets", "mirrors"), [(16, 16), (64, 64), (128, 128), (512, 512), (1024, 512)])
def test_mirrors_by_sets(sets: int, mirrors: int, bench: Bench) -> None:
    result = bench.run(bench.machine(mixed(sets, 2, 1)), LONE, "linux-thp")
    assert array(result, "MIX")["mirroring"]["writes"] == mirrors


@claim("S3-013", "3", "As many contiguous superpages as mirrors need one entry of each set")
def test_a_bundle_of_as_many_as_sets(bench: Bench) -> None:
    machine = bench.machine(mixed(8, 1, 8) + one_big())
    # An aligned group of 8 begins at a multiple of 16 MB.
    aligned = (FIRST + 16 * M - 1) // (16 * M) * 16 * M
    inner = "".join(f"r {aligned + i * 2 * M + region * 4 * K:#x}\n" for i in range(8) for region in range(8))
    lines, _ = bench.explain(machine, superpages(14) + inner, "linux-thp")
    assert hits(lines, 64) == [False] + [True] * 63


@claim("S3-014", "3", "Superpage index bits send 512 neighbouring small pages to one set: misses multiply", "direction")
def test_superpage_index_bits(bench: Bench) -> None:
    trace = f"mmap {BASE:#x} 128K rw anon\n" + "".join(f"r {BASE + i * 4 * K:#x}\n" for i in range(32)) * 20

    def misses(more: str) -> int:
        return int(array(bench.run(bench.machine(mixed(16, 4, 1, more)), trace), "MIX")["misses"])

    small, large = misses(""), misses('mix = { index = "2M" }\n')
    assert large > 4 * small


@claim("S3-020", "4.1", "No bundle crosses a multiple of its largest size")
@claim("S3-021", "4.1", "Bitmaps record holes")
def test_alignment_and_holes(bench: Bench) -> None:
    machine = bench.machine(mixed(2, 4, 2))
    across = f"r {FIRST + 2 * M:#x}\nr {FIRST + 4 * M:#x}\n"
    lines, _ = bench.explain(machine, superpages(4) + across, "linux-thp")
    assert hits(lines, 2) == [False, False]
    group = (FIRST + 8 * M - 1) // (8 * M) * 8 * M
    holed = f"munmap {group + 2 * M:#x} 2M\n" + "".join(f"r {group + i * 2 * M:#x}\n" for i in (0, 2, 3))
    lines, _ = bench.explain(bench.machine(mixed(2, 4, 4)), superpages(8) + holed, "linux-thp")
    assert hits(lines, 3) == [False, True, True]


@claim("S3-027", "4.2", "8 translations at first; misses in other lines make the entry larger")
def test_bundles_grow(bench: Bench) -> None:
    # Three whole lines of eight superpages.
    line = (FIRST + 16 * M - 1) // (16 * M) * 16 * M
    places = [line + n * 16 * M for n in range(3)]

    def sizes(group: int) -> list[int]:
        """Superpages of the bundle that a load of each line writes."""
        machine = bench.machine(mixed(4, 8, group, 'mix = { span = "anywhere" }\n', level=2) + one_big())
        reads = "".join(f"r {at:#x}\n" for at in places)
        lines, _ = bench.explain(machine, superpages(30) + reads, "linux-thp")
        told = [[f["va"] for f in line["filled"] if f["array"] == "MIX"] for line in last(lines, 3)]
        assert all(sorted(vas) == list(range(min(vas), max(vas) + 1, 2 * M)) for vas in told)
        return [len(vas) for vas in told]

    assert sizes(64) == [8, 16, 24]
    assert sizes(16) == [8, 16, 8], "no longer than the group"
    assert sizes(4) == [4, 4, 4]


FIGURE_8 = [0, 4 * M, 4 * K, 12 * K, 6 * M, 4 * M + 4 * K, 4 * M + 8 * K, 0]


def figure_8() -> str:
    """Paper 4's Figure 8: A, B, D, E, C in an even region, B in an odd one, B in an even one, A."""
    small = BASE + 256 * M
    touch = "".join(f"w {small + at:#x}\n" for at in (0, 4 * K, 12 * K))
    setup = (
        f"mmap {small:#x} 16K rw anon\n{superpages(2)}{touch}mprotect {small:#x} 16K r\nmprotect {small:#x} 16K rw\n"
    )
    setup += f"mprotect {FIRST:#x} 4M r\nmprotect {FIRST:#x} 4M rw\n"
    where = {0: small, 4 * K: small + 4 * K, 12 * K: small + 12 * K}
    return setup + "".join(f"r {where.get(at, BASE + at):#x}\n" for at in FIGURE_8)


@claim("S3-028", "4.3, Figure 8", "Mirrors are replaced independently: C hits in set 0 after set 1 lost its mirror")
@claim("S3-029", "4.3, Figure 8", "A miss mirrors blindly: A is evicted by a duplicate, which the next probe drops")
def test_duplicates_arise_and_go(bench: Bench) -> None:
    lines, _ = bench.explain(bench.machine(mixed(2, 2, 2)), figure_8(), "linux-thp")
    assert hits(lines, 8) == [False, False, False, False, True, False, True, False]
    lines, _ = bench.explain(bench.machine(mixed(2, 2, 2, 'mix = { mirrors = "merged" }\n')), figure_8(), "linux-thp")
    assert hits(lines, 8) == [False, False, False, False, True, False, True, True]


@claim("S3-031", "4.4", "An L1 invalidation clears one bit in every mirror")
@claim("S3-032", "4.4", "An L2 invalidation drops the bundle")
@pytest.mark.parametrize(("bundle", "kept"), [("bitmap", True), ("length", False)])
def test_invalidations(bundle: str, kept: bool, bench: Bench) -> None:
    trace = superpages(2) + f"r {FIRST:#x}\ninvlpg {FIRST:#x}\nr {FIRST + 2 * M:#x}\nr {FIRST:#x}\n"
    machine = bench.machine(mixed(2, 2, 2, f'mix = {{ bundle = "{bundle}" }}\n'))
    lines, _ = bench.explain(machine, trace, "linux-thp")
    assert hits(lines, 3)[1] == kept


@claim("S3-033", "4.4", "Superpages with other rights are not coalesced")
@claim(
    "S3-034",
    "4.4",
    "Superpages join an entry once they are demanded",
    "in part: crates/tlb/tests/all/mix.rs has the A bits",
)
def test_rights_and_accessed_bits(bench: Bench) -> None:
    machine = bench.machine(mixed(2, 2, 2))
    reads = f"r {FIRST:#x}\nr {FIRST + 2 * M:#x}\nr {FIRST:#x}\n"
    lines, _ = bench.explain(machine, superpages(2) + f"mprotect {FIRST:#x} 2M r\n" + reads, "linux-thp")
    assert hits(lines, 3) == [False, False, True]
    # The second is there, and accessed, only with its own store.
    later = (
        f"{LONE}mmap {FIRST:#x} 4M rw anon\nw {FIRST:#x}\nw {FIRST + 2 * M:#x}\nr {FIRST:#x}\nr {FIRST + 2 * M:#x}\n"
    )
    lines, result = bench.explain(machine, later, "linux-thp")
    assert hits(lines, 4) == [False, False, True, True]
    assert array(result, "MIX")["mirroring"]["extended"] == 1


@claim("S3-035", "4.4", "A bundle is dirty only if all its superpages are")
def test_the_dirty_bit_of_a_bundle(bench: Bench) -> None:
    stores = f"r {FIRST:#x}\nw {FIRST:#x}\nw {FIRST:#x}\n"
    machine = bench.machine(mixed(2, 2, 2))
    clean = f"{LONE}mmap {FIRST:#x} 4M rw anon\nw {FIRST:#x}\nr {FIRST + 2 * M:#x}\n"
    clean += f"mprotect {FIRST:#x} 4M r\nmprotect {FIRST:#x} 4M rw\n"
    walks = [
        bench.run(machine, setup + stores, "linux-thp", "policy.thp.zero_page=false")["counts"]["walks"]
        for setup in (superpages(2), clean)
    ]
    assert [w["dirty_updates"] for w in walks] == [0, 2]


@claim("S3-017", "4.1", "An entry for three page sizes has two bits more")
@claim("S3-018", "4.1", "Which is about 1 % of it", "in part: 2.7 % of 75 bits (X32)")
def test_two_bits_an_entry() -> None:
    arrays = {a["name"]: a for a in engine.fit("haswell-mix-baseline", "mix", (8, 64))["fitted"]["area"]}
    split = {a["name"]: a for a in engine.fit("haswell-mix-baseline", None)["area"]}
    fewer_sets = math.log2(arrays["DTLB"]["sets"] / split["DTLB-4K"]["sets"])
    assert arrays["DTLB"]["entry_bits"] + fewer_sets == split["DTLB-4K"]["entry_bits"] + 2


@claim("S3-040", "5.1", "A skewed array for 3 sizes with 2 ways each reads 6 ways a lookup")
def test_skewed_ways(bench: Bench) -> None:
    skewed = SHAPES + (
        '[[tlb]]\nname = "S"\nlevel = 1\nside = "data"\nentries = {}\nways = {}\nsizes = ["4K", "2M", "1G"]\n'
        'design = "skew"\n'
    )
    trace = f"mmap {BASE:#x} 64K rw anon\n" + "".join(f"r {BASE + i * 4 * K:#x}\n" for i in range(16))

    def read(ways: int) -> float:
        energy = bench.run(bench.machine(skewed.format(4 * ways, ways)), trace)["energy"]
        return float(next(s for s in energy["structures"] if s["name"] == "S")["read_pj"])

    # 0.172 pJ aside, each way of 4 sets adds the same: all 6 are read, and all 12.
    assert read(12) - 0.172 == pytest.approx(2 * (read(6) - 0.172))


@claim("S3-058", "7.2", "Skewed arrays of equal area have fewer entries, for their stamps", "in part: entries")
def test_stamps_cost_entries() -> None:
    entries = {
        design: sum(a["entries"] for a in engine.fit("haswell-mix-baseline", design)["fitted"]["tlb"])
        for design in ("mix", "skew")
    }
    assert entries["skew"] < entries["mix"]


@claim(
    "S3-059", "7.2, Figure 17", "Most dynamic energy goes to lookups and walks, little to fills", "in part: small pages"
)
@claim("S3-053", "7.2, Figure 14", "With 4 KB pages only, MIX gains on split TLBs of its area", "direction")
def test_small_pages_have_all_entries() -> None:
    # 4 MB in 4 KB pages are more than the parts for them.
    plan = all_page_sizes.Plan("gen:gups?footprint=4M&updates=300k", designs=("mix",), memhog=())
    split, mix = all_page_sizes.run(plan)[0].cells
    assert mix.gain > 0
    assert mix.result.walk_count < split.result.walk_count
    for cell in (split, mix):
        energy = cell.result.data["energy"]["dynamic_nj"]
        assert energy["fill"] < 0.2 * (energy["lookup"] + energy["walk"])


@claim("S3-045", "7.1", "Average contiguity: runs of 1, 1 and 2 have (1 + 1 + 2 x 2) / 4 = 1.5")
def test_average_contiguity(bench: Bench) -> None:
    # Two superpages beside each other, and one that nothing is beside; a hole between it and a fourth.
    trace = superpages(4) + f"munmap {FIRST + 4 * M:#x} 2M\n"
    found = shares(bench.run(bench.machine(""), trace, "linux-thp"))["by_size"]["2M"]
    assert (found["pages"], found["lengths"]) == (4, {"1": 2, "2": 1})
    assert found["average"] == 1.5


@claim(
    "S3-051",
    "1, 7.1",
    "Where there are superpages they lie together, the less so the more memory is in use",
    "direction",
)
def test_contiguity_beside_memhog(bench: Bench) -> None:
    memory = '[memory]\nsize = "4G"\n[memory.fragment]\nkind = "memhog"\npercent = {}\n'
    touch = "".join(f"w {va:#x}\n" for va in range(BASE, BASE + G, 2 * M))

    def average(percent: int) -> float:
        result = bench.run(bench.machine(memory.format(percent)), f"mmap {BASE:#x} 1G rw anon\n{touch}", "linux-thp")
        return float(shares(result)["by_size"]["2M"]["average"])

    averages = [average(percent) for percent in (20, 40, 60)]
    assert averages == sorted(averages, reverse=True)
    assert averages[0] > 4
