"""Claims about the contiguous bit (Elastic Translations, paper 3, sections II-B, IV-A and V), by their numbers."""

from typing import Any

import narration
import pytest
from bench import BASE, Bench, K, M, every_page
from claims import claim

from mmulab import engine

Json = dict[str, Any]
SETS = ("memory.size=1G", "memory.max_order=13", "policy.linux.zero_page=false")
RANGE = f"mmap {BASE:#x} 64K rw anon populate\n"
TABLES = """
[table]
kind = "armv8-4k"
levels = 4
"""


def run(bench: Bench, trace: str, policy: str = "coalapaging-bit", *more: str, **options: Any) -> Json:
    """What a program counts on the paper's machine, with 1 GB of memory."""
    counts: Json = bench.run("neoverse-n1", trace, policy, *SETS, *more, **options)["counts"]
    return counts


def bit(counts: Json, what: str) -> int:
    """A counter of the bit; those that are 0 are left out of results."""
    kernel = counts["kernel"]
    return int(kernel["events"].get(f"contiguous_{what}", 0) or kernel["refusals"].get(f"contiguous_{what}", 0))


def mapped(counts: Json) -> dict[str, int]:
    """Bytes mapped at the end, by page size."""
    return {size: value["now"] for size, value in counts["memory"]["mapped"].items() if value["now"]}


def small(trace: str) -> str:
    """A trace whose mapping is too small for pages of 2 MB."""
    return f"mmap {BASE:#x} 64K rw anon\n{trace}"


@claim(
    "S2-001",
    "II-B",
    "Armv8 coalesces 16 entries: 16 x 4 KiB PTEs = 64 KiB, 16 x 2 MiB PMDs = 32 MiB; the bit is bit 52",
    "exactly; the bit's number is tested in crates/pagetable (formats/arm.rs)",
)
def test_sixteen_entries_translate_as_one(bench: Bench) -> None:
    assert mapped(run(bench, RANGE)) == {"64K": 16 * 4 * K}
    assert mapped(run(bench, f"mmap {BASE:#x} 32M rw anon populate\n")) == {"32M": 16 * 2 * M}


@claim("S2-002", "IV-A", "Alignment: PFN mod 16 = VPN mod 16")
def test_a_range_out_of_place_has_no_bit(bench: Bench) -> None:
    # The two ranges move up by one page, so that the range between has frames whose first is the last of its block.
    trace = f"mmap {BASE:#x} 128K rw anon populate\nmremap {BASE:#x} 128K {2 * BASE + 4 * K:#x} 128K\n"
    counts = run(bench, trace)
    assert (bit(counts, "misaligned"), mapped(counts)) == (1, {"4K": 128 * K})


@claim("S2-003", "IV-A", "Contiguity: PFN(n+1) = PFN(n) + 1 for all entries of the range")
@pytest.mark.parametrize(("one", "other"), [(0, 1), (3, 9), (14, 15)])
def test_one_swapped_frame_keeps_the_bit_away(one: int, other: int, bench: Bench) -> None:
    a, b, c = BASE + one * 4 * K, BASE + other * 4 * K, 2 * BASE
    moves = "".join(f"mremap {old:#x} 4K {new:#x} 4K\n" for old, new in ((a, c), (b, a), (c, b)))
    counts = run(bench, RANGE + moves)
    assert bit(counts, "scattered") + bit(counts, "misaligned") == 1
    assert (bit(counts, "set_64k"), mapped(counts)) == (1, {"4K": 64 * K})


@claim("S2-004", "IV-A", "All entries must have compatible flags and rights")
@pytest.mark.parametrize("page", [0, 7, 15])
def test_one_page_with_other_rights_keeps_the_bit_away(page: int, bench: Bench) -> None:
    at = BASE + page * 4 * K
    counts = run(bench, f"{RANGE}mprotect {at:#x} 4K r\n")
    assert (bit(counts, "mixed"), mapped(counts)) == (1, {"4K": 64 * K})
    counts = run(bench, f"{RANGE}mprotect {at:#x} 4K r\nmprotect {at:#x} 4K rw\n")
    assert (bit(counts, "set_64k"), mapped(counts)) == (2, {"64K": 64 * K})


@claim("S2-005", "IV-A", "Each entry created or changed has its 16 checked; if all qualify, all 16 get the bit")
@claim("S2-007", "IV-A", "A range that is not wholly faulted in takes the default path: no bit")
@pytest.mark.parametrize("step", [1, 3, 7, 15])
def test_the_sixteenth_fault_sets_the_bit(step: int, bench: Bench) -> None:
    faults = [f"w {BASE + i * step % 16 * 4 * K:#x}\n" for i in range(16)]
    for faulted in (1, 8, 15):
        counts = run(bench, small("".join(faults[:faulted])))
        assert (bit(counts, "partial"), bit(counts, "set_64k")) == (faulted, 0)
        assert mapped(counts) == {"4K": faulted * 4 * K}
    counts = run(bench, small("".join(faults)))
    assert (bit(counts, "partial"), bit(counts, "set_64k"), mapped(counts)) == (15, 1, {"64K": 64 * K})
    # Each of the sixteen entries has it: a cold walk through any of them fills 64 KiB.
    for page in range(16):
        lines, _ = bench.explain("neoverse-n1", f"{RANGE}r {BASE + page * 4 * K:#x}\n", "coalapaging-bit", *SETS)
        assert {fill["bytes"] for fill in lines[-1]["filled"]} == {64 * K}


CHANGES = {
    "munmap": f"munmap {BASE + 20 * K:#x} 4K\n",
    "mprotect": f"mprotect {BASE + 20 * K:#x} 4K r\n",
    "madvise": f"madvise {BASE + 20 * K:#x} 4K dontneed\n",
    "mremap": f"mremap {BASE + 20 * K:#x} 4K {2 * BASE:#x} 4K\n",
    "copy on write": f"fork 2\nw {BASE + 20 * K:#x}\n",
}


@claim(
    "S2-006",
    "IV-A",
    "A change that breaks a condition clears the bit in all entries and flushes the range",
    "exactly: one flush of the range, beside the one that the operation owes anyway",
)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_one_page_clears_the_bit_and_flushes_once(change: str, bench: Bench) -> None:
    trace = f"{RANGE}r {BASE:#x}\n{CHANGES[change]}r {BASE:#x}\n"
    lines, result = bench.explain("neoverse-n1", trace, "coalapaging-bit", *SETS)
    events = [event for line in lines for event in line["events"]]
    ranges = [e["range"] for e in events if e.get("flush") == "range"]
    assert ranges == [{"start": BASE, "end": BASE + 64 * K}]
    cleared = [e for e in events if e.get("event") == "contiguous_cleared"]
    assert [(e["va"], e["size"]) for e in cleared] == [(BASE, "64K")]
    assert (bit(result["counts"], "cleared_64k"), bit(result["counts"], "flushes")) == (1, 1)
    # The TLB's entry of 64 KiB is gone; the next access to any other page finds one of 4 KiB.
    assert {fill["bytes"] for fill in lines[-1]["filled"]} == {4 * K}


@claim(
    "S2-009",
    "IV-A",
    "Entries of the TLB left behind by a demotion without a flush would allow invalid accesses",
    "exactly; that the check finds a demotion without a flush is tested in crates/machine (check/tests.rs)",
)
def test_no_translation_outlives_its_range(bench: Bench) -> None:
    changes = "".join(f"r {BASE:#x}\n{change}{every_page(BASE, 16 * K, 'r')}" for change in CHANGES.values())
    result = bench.run("neoverse-n1", RANGE + changes, "coalapaging-bit", *SETS, check="translations")
    assert result["ended"]["reason"] == "end"
    assert bit(result["counts"], "cleared_64k") >= 1


def guest(bench: Bench, guest_bit: str, host_bit: str) -> tuple[Json, list[Json]]:
    """The sizes that the TLB is filled with for sixteen pages in a virtual machine, and the counters."""
    text = '[memory]\nsize = "128M"\n[virtual.memory]\nsize = "32M"\n[virtual.table]\nkind = "armv8-4k"\nlevels = 4\n'
    tlbs = "".join(
        f'[[tlb]]\nname = "{side[0].upper()}TLB"\nlevel = 1\nside = "{side}"\nentries = 16\nways = "full"\n'
        'sizes = ["4K", "64K", "2M", "32M"]\n'
        for side in ("instruction", "data")
    )
    machine = bench.machine(text + TABLES + tlbs)
    files = []
    for name, kind in (("guest", guest_bit), ("host", host_bit)):
        parts = f'placement.frames = "coala"\ncontiguous.bit = "{kind}"\nlinux.zero_page = false\n'
        files.append(bench.write(f"{name}.toml", f'name = "{name}"\nkind = "linux"\n{parts}'))
    trace = bench.write("trace.mmtx", RANGE + every_page(BASE, 64 * K, "r"))
    job = engine.Job(machine, files[0], (), files[1])
    lines, result = narration.narrate(trace, job, engine.Options())
    return result["counts"], lines


@claim(
    "S2-010",
    "IV-A",
    "The guest manages the bit in its tables, the host in those below it; each without the other",
    "in part: the table of the host's process is the nested table, so nothing is copied to a second one",
)
@claim("S2-011", "IV-A", "A coalesced entry is cached only when both ranges have the bit: the smaller size of both")
@pytest.mark.parametrize("guest_bit", ["none", "transparent"])
@pytest.mark.parametrize("host_bit", ["none", "transparent"])
def test_an_entry_is_the_smaller_of_guest_and_host(guest_bit: str, host_bit: str, bench: Bench) -> None:
    counts, lines = guest(bench, guest_bit, host_bit)
    filled = {fill["bytes"] for line in lines for fill in line["filled"]}
    both = (guest_bit, host_bit) == ("transparent", "transparent")
    assert filled == {64 * K if both else 4 * K}
    assert ("64K" in mapped(counts)) == (guest_bit == "transparent")
    assert ("64K" in mapped(counts["virtual"])) == (host_bit == "transparent")


@claim("S2-017", "IV-B", "Concurrent programs do not compete for blocks, and all form mappings of 32 MiB")
@pytest.mark.parametrize("programs", [2, 5])
def test_all_programs_form_32_mib(programs: int, bench: Bench) -> None:
    bases = [BASE + n * 64 * M for n in range(programs)]
    trace = "".join(f"p {n + 1}.1\nmmap {base:#x} 32M rw anon\n" for n, base in enumerate(bases))
    for i in range(16):
        for n, base in enumerate(bases):
            trace += f"p {n + 1}.1\nw {base + (i * (2 * n + 1) % 16) * 2 * M:#x}\n"
    counts = run(bench, trace)
    assert mapped(counts) == {"32M": programs * 32 * M}


@claim(
    "S2-028",
    "V-A",
    "Ranges are not demoted for their own sake; what the kernel does to one page of 2 MiB demotes the 32 MiB",
    "exactly: unmapping, changing rights, and a daemon that moves pages of 2 MiB (Translation Ranger)",
)
@pytest.mark.parametrize("change", ["madvise {:#x} 2M dontneed", "mprotect {:#x} 2M r", "munmap {:#x} 2M"])
def test_a_change_of_one_huge_page_takes_32_mib_apart(change: str, bench: Bench) -> None:
    trace = f"mmap {BASE:#x} 32M rw anon populate\nr {BASE:#x}\n{change.format(BASE + 6 * M)}\nr {BASE:#x}\n"
    counts = run(bench, trace)
    assert (bit(counts, "set_32m"), bit(counts, "cleared_32m"), bit(counts, "flushes")) == (1, 1, 1)
    assert set(mapped(counts)) == {"2M"}
    # The daemon gives the mapping frames elsewhere; the page that would go to frame 0, which is the machine's, stays.
    ranger = ("policy.promotion.when=daemon", "policy.promotion.by=ranger", "policy.promotion.smallest_mapping=32M")
    moved = run(bench, f"mmap {BASE:#x} 32M rw anon populate\ntick\nr {BASE:#x}\n", "coalapaging-bit", *ranger)
    assert (bit(moved, "set_32m"), bit(moved, "cleared_32m")) == (1, 1)
    assert moved["kernel"]["events"]["ranger_pages_moved"] > 0
    assert mapped(moved) == {"2M": 32 * M}
    # Left alone, it stays.
    idle = run(bench, f"mmap {BASE:#x} 32M rw anon populate\n" + f"r {BASE:#x}\n" * 2000)
    assert (bit(idle, "cleared_32m"), mapped(idle)) == (0, {"32M": 32 * M})


@claim(
    "S2-030",
    "V-B",
    "Hardware may set A or D in any of the entries: the kernel takes the OR of all 16",
    "exactly; the entries themselves are looked at in crates/kernel (tests/all/contiguous.rs)",
)
def test_a_store_through_one_entry_makes_the_range_dirty(bench: Bench) -> None:
    # Sixteen clean pages: loads, and MADV_FREE. A store to page 7 sets D in its entry. An munmap of page 15 takes the
    # range apart. Then a store to page 3 finds its entry dirty: no walk to set D.
    clean = small(every_page(BASE, 64 * K, "r")) + f"madvise {BASE:#x} 64K free\n"
    apart = f"munmap {BASE + 60 * K:#x} 4K\nr {BASE + 12 * K:#x}\nw {BASE + 12 * K:#x}\n"
    updates = {
        stored: run(bench, clean + (f"w {BASE + 28 * K:#x}\n" if stored else "") + apart)["walks"]["dirty_updates"]
        for stored in (False, True)
    }
    assert updates == {False: 1, True: 0}
