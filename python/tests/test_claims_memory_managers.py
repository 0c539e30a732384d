"""Claims about memory managers and the contiguity they leave (paper 1), by their numbers."""

from pathlib import Path
from random import Random

import pytest
from bench import BASE, Bench, K, M, every_page, huge_bytes, shares
from claims import claim

from mmulab import engine


@claim("S0-052", "2.1", "The first fault in an eligible aligned 2 MB region allocates, zeroes and maps a 2 MB page")
def test_the_first_fault_maps_a_huge_page(bench: Bench) -> None:
    counts = bench.run("zen3-5900x", f"mmap {BASE:#x} 4M rw anon\nw {BASE + 0x123456:#x}\n", "linux-thp")["counts"]
    assert counts["memory"]["mapped"]["2M"]["now"] == 2 * M
    assert counts["kernel"]["work"]["zero_bytes"] == 512 * 4096
    assert counts["kernel"]["huge_faults"] == sum(counts["kernel"]["faults"].values()) == 1


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
    events = bench.run("zen3-5900x", trace, "freebsd-reserv")["counts"]["kernel"]["events"]
    assert events["reservations_made"] == reservations


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
    assert refused["events"]["promotions"] == 0 < refused["refusals"]["promote_not_accessed"]
    assert bench.run("zen3-5900x", once, "freebsd-super")["counts"]["kernel"]["events"]["promotions"] == 1


@claim("S0-054", "7", "FreeBSD promotes when all 512 pages are in use; Quicksilver when 64 are")
@pytest.mark.parametrize("threshold", [512, 64])
def test_promotion_waits_for_its_threshold(threshold: int, bench: Bench) -> None:
    sets = (f"policy.freebsd.promotion_threshold={threshold}",)
    for pages, promotions in ((threshold - 1, 0), (threshold, 1)):
        trace = f"mmap {BASE:#x} 2M rw anon\n" + every_page(BASE, pages * 4 * K)
        result = bench.run("zen3-5900x", trace, "freebsd-super", *sets)
        assert result["counts"]["kernel"]["events"]["promotions"] == promotions
        assert huge_bytes(result) == promotions * 2 * M


@claim("S0-055", "7", "Files below 2 MB have no reservation; smaller ones make their pages contiguous", "direction")
def test_small_reservations_serve_small_files(bench: Bench) -> None:
    trace = f"mmap {BASE:#x} 512K rx file:/lib/small.so+0\n" + every_page(BASE, 512 * K, "f")
    plain_, small = (
        bench.run("zen3-5900x", trace, "freebsd-reserv", *sets)
        for sets in ((), ('policy.freebsd.levels=["2M", "64K", "32K", "16K"]',))
    )
    assert plain_["counts"]["kernel"]["events"]["reservations_made"] == 0
    assert shares(plain_)["pages_in_32K"] < shares(small)["pages_in_64K"] == 128


@claim("S0-056", "6", "Navarro and others reserved 64 KB, 512 KB and 4 MB")
def test_reservations_have_several_sizes(bench: Bench) -> None:
    sets = ('policy.freebsd.levels=["64K", "512K", "4M"]',)
    trace = f"mmap {BASE:#x} 4672K r file:/data+0\n" + every_page(BASE, 4672 * K, "r", 64 * K)
    result = bench.run("zen3-5900x", trace, "freebsd-reserv", *sets)
    # 4 MB, 512 KB and 64 KB, and nothing left over.
    assert result["counts"]["kernel"]["events"]["reservations_made"] == 3
    assert shares(result)["pages_in_64K"] == shares(result)["pages"] == 1168


@claim("S0-039", "2.3", "A file out of phase by a page has no aligned group, though its frames are reserved")
@claim("S0-042", "5.2", "Code out of phase gets neither aligned groups nor superpages")
@pytest.mark.parametrize("shift", [1, 2, 3, 5, 511])
def test_code_out_of_phase_gains_nothing(shift: int, bench: Bench) -> None:
    at = BASE + shift * 4096
    trace = f"mmap {at:#x} 4M rx file:/bin/prog+0\n" + every_page(at, 4 * M, "f")
    result = bench.run("zen3-5900x", trace, "freebsd-super")
    assert result["counts"]["kernel"]["events"]["reservations_made"] == 2
    assert shares(result)["pages_in_16K"] == huge_bytes(result) == 0
    aligned = bench.run("zen3-5900x", trace.replace(f"{at:#x} 4M", f"{BASE:#x} 4M"), "freebsd-super")
    assert aligned["counts"]["kernel"]["events"]["promotions"] > 0


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
