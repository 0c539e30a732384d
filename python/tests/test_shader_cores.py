"""Shader cores: what must hold of any trace of warps."""

import random
from typing import Any

import pytest
from bench import BASE, Bench

from mmulab import UserError

CORES = """
[core]
count = 3
frequency_mhz = 1000

[gpu]
lanes = {lanes}
warps = 4
merge = "{merge}"

[[tlb]]
name = "TLB"
level = 1
side = "both"
entries = 8
ways = 2
sizes = ["4K"]

[[tlb]]
name = "STLB"
level = 2
side = "both"
entries = 32
ways = 4
sizes = ["4K"]
shared = true
"""


def warps(seed: int, steps: int = 300, pages: int = 64, kinds: str = "rw") -> tuple[str, list[tuple[int, list[int]]]]:
    """A trace of warps, and for each instruction its warp and the addresses of its lanes."""
    rng = random.Random(seed)
    lines, done = [f"mmap {BASE:#x} {pages * 4}K rw anon populate"], []
    for _ in range(steps):
        warp = rng.randrange(12)
        start = BASE + 4 * rng.randrange(pages * 1024 - 64)
        spread = rng.choice([0, 4, 64, 4096])
        lanes = [BASE + (start - BASE + lane * spread) % (pages * 4096) for lane in range(rng.randint(1, 8))]
        kind = rng.choice(kinds)
        lines += [f"p 1.{warp}", f"f 0x400000 x{rng.randint(1, 3)}", *(f"{kind} {lane:#x}" for lane in lanes)]
        done.append((warp, lanes))
    return "\n".join(lines) + "\n", done


@pytest.mark.parametrize("seed", range(3))
def test_lookups_are_the_places_that_lanes_name(bench: Bench, seed: int) -> None:
    """By page, by line and by lane; and a core sees no warp but its own."""
    trace, done = warps(seed)
    for merge, shift in (("page", 12), ("line", 7), ("lane", None)):
        counts = bench.run(bench.machine(CORES.format(lanes=8, merge=merge)), trace)["counts"]
        places = [lanes if shift is None else list({at >> shift for at in lanes}) for _, lanes in done]
        assert counts["warps"]["instructions"] == len(done)
        assert counts["warps"]["lanes"] == sum(len(lanes) for _, lanes in done)
        assert counts["references"] == counts["warps"]["lookups"] == sum(map(len, places))
        assert counts["warps"]["port_stalls"] == sum(len(p) - 1 for p in places)


@pytest.mark.parametrize("seed", range(3))
def test_each_core_has_its_own_tlbs(bench: Bench, seed: int) -> None:
    """They miss as models of their own would. Instructions take long: what walks bring is there at the next one."""
    trace, done = warps(seed, kinds="r")
    slow = bench.machine(CORES.format(lanes=8, merge="page"))
    counts = bench.run(slow, trace, "linux-4k", "core.base_cpi=10000", "tlb.STLB.shared=false")["counts"]
    first, second = [Lru(4, 2) for _ in range(3)], [Lru(8, 4) for _ in range(3)]
    misses = [0, 0]
    for warp, lanes in done:
        own, behind = first[warp // 4], second[warp // 4]
        walked = []
        for page in dict.fromkeys(at >> 12 for at in lanes):
            if own.has(page):
                own.hit(page)
                continue
            misses[0] += 1
            if behind.has(page):
                behind.hit(page)
                own.hit(page)
            else:
                misses[1] += 1
                walked.append(page)
        for page in walked:
            behind.hit(page)
            own.hit(page)
    assert (counts["tlb"]["l1d"]["misses"], counts["tlb"]["l2d"]["misses"]) == tuple(misses)
    assert counts["warps"]["joined"] == 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shared", ["true", "false"])
def test_a_page_is_walked_for_once_at_a_time(bench: Bench, seed: int, shared: str) -> None:
    """Lookups that nothing answers walk or join; with little time and much in common most of those of a page join."""
    trace, _ = warps(seed, kinds="r")
    machine = bench.machine(CORES.format(lanes=8, merge="lane"))
    counts = bench.run(machine, trace, "linux-4k", f"tlb.STLB.shared={shared}")["counts"]
    walks, joined = counts["walks"]["data"]["walks"], counts["warps"]["joined"]
    assert walks + joined == counts["tlb"]["l2d"]["misses"]
    # Eight lanes that name one page, or two.
    assert joined > walks / 2


class Lru:
    """Sets of pages, the one used longest ago goes."""

    def __init__(self, sets: int, ways: int) -> None:
        self.sets: list[list[int]] = [[] for _ in range(sets)]
        self.ways = ways

    def has(self, page: int) -> bool:
        """Whether it is there."""
        return page in self.sets[page % len(self.sets)]

    def hit(self, page: int) -> bool:
        """Whether it is there; it is then."""
        held = self.sets[page % len(self.sets)]
        found = page in held
        if found:
            held.remove(page)
        held.append(page)
        del held[: -self.ways]
        return found


def test_translations_are_sound(bench: Bench) -> None:
    """The checker finds nothing stale in a core or in what cores share, while rights and mappings change."""
    trace, _ = warps(7, steps=120)
    lines = trace.splitlines()
    for at, event in ((200, "mprotect"), (500, "munmap")):
        length = "64K r" if event == "mprotect" else "64K"
        lines.insert(next(n for n in range(at, len(lines)) if lines[n].startswith("p ")), f"{event} {BASE:#x} {length}")
    trace = "\n".join(lines) + "\n"
    machine = bench.machine(CORES.format(lanes=8, merge="page"))
    checked = bench.run(machine, trace, check="translations")
    assert checked["complete"], checked["ended"]
    plain = bench.run(machine, trace)
    assert (checked["counts"], checked["model"]) == (plain["counts"], plain["model"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("gpu.lanes=65", "gpu.lanes is 65: give 1 to 64"),
        ("gpu.warps=0", "gpu.warps is 0: give 1 to 1024"),
        ("gpu.line_bytes=100", "gpu.line_bytes is 100: give a power of two"),
        ("tlb.TLB.shared=true", "shared: an array of level 2"),
        ("tlb_rules.inclusion=inclusive", "shared: an array of level 2, not inclusive"),
    ],
)
def test_what_cannot_be_is_refused(bench: Bench, change: str, says: str) -> None:
    """With the key, and what it may be."""
    machine = bench.machine(CORES.format(lanes=8, merge="page"))
    with pytest.raises(UserError, match=says):
        bench.run(machine, f"r {BASE:#x}\n", "linux-4k", change)


TURNS = """#: warps {warps}
mmap 0x40000000 16K rw anon populate
warp 0.0 0x400000 r 0x1 0x40000000
warp 0.1 0x400000 r 0x1 0x40001000
warp {core}.1 0x400000 r 0x1 0x40001000
"""


def test_a_trace_says_which_core_its_warps_are_on(bench: Bench) -> None:
    """Two warps to a core, on cores that could have four: the third is on a core of its own, and misses there."""
    private = CORES.format(lanes=8, merge="page").partition('[[tlb]]\nname = "STLB"')[0]
    machine = bench.machine(private)
    counts = bench.run(machine, TURNS.format(warps=2, core=1))["counts"]
    assert (counts["tlb"]["l1d"]["misses"], counts["warps"]["joined"]) == (3, 0)
    # The same threads of a trace that tells of no warps: 0, 1 and 3 are all on core 0.
    lines = ["mmap 0x40000000 16K rw anon populate"]
    pages = {0: BASE, 1: BASE + 4096, 3: BASE + 4096}
    lines += [f"p 1.{thread}\nf 0x400000\nr {page:#x}" for thread, page in pages.items()]
    counts = bench.run(machine, "\n".join(lines) + "\n")["counts"]
    assert (counts["tlb"]["l1d"]["misses"], counts["warps"]["joined"]) == (3, 1)


def test_a_trace_of_more_warps_than_fit_is_refused(bench: Bench) -> None:
    """With what is too many, and both ways out."""
    machine = bench.machine(CORES.format(lanes=8, merge="page"))
    with pytest.raises(UserError, match=r"6 warps on a core, and gpu.warps is 4: 2 of each core would") as refused:
        bench.run(machine, TURNS.format(warps=6, core=1))
    assert "warps=4 in the name" in str(refused.value)
    assert "--set gpu.warps=6" in str(refused.value)
    assert bench.run(machine, TURNS.format(warps=6, core=1), "linux-4k", "gpu.warps=6")["complete"]
    with pytest.raises(UserError, match=r"32 warps on a core, and gpu.warps is 4: 28 of"):
        bench.run(machine, "gen:gpu-nw?length=32")


def test_a_trace_of_more_cores_than_there_are_ends(bench: Bench) -> None:
    """Where one of them first acts; what came before counts."""
    machine = bench.machine(CORES.format(lanes=8, merge="page"))
    trace = TURNS.format(warps=2, core=5)
    result = bench.run(machine, trace, check="translations")
    assert (result["complete"], result["ended"]["reason"]) == (False, "no-place")
    says = result["ended"]["message"]
    assert "core 5 acts, and this machine has 3 cores: 3 x 2 = 6 warps, and the trace is of 6 x 2 = 12" in says
    assert "--set core.count=6" in says
    assert result["counts"]["warps"]["instructions"] == 2
    assert bench.run(machine, trace, "linux-4k", "core.count=6")["complete"]


def test_virtual_machines_have_no_shader_cores(bench: Bench) -> None:
    """Said rather than simulated wrongly."""
    machine: Any = bench.machine(CORES.format(lanes=8, merge="page"))
    with pytest.raises(UserError, match="leave out"):
        bench.run(machine, f"r {BASE:#x}\n", "linux-4k", "virtual.memory.size=32M")
