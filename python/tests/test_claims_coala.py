"""Claims about CoalaPaging, the placement of Elastic Translations (paper 3, section IV-B), by their numbers."""

from typing import Any

from bench import BASE, Bench, K, M
from claims import claim

from mmulab import engine

COALA = 'name = "coala"\nkind = "linux"\nplacement.frames = "coala"\nlinux.zero_page = false\n'
PLAIN = 'name = "plain"\nkind = "linux"\nlinux.zero_page = false\n'
HUGE = '[fault]\nsizes = ["2M"]\n'


def frames(lines: list[dict[str, Any]]) -> list[int]:
    """The frames that faults mapped, in order."""
    return [e["pfn"] for line in lines for e in line.get("fault", ()) if e.get("event") == "fault"]


def touch(pages: list[int], base: int = BASE) -> str:
    """A store to each of these pages."""
    return "".join(f"w {base + page * 4 * K:#x}\n" for page in pages)


@claim(
    "S2-012",
    "IV-B",
    "The first fault in 64 KiB takes the page at its place in a free block of order 4; the other 15 stay free",
)
def test_the_first_fault_takes_one_page_of_a_block(bench: Bench) -> None:
    machine = bench.machine('[memory]\nsize = "64M"\n')
    coala, plain = bench.write("coala.toml", COALA), bench.write("plain.toml", PLAIN)
    for page in (0, 5, 15):
        trace = f"mmap {BASE:#x} 64K rw anon\n{touch([page])}"
        lines, result = bench.explain(machine, trace, coala)
        [frame] = frames(lines)
        assert frame % 16 == page
        # Neither allocated nor reserved: as much is free as when the allocator chooses by itself.
        [free, of_plain] = [bench.run(machine, trace, policy)["counts"]["memory"] for policy in (coala, plain)]
        assert free["free_bytes"] == of_plain["free_bytes"]
        assert free["reserved_bytes"] == 0
        assert result["counts"]["kernel"]["faults"]["anon"] == 1


@claim(
    "S2-013", "IV-B", "32 MiB are blocks of order 13 (8192 pages); Linux keeps track of blocks up to order 10, 4 MiB"
)
def test_blocks_of_32_mib_have_order_13(bench: Bench) -> None:
    touches = "".join(
        f"w {BASE + huge * 2 * M:#x}\n" for huge in (3, 1, 15, 0, 9, 2, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14)
    )
    trace = f"mmap {BASE:#x} 32M rw anon\n{touches}"
    policy = bench.write("coala.toml", COALA + HUGE)
    together = {}
    for order in (10, 13):
        machine = bench.machine(f'[memory]\nsize = "256M"\nmax_order = {order}\n')
        lines, _ = bench.explain(machine, trace, policy)
        first = frames(lines)[3]
        together[order] = first % 8192 == 0 and sorted(frames(lines)) == [first + i * 512 for i in range(16)]
    assert (1 << 13) * 4 * K == 32 * M
    assert (1 << 10) * 4 * K == 4 * M
    # Without blocks of that order, the sixteen pages lie in one such block only by chance: nobody looks for it.
    assert together[13]
    machine = bench.machine('[memory]\nsize = "256M"\n')
    assert bench.run(machine, trace, policy)["machine"]["memory"]["max_order"] == 10


@claim("S2-015", "IV-B", "An anchor whose frame is misaligned with its page ends the attempt: any frame is taken")
def test_a_misaligned_anchor_is_no_anchor(bench: Bench) -> None:
    machine = bench.machine('[memory]\nsize = "64M"\n')
    policy = bench.write("coala.toml", COALA)
    other = 0x50000000
    # Page 4 of one range becomes page 3 of another, with its frame; then page 9 of that range faults.
    moved = f"mremap {other + 16 * K:#x} 4K {BASE + 12 * K:#x} 4K\n"
    trace = f"mmap {BASE:#x} 64K rw anon\nmmap {other:#x} 64K rw anon\n{touch([4], other)}{moved}{touch([9])}"
    lines, _ = bench.explain(machine, trace, policy)
    anchor, frame = frames(lines)
    assert anchor % 16 == 4
    assert frame != anchor - anchor % 16 + 9
    # Aligned, the same fault does find the anchor.
    moved = f"mremap {other + 12 * K:#x} 4K {BASE + 12 * K:#x} 4K\n"
    trace = f"mmap {BASE:#x} 64K rw anon\nmmap {other:#x} 64K rw anon\n{touch([3], other)}{moved}{touch([9])}"
    anchor, frame = frames(bench.explain(machine, trace, policy)[0])
    assert frame == anchor + 6


@claim(
    "S2-016", "IV-B", "Nothing is kept beside the page table: the anchor is found there, however the page came there"
)
def test_nothing_is_remembered_but_the_table(bench: Bench) -> None:
    machine = bench.machine('[memory]\nsize = "64M"\n')
    policy = bench.write("coala.toml", COALA)
    other, third = 0x50000000, 0x60000000
    # The range moves to a place where no page has ever faulted; its old place gets a mapping and an anchor of its own.
    start = f"mmap {other:#x} 64K rw anon\n{touch([3], other)}mremap {other:#x} 64K {third:#x} 64K\n"
    trace = f"{start}mmap {other:#x} 64K rw anon\n{touch([5], other)}{touch([9], third)}{touch([9], other)}"
    first, second, moved, stayed = frames(bench.explain(machine, trace, policy)[0])
    assert (moved, stayed) == (first + 6, second + 4)
    assert first // 16 != second // 16


@claim("S2-018", "IV-B", "Guest and host run CoalaPaging by themselves, and what comes about is contiguous in both")
def test_contiguity_in_two_dimensions(bench: Bench) -> None:
    machine = bench.machine('[memory]\nsize = "128M"\n[virtual]\nmemory = { size = "64M" }\n')
    coala, plain = bench.write("coala.toml", COALA), bench.write("plain.toml", PLAIN)
    # Two ranges of the program fault in turn, each in an order of its own.
    order = [(i * 7 % 16, i * 5 % 16) for i in range(16)]
    touches = "".join(touch([a]) + touch([b], BASE + 64 * K) for a, b in order)
    trace = f"mmap {BASE:#x} 128K rw anon\n{touches}"

    def whole(guest: str, host: str) -> tuple[bool, bool]:
        job = engine.Job(machine, guest, (), host)
        result = engine.run(bench.write("trace.mmtx", trace), [job], engine.Options()).results[0].data
        # The program's 32 pages are in runs of the guest's memory; the guest's memory in runs of the host's.
        of_guest = result["counts"]["memory"]["contiguity"]["pages_in_64K"]
        of_host = result["counts"]["virtual"]["memory"]["contiguity"]["pages_in_64K"]
        return of_guest >= 32, of_host >= 32

    assert whole(coala, coala) == (True, True)
    assert whole(plain, coala)[0] is False
