"""Claims about elastic translations (paper 3), by their numbers."""

import pytest
from bench import BASE, Bench, G, K, M, described, huge_bytes
from claims import claim


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
