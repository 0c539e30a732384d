"""Claims about elastic translations (paper 3), by their numbers."""

from typing import Any

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


@claim("S2-032", "VI", "L2 reach on N1: 5 MiB at 4 KiB, 80 MiB at 64 KiB, 2.5 GiB at 2 MiB, 40 GiB at 32 MiB")
@pytest.mark.parametrize(
    ("policy", "sets", "size", "reach"),
    [
        ("linux-4k", (), 4 * K, 5 * M),
        ("coalapaging-bit", ("policy.fault.sizes=[]",), 64 * K, 80 * M),
        ("linux-thp", (), 2 * M, 2560 * M),
        ("coalapaging-bit", ("memory.max_order=13",), 32 * M, 40 * G),
    ],
)
def test_the_reach_of_neoverse_n1(policy: str, sets: tuple[str, ...], size: int, reach: int, bench: Bench) -> None:
    def misses(footprint: int, rounds: int) -> int:
        once = "".join(f"r {va:#x}\n" for va in range(BASE, BASE + footprint, size))
        trace = f"mmap {BASE:#x} {footprint} rw anon populate\n{once * rounds}"
        counted: int = bench.run("neoverse-n1", trace, policy, *sets)["counts"]["tlb"]["l2d"]["misses"]
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


SMALL = ("memory.size=512M", "memory.max_order=13")
# Base pages in the allocator's frames, and the daemon: what lies together is the daemon's work.
DAEMON = """name = "daemon"
kind = "linux"
linux.zero_page = false
hints.from = "page-sizes"
[promotion]
when = "daemon"
"""
COALA = f'{DAEMON}by = "coala-khugepaged"\n'


def happened(result: dict[str, Any], what: str) -> int:
    """How often something happened in the kernel."""
    return int(result["counts"]["kernel"]["events"].get(what, 0))


def assembled(lines: list[dict[str, Any]]) -> list[int]:
    """The first addresses of the ranges that the daemon promoted, in order."""
    return [e["va"] for line in lines for e in line["events"] if e.get("event") == "assembled"]


@claim(
    "S2-019",
    "IV-D",
    "Faults take base pages, for 64 KiB, where those cover the mapping within TLB reach (N1: 80 MiB), else 2 MiB",
)
@pytest.mark.parametrize(("mapped", "bytes_each"), [(80 * M, 4 * K), (80 * M + 4 * K, 2 * M)])
def test_the_size_of_a_mapping_chooses_the_fault_size(mapped: int, bytes_each: int, bench: Bench) -> None:
    touches = "".join(f"w {va:#x}\n" for va in range(BASE, BASE + 16 * bytes_each, bytes_each))
    trace = f"mmap {BASE:#x} {mapped} rw anon\n{touches}"
    result = bench.run("neoverse-n1", trace, "elastic", *SMALL)
    assert result["counts"]["kernel"]["faults"]["anon"] == 16
    assert result["counts"]["kernel"]["work"]["zero_bytes"] == 16 * bytes_each
    # No block is free: smaller sizes.
    full = "mmap 0x100000000 460M rw anon\nmadvise 0x100000000 460M nohugepage\nmadvise 0x100000000 460M 23\n"
    result = bench.run("neoverse-n1", full + trace, "elastic", "memory.size=480M", "memory.max_order=13")
    assert result["counts"]["kernel"]["huge_faults"] < 16


@claim("S2-020", "IV-C", "Of a range with k of 16 pages in place, the daemon migrates exactly the 16 - k others")
@pytest.mark.parametrize("in_place", [2, 5, 13, 16])
def test_only_misplaced_pages_migrate(in_place: int, bench: Bench) -> None:
    other, away = 0x50000000, 16 - in_place
    touched = "".join(f"w {BASE + page * 4 * K:#x}\n" for page in range(away, 16))
    # Each misplaced page comes from a range of its own, from the place next to its own.
    moved = "".join(
        f"w {other + page * 64 * K + (page + 1) * 4 * K:#x}\n"
        f"mremap {other + page * 64 * K + (page + 1) * 4 * K:#x} 4K {BASE + page * 4 * K:#x} 4K\n"
        for page in range(away)
    )
    trace = f"mmap {BASE:#x} 64K rw anon\nmmap {other:#x} 2M rw anon\n{touched}{moved}"
    hint = f"madvise {BASE:#x} 64K page-size=64K\ntick\nr {BASE:#x}\n"
    # The bit would make one page of sixteen that lie in place, which are no run of base pages then.
    result = bench.run("neoverse-n1", trace + hint, "elastic", *SMALL, "policy.contiguous.bit=none")
    assert happened(result, "coala_pages_moved") == happened(result, "pages_migrated") == away
    assert happened(result, "coala_in_place") == (away > 0)
    assert result["counts"]["memory"]["contiguity"]["pages_in_64K"] >= 16


@claim("S2-021", "IV-C", "If a target frame cannot be vacated, the whole range migrates to fresh memory")
def test_a_range_that_cannot_stay_migrates_whole(bench: Bench) -> None:
    # The second half of an aligned 2 MiB lies in frames 256 to 511; frames 0 to 255 are the machine's.
    trace = f"mmap {BASE + M:#x} 1M rw anon populate\nmmap {BASE:#x} 1M rw anon\n"
    trace += f"madvise {BASE:#x} 2M page-size=2M\ntick\nr {BASE:#x}\n"
    machine = bench.machine('[memory]\nsize = "16M"\n')
    result = bench.run(machine, trace, bench.write("coala.toml", COALA))
    assert result["counts"]["kernel"]["refusals"]["coala_target_unmovable"] == 1
    assert happened(result, "coala_moved_whole") == 1
    assert happened(result, "coala_pages_moved") == happened(result, "pages_migrated") == 256


@claim(
    "S2-022",
    "IV-C",
    "Processes of Elastic Translations come first, in turns; the ranges of each in the order of its hints",
)
@claim("S2-027", "IV-D", "Hints are kept in the order in which an extended madvise loads them; faults may go by them")
def test_promotions_follow_hints_and_processes_take_turns(bench: Bench) -> None:
    orders = {1: [3, 0, 2], 2: [1, 3, 0]}
    trace = ""
    for pid, order in orders.items():
        trace += f"p {pid}.{pid}\nmmap {BASE:#x} 8M rw anon\n"
        trace += "".join(f"w {BASE + huge * 2 * M:#x}\n" for huge in range(4))
        trace += "".join(f"madvise {BASE + huge * 2 * M:#x} 2M page-size=2M\n" for huge in order)
    # A process without hints is khugepaged's, whose turn is last.
    trace += f"p 3.3\nmmap {BASE:#x} 8M rw anon\nw {BASE:#x}\ntick\nw {BASE:#x}\n"
    machine = bench.machine('[memory]\nsize = "128M"\n')
    lines, result = bench.explain(machine, trace, bench.write("coala.toml", COALA))
    assert [(va - BASE) // (2 * M) for va in assembled(lines)] == [3, 1, 0, 3, 2, 0]
    assert happened(result, "khugepaged_collapses") == 1
    hints = f"mmap {BASE:#x} 8M rw anon\nmadvise {BASE:#x} 2M page-size=2M\nw {BASE:#x}\nw {BASE + 4 * M:#x}\n"
    faults = [
        bench.run("neoverse-n1", hints, policy, *SMALL)["counts"]["kernel"]["huge_faults"]
        for policy in ("elastic", "elastic-offline")
    ]
    assert faults == [0, 1]


@claim(
    "S2-056",
    "VII-C",
    "A hot spot at the end of the address space is promoted first with hints, and last by a linear scan",
    "direction",
)
def test_a_hot_tail_is_promoted_first_with_hints(bench: Bench) -> None:
    last = BASE + 15 * 2 * M
    start = f"mmap {BASE:#x} 32M rw anon\n" + "".join(f"w {BASE + huge * 2 * M:#x}\n" for huge in range(16))
    # One region a scan, and the end is read after each.
    start += f"madvise {last:#x} 2M page-size=2M\n"
    trace = start + f"tick\nr {last + 4 * K:#x}\n" * 20
    machine = bench.machine('[memory]\nsize = "128M"\n')
    budget = "[promotion.daemon]\npages_to_scan = 512\n"

    def scans(policy: str) -> int:
        lines, _ = bench.explain(machine, trace, bench.write("policy.toml", policy + budget))
        events = [[e for e in line["events"] if e.get("event") in ("assembled", "collapsed")] for line in lines[16:]]
        return next(i for i, found in enumerate(events, 1) if any(e["va"] == last for e in found))

    linear = DAEMON.replace('hints.from = "page-sizes"\n', "")
    assert (scans(COALA), scans(linear)) == (1, 16)
