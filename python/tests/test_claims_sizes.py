"""Claims about TLBs for all page sizes (paper 4), by their numbers."""

import pytest
from bench import BASE, SMALL_POOL, Bench, G, K, M, array, described, huge_bytes
from claims import claim


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
