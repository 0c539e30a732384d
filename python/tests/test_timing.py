"""A core in time, against a naive model of its rules and against times worked out by hand."""

from pathlib import Path
from random import Random
from typing import Any

import narration
import pytest
from bench import Bench
from conftest import Cli
from reference.timing import BLOCK, Caches, Core, Inst, number

from mmulab import engine
from mmulab.units import toml_value

Json = dict[str, Any]
CODE, DATA, PAGES = 0x400000, 0x10000000, 64

LATENCIES = {
    "int": 1, "mul": 3, "div": 12, "vector": 2, "fp_add": 3, "fp_mul": 4, "fp_div": 13, "convert": 5,
    "atomic": 6, "serial": 20,
}  # fmt: skip

MACHINE = """
name = "timed"
isa = "x86-64"
[core]
frequency_mhz = 1000
[core.timing]
width = {width}
retire_width = {retire_width}
window = {window}
loads = {loads}
stores = {stores}
int_registers = {int_registers}
vector_registers = {vector_registers}
fetch_ahead = {fetch_ahead}
fetch_blocks = {fetch_blocks}
mispredict_cycles = 10
forward_cycles = {forward_cycles}
bump_cycles = {bump_cycles}
predictor = "perfect"
moves_share_registers = {moves_share_registers}
{targets}
{fusion}
[core.timing.units]
int = {int}
mul = 1
vector = {vector}
load = {load}
store = {store}
[core.timing.latencies]
{latencies}
[core.timing.memory]
fill_buffers = {fill_buffers}
bytes_per_cycle = 65536
streams = 0
stream_distance = {stream_distance}
strides = {strides}
stride_distance = {stride_distance}
regions = {regions}
region_reach = {region_reach}
[memory]
size = "1G"
[[tlb]]
name = "ITLB"
level = 1
side = "instruction"
entries = {itlb}
ways = "full"
sizes = ["4K"]
[[tlb]]
name = "DTLB"
level = 1
side = "data"
entries = {dtlb}
ways = "full"
sizes = ["4K"]
[walker]
count = {walkers}
overhead_cycles = {overhead_cycles}
read_cycles = {read_cycles}
turnaround_cycles = {turnaround_cycles}
[[cache]]
name = "L1"
size = "{lines}"
ways = {ways}
cycles = 4
{second}
[cache_rules]
memory_cycles = {memory}
memory_spread = {spread}
"""

# A core on which nothing is short, with 4 cycles to the cache and 100 to memory.
ROOMY = {
    "width": 4, "retire_width": 4, "window": 64, "loads": 32, "stores": 32, "int_registers": 64, "vector_registers": 64,
    "fetch_ahead": 16, "fetch_blocks": 1, "forward_cycles": 5, "bump_cycles": 0, "int": 4, "vector": 2, "load": 2,
    "store": 1, "stream_distance": 0, "strides": 0, "stride_distance": 0, "regions": 0, "region_reach": 0,
    "overhead_cycles": 0, "read_cycles": 0, "turnaround_cycles": 0, "fill_buffers": 8, "itlb": 16, "dtlb": 16,
    "walkers": 2, "lines": 64 * 64, "ways": 64, "memory": 100,
    # Quantiles of the latency of memory, and lines and cycles of a second cache level.
    "spread": [], "second": None,
    # Branch target buffers, and cycles of decoding; None for all targets known.
    "branch_targets": None,
    "moves_share_registers": False, "fusion": None,
}  # fmt: skip


def table(shape: Json) -> Json:
    """What the model needs to know of a machine of this shape."""
    units = {name: shape.get(name, 1) for name in ("int", "mul", "vector", "load", "store")}
    keys = ("fill_buffers", "stream_distance", "strides", "stride_distance", "regions", "region_reach")
    memory = {key: shape[key] for key in keys}
    return {**shape, "units": units, "latencies": LATENCIES, "memory": memory, "mispredict_cycles": 10}


def program(blocks: list[tuple[list[Inst], list[int]]]) -> str:
    """A text trace of blocks, each with the addresses of its accesses, on memory that is there beforehand."""
    lines = [f"mmap {CODE:#x} 64K rwx anon populate", f"mmap {DATA:#x} {PAGES * 4}K rw anon populate"]
    places: dict[int, int] = {}
    for insts, addresses in blocks:
        at = iter(addresses)
        # A block that comes again is the same code.
        number = places.setdefault(id(insts), len(places))
        lines.append(f"code bytes={BLOCK} " + " ; ".join(inst.text() for inst in insts))
        lines.append(f"f {CODE + number % 256 * BLOCK:#x} x{len(insts)}")
        for store, _ in (op for inst in insts for op in inst.ops):
            lines.append(f"{'w' if store else 'r'} {next(at):#x}")
    return "\n".join(lines) + "\n"


def machine_text(shape: Json) -> str:
    """A machine file of this shape."""
    latencies = "\n".join(f"{name} = {cycles}" for name, cycles in LATENCIES.items())
    second = ""
    if shape["second"]:
        lines, cycles = shape["second"]
        second = f'[[cache]]\nname = "L2"\nsize = "{64 * lines}"\nways = {lines}\ncycles = {cycles}'
    targets = f"branch_targets = {toml_value(shape['branch_targets'])}" if shape["branch_targets"] else ""
    fusion = f"fusion = {toml_value(shape['fusion'])}" if shape["fusion"] else ""
    moves = toml_value(shape["moves_share_registers"])
    of = {"latencies": latencies, "second": second, "targets": targets, "fusion": fusion}
    return MACHINE.format(**{**shape, **of, "moves_share_registers": moves})


def populated(told: list[Json]) -> list[tuple[int, int]]:
    """The populated pages and their frames, in the order of the kernel's stores to them."""
    runs = [event for event in told[0]["events"] if event.get("event") == "populated"]
    return [
        (number(run["va"]) + page * 4096, number(run["pfn"]) + page) for run in runs for page in range(run["pages"])
    ]


def both(tmp_path: Path, shape: Json, blocks: list[tuple[list[Inst], list[int]]]) -> tuple[Json, Core]:
    """The engine's result, and the model."""
    machine, trace = tmp_path / "machine.toml", tmp_path / "trace.mmtx"
    machine.write_text(machine_text(shape), encoding="utf-8")
    trace.write_text(program(blocks), encoding="utf-8")
    job = engine.Job(str(machine), "linux-4k")
    told, _ = narration.narrate(str(trace), job, engine.Options())
    seen = iter([line for line in told if "va" in line])
    caches = Caches(shape["lines"] // 64, 4, shape["memory"], shape["second"], shape["spread"])
    for mapping in (CODE, DATA):
        caches.populate([frame for va, frame in populated(told) if va & -(1 << 28) == mapping & -(1 << 28)])
    core = Core(table(shape), caches, shape["walkers"])
    for insts, _ in blocks:
        count = 1 + sum(len(inst.ops) for inst in insts)
        core.block(insts, [next(seen) for _ in range(count)])
    return engine.run(str(trace), [job], engine.Options(timing=True)).results[0].data, core


def random_program(random: Random) -> list[tuple[list[Inst], list[int]]]:
    """Blocks of random instructions: chains, stores that are loaded again, walks, and units that are short."""
    regs = ["i0", "i1", "i2", "i3", "v0", "v1", "flags"]
    some = lambda most: random.sample(regs, random.randint(0, most))  # noqa: E731
    blocks = []
    for _ in range(random.randint(5, 25)):
        insts, addresses = [], []
        for _ in range(random.randint(1, 6)):
            kinds = ["move"] * 6 + ["int"] * 4 + ["mul", "div", "fp-add", "fp-mul", "fp-div", "vector", "convert"]
            inst = Inst(random.choice([*kinds, "atomic", "serial"]), some(2), some(2), some(1))
            for _ in range(random.choice([0, 0, 1, 1, 2]) if inst.cls in ("move", "int", "atomic") else 0):
                size = random.choice([1, 4, 8, 16])
                inst.ops.append((random.random() < 0.4, size))
                page = random.choice([0, 1, random.randrange(PAGES)])
                addresses.append(DATA + page * 4096 + random.randrange(16) * 16)
            if inst.ops and random.random() < 0.2:
                inst.bumped = [reg for reg in inst.address if reg not in inst.results]
            insts.append(inst)
        if random.random() < 0.5:
            insts.append(Inst(random.choice(["jump", "conditional"]), some(1)))
        elif random.random() < 0.5:
            insts += [Inst("int", some(1), ["flags", *random.choice([[], ["i1"]])]), Inst("conditional", ["flags"])]
            if random.random() < 0.3:
                insts[-2].ops.append((random.random() < 0.2, 8))
                addresses.append(DATA + random.randrange(2) * 4096)
            elif random.random() < 0.2:
                # The branch does something else, too.
                insts[-1].results = ["i0"]
                insts[-1].ops.append((False, 8))
                addresses.append(DATA)
        blocks.append((insts, addresses))
    # Some come again, and their branches are known or not.
    return blocks + [random.choice(blocks) for _ in range(random.choice([0, 10]))]


def random_loop(random: Random) -> list[tuple[list[Inst], list[int]]]:
    """A block that comes again and again, whose loads make equal steps for a while, between random blocks."""
    regs = ["i0", "i1", "i2", "i3"]
    insts = [
        Inst("move", [], [random.choice(regs)], [random.choice(regs)], ops=[(random.random() < 0.2, 8)])
        for _ in range(random.randint(1, 3))
    ]
    # No store of these is loaded by the next block, or the line of a load would be another one's.
    at = [DATA + random.randrange(PAGES * 4096 // 64) * 64 for _ in insts]
    steps = [random.choice([-65, -1, 0, 1, 1, 3, 65, 65]) * 64 for _ in insts]
    blocks = []
    for _ in range(random.randint(3, 20)):
        blocks.append((insts, [DATA + (one - DATA) % (PAGES * 4096) for one in at]))
        if random.random() < 0.1:
            steps[random.randrange(len(steps))] = random.choice([1, 65, 7]) * 64
        at = [one + step for one, step in zip(at, steps, strict=True)]
    return random_program(random)[:3] + blocks + random_program(random)[:3]


def random_pairs(random: Random) -> list[tuple[list[Inst], list[int]]]:
    """A block that comes again and again: a load of any line, and loads of lines near it."""
    near = [random.randint(-4, 9) for _ in range(random.randint(1, 3))]
    insts = [Inst("move", results=["i0"], address=["i0"], ops=[(False, 8)]) for _ in range(1 + len(near))]
    blocks = []
    for _ in range(random.randint(20, 60)):
        first = random.randrange(4, PAGES * 64 - 9)
        blocks.append((insts, [DATA + line * 64 for line in (first, *(first + one for one in near))]))
        if random.random() < 0.1:
            near[0] = random.randint(-4, 9)
    return random_program(random)[:3] + blocks


def random_shape(random: Random) -> Json:
    """A core on which some things are short."""
    few = {key: random.randint(1, 4) for key in ("int", "vector", "load", "store", "width", "retire_width", "walkers")}
    queues = ("window", "loads", "stores", "int_registers", "vector_registers", "fetch_ahead", "fill_buffers")
    # Widths need not be whole.
    few.update({key: random.choice([0.25, 0.5, 1.5, 2.3]) for key in few if key != "walkers" and random.random() < 0.2})
    buffer = {"entries": random.choice([1, 2, 8]), "ways": 1, "bubbles": random.randint(0, 3)}
    targets = {"buffers": [buffer, {"entries": 8, "ways": random.choice([2, 8]), "bubbles": 3}], "decode_cycles": 9}
    lines = random.choice([4, 16, 64])
    fusion = {"arithmetic": random.random() < 0.5, "memory": random.random() < 0.5}
    return {
        **ROOMY, **few, "branch_targets": random.choice([None, targets]), "fusion": random.choice([None, fusion]),
        "moves_share_registers": random.random() < 0.5, "fetch_blocks": random.choice([1, 2, 3]),
        **{key: random.choice([1, 2, 4, 16, 64]) for key in queues},
        "forward_cycles": random.randint(0, 7), "bump_cycles": random.randint(0, 2), "itlb": random.choice([1, 4]),
        "stream_distance": random.choice([0, 1, 4, 64]), "strides": random.choice([0, 1, 3, 64]),
        "stride_distance": random.choice([0, 1, 2, 5]), "overhead_cycles": random.choice([0, 0, 13]),
        "regions": random.choice([0, 1, 3, 64]), "region_reach": random.choice([0, 1, 3, 8]),
        "second": random.choice([None, (32, 9), (256, 9)]), "read_cycles": random.choice([0, 0, 2]),
        "turnaround_cycles": random.choice([0, 0, 31]),
        "dtlb": random.choice([1, 2, 8]), "lines": lines * 64, "ways": lines, "memory": random.choice([20, 100]),
        "spread": random.choice([[], [[0.0, 1.0], [0.5, 1.0], [0.9, 1.5], [1.0, 9.0]]]),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(200))
def test_the_core_does_what_a_naive_model_of_its_rules_does(tmp_path: Path, seed: int) -> None:
    """The cycle in which the last instruction retires, and the sum of what they went to."""
    random = Random(seed)
    made = [random_loop, random_program, random_pairs, random_program][seed % 4]
    result, core = both(tmp_path, random_shape(random), made(random))
    assert result["timing"]["cycles"] == core.now()
    assert result["model"]["method"] == "core-in-time"
    stack = result["timing"]["stack"]
    assert sum(sum(part) if isinstance(part, list) else part for part in stack.values()) == core.now()


JUMP, BRANCH = Inst("jump"), Inst("conditional")


def test_a_jump_that_no_buffer_has_is_decoded_before_its_target_is_fetched(tmp_path: Path) -> None:
    """Two blocks jump to each other. With one entry each displaces the other, with two none."""
    first: tuple[list[Inst], list[int]] = ([JUMP], [])
    second: tuple[list[Inst], list[int]] = ([JUMP], [])
    blocks = [first, second] * 20

    def told(entries: int, bubbles: int = 0) -> Json:
        buffer = {"entries": entries, "ways": entries, "bubbles": bubbles}
        shape = {**ROOMY, "branch_targets": {"buffers": [buffer], "decode_cycles": 9}}
        timing: Json = both(tmp_path, shape, blocks)[0]["timing"]
        return timing

    known, unknown = told(2), told(1)
    assert (known.get("unknown_targets"), unknown["unknown_targets"]) == (2, 39)
    # One fetch in a cycle, or one each 9 cycles after the code of the last, which is there when it is fetched.
    assert unknown["cycles"] - known["cycles"] == 37 * (9 - 1)
    assert told(2, bubbles=3)["cycles"] - known["cycles"] == 37 * 3


def test_a_conditional_branch_that_no_buffer_has_is_mispredicted_where_it_is_taken(tmp_path: Path) -> None:
    """The block behind it is what the front end takes to come next."""
    taken: list[tuple[list[Inst], list[int]]] = [([BRANCH], []), ([BRANCH], [])] * 2
    targets = {"buffers": [{"entries": 8, "ways": 8, "bubbles": 0}], "decode_cycles": 9}
    timing = both(tmp_path, {**ROOMY, "branch_targets": targets}, taken)[0]["timing"]
    # From the first block to the second is no jump; back to the first is one, which is known the second time.
    assert (timing["mispredicted"], timing.get("unknown_targets", 0)) == (1, 0)


COMPARE, ADD = Inst("int", ["i3"], ["flags"]), Inst("int", ["i3"], ["flags", "i3"])
IF = Inst("conditional", ["flags"])
LOAD = Inst("move", results=["i1"], ops=[(False, 8)])
CHASE = Inst("move", results=["i0"], address=["i0"], ops=[(False, 8)])


def cycles(tmp_path: Path, insts: list[Inst], addresses: list[int], **shape: Any) -> int:
    """How long a block takes whose code and whose first page were used before."""
    warm: tuple[list[Inst], list[int]] = ([Inst("serial")], [])
    ran, _ = both(tmp_path, {**ROOMY, **shape}, [warm, (insts, addresses)])
    alone, _ = both(tmp_path, {**ROOMY, **shape}, [warm, ([Inst("move")] * len(insts), [])])
    return int(ran["timing"]["cycles"] - alone["timing"]["cycles"])


# The walk for the code has read the upper two levels of all walks here; the third and the last come from memory. Pages
# 8 entries apart have their last entries in different lines: later walks read three lines from the cache, one from
# memory.
FIRST, LATER, MISS = 4 + 4 + 100 + 100, 3 * 4 + 100, 100
FAR = [DATA + page * 8 * 4096 + page * 64 for page in range(4)]


def test_two_independent_walks_overlap_and_two_dependent_ones_do_not(tmp_path: Path) -> None:
    """Of two independent loads the second is done before the first; a chase takes the sum."""
    one = cycles(tmp_path, [LOAD], FAR[:1])
    assert one == FIRST + MISS
    assert cycles(tmp_path, [LOAD, LOAD], FAR[:2]) == one
    assert cycles(tmp_path, [CHASE, CHASE], FAR[:2]) == one + LATER + MISS


def test_a_third_walk_waits_for_a_walker(tmp_path: Path) -> None:
    """Walks wait for each other where walkers are short; their data misses still overlap."""
    assert cycles(tmp_path, [LOAD, LOAD], FAR[:2], walkers=1) == FIRST + LATER + MISS
    # The second walker has done with the second walk after LATER cycles, and takes the third.
    assert cycles(tmp_path, [LOAD] * 3, FAR[:3], walkers=2) == max(FIRST, 2 * LATER) + MISS
    assert cycles(tmp_path, [LOAD] * 3, FAR[:3], walkers=1) == FIRST + 2 * LATER + MISS
    # A walker that turns around for 7 cycles keeps the next walk waiting as long, and the last one keeps nobody.
    assert cycles(tmp_path, [LOAD] * 3, FAR[:3], walkers=1, turnaround_cycles=7) == FIRST + 7 + LATER + 7 + LATER + MISS


def test_a_store_does_not_stall_until_its_queue_is_full(tmp_path: Path) -> None:
    """A store retires when its translation is known; its line may come later. The next one waits for a place."""
    store = Inst("move", sources=["i1"], ops=[(True, 8)])
    lines = [FAR[0] + 64 * n for n in range(3)]
    assert cycles(tmp_path, [store], lines[:1]) == FIRST
    assert cycles(tmp_path, [store] * 3, lines) == FIRST
    # One entry: each store is dispatched when the line of the one before it is there, and its own line takes a miss.
    assert cycles(tmp_path, [store] * 3, lines, stores=1) >= FIRST + 2 * MISS


def test_a_branch_that_is_fused_takes_no_place(tmp_path: Path) -> None:
    """A second load is in flight beside the first if a compare and a branch between them leave it a place."""
    both_kinds = {"arithmetic": True, "memory": True}
    two: tuple[list[Inst], list[int]] = ([LOAD, ADD, IF], FAR[:1]), ([LOAD], FAR[1:2])

    def took(window: int, fusion: Json | None) -> int:
        shape = {**ROOMY, "window": window, "fusion": fusion}
        return int(both(tmp_path, shape, [([Inst("serial")], []), *two])[0]["timing"]["cycles"])

    assert took(4, None) == took(3, both_kinds) < took(3, None)
    assert took(3, {"arithmetic": False, "memory": True}) == took(3, None)


def test_only_what_the_rule_names_is_fused(tmp_path: Path) -> None:
    """A branch that is not fused needs a unit, and there is one."""
    reads = Inst("int", ["i3"], ["flags"], ops=[(False, 8)])
    carries = Inst("int", ["i3", "flags"], ["flags"])

    def pairs(first: Inst, arithmetic: bool, memory: bool) -> int:
        shape = {**ROOMY, "int": 1, "load": 4, "fusion": {"arithmetic": arithmetic, "memory": memory}}
        block: tuple[list[Inst], list[int]] = ([first, IF], [FAR[0]] * len(first.ops))
        warm: tuple[list[Inst], list[int]] = ([LOAD, Inst("serial")], [FAR[0]])
        return int(both(tmp_path, shape, [warm, *[block] * 4, warm])[0]["timing"]["cycles"])

    fast = pairs(COMPARE, arithmetic=False, memory=False)
    assert pairs(COMPARE, arithmetic=True, memory=True) == fast
    assert pairs(ADD, arithmetic=True, memory=False) == fast < pairs(ADD, arithmetic=False, memory=True)
    assert pairs(reads, arithmetic=False, memory=True) < pairs(reads, arithmetic=True, memory=False)
    assert pairs(carries, arithmetic=True, memory=True) > fast


def test_a_move_that_shares_a_register_takes_none(tmp_path: Path) -> None:
    """With one register, moves retire one by one, or do not wait for each other."""
    move, load = Inst("move", ["i0"], ["i1"]), Inst("move", results=["i2"], ops=[(False, 8)])

    def took(insts: list[Inst], shares: bool) -> int:
        shape = {**ROOMY, "int_registers": 1, "moves_share_registers": shares}
        addresses = [FAR[0]] * sum(len(inst.ops) for inst in insts)
        return int(both(tmp_path, shape, [([Inst("serial")], []), (insts, addresses)])[0]["timing"]["cycles"])

    assert took([move] * 8, True) < took([move] * 8, False)
    # A load writes a register of its own either way.
    assert took([load] * 4, True) == took([load] * 4, False)


def test_a_small_window_lets_walks_overlap_no_more(tmp_path: Path) -> None:
    """With one entry in the reorder buffer, each load retires before the next is dispatched."""
    wide = cycles(tmp_path, [LOAD, LOAD], FAR[:2])
    narrow = cycles(tmp_path, [LOAD, LOAD], FAR[:2], window=1)
    assert narrow >= wide + LATER + MISS


def test_a_fetch_that_misses_drains_the_window(tmp_path: Path) -> None:
    """What a walk of a fetch takes is not hidden: the instructions before it retire 2 cycles after their dispatch."""
    blocks: list[tuple[list[Inst], list[int]]] = [([Inst("int")] * 4, []) for _ in range(3)]
    same, _ = both(tmp_path, {**ROOMY, "fetch_ahead": 1}, blocks)
    machine, trace = tmp_path / "machine.toml", tmp_path / "other.mmtx"
    text = program(blocks).replace(f"f {CODE + 512:#x}", f"f {CODE + 8 * 4096:#x}")
    trace.write_text(text, encoding="utf-8")
    other = engine.run(str(trace), [engine.Job(str(machine), "linux-4k")], engine.Options(timing=True)).results[0].data
    walks = [result["timing"]["stack"]["fetch_walk"] for result in (same, other)]
    assert walks[1] - walks[0] == LATER - 2


def test_a_window_of_independent_loads_waits_for_the_slowest(tmp_path: Path) -> None:
    """Of the same mean latency, loads that scatter take longer at once. A chase of them takes as long as their sum."""
    # Lines of a page that are on their way together take as long, so each is of another page than the seven before.
    addresses = [DATA + line % 8 * 4096 + line // 8 * 64 for line in range(512)]
    few: Json = {"window": 8, "lines": 64, "ways": 1, "loads": 8}

    def per_load(load: Inst, **shape: Any) -> float:
        return cycles(tmp_path, [load] * len(addresses), addresses, **few, **shape) / len(addresses)

    # One in ten takes 550 cycles, the others 50: the mean is 100.
    scattered = [[0.0, 1.0], [0.9, 1.0], [0.9001, 11.0], [1.0, 11.0]]
    alone, chased = per_load(LOAD), per_load(CHASE)
    # Each of the eight pages takes a walk, too.
    assert 100 / 8 <= alone < 2 * 100 / 8
    # A window of eight has a slow load in 57 of 100 cases, and waits for it: 550 cycles in place of 100.
    assert 2 * alone < per_load(LOAD, spread=scattered) < 5 * alone
    assert per_load(CHASE, spread=scattered) == pytest.approx(chased, rel=0.2)


@pytest.mark.parametrize("guest", ["", '[virtual]\nmemory = { size = "256M" }\n'])
def test_lines_of_a_page_that_a_fault_zeroed_are_near(tmp_path: Path, guest: str) -> None:
    """A load of another line of a new page finds it in the second level.

    The same holds for the last pages of populated memory. They have displaced the lines of its first pages.
    """
    store = Inst("move", sources=["i1"], ops=[(True, 8)])
    machine = tmp_path / "machine.toml"
    machine.write_text(machine_text({**ROOMY, "second": (256, 9)}) + guest, encoding="utf-8")
    for populate, page, misses in ((" populate", 0, 1), (" populate", PAGES - 1, 0), ("", 0, 0)):
        at = DATA + page * 4096
        blocks = [([store], [at]), ([Inst("serial")], []), ([CHASE], [at + 40 * 64])]
        text = program(blocks).replace(f"{PAGES * 4}K rw anon populate", f"{PAGES * 4}K rw anon{populate}")
        (tmp_path / "trace.mmtx").write_text(text, encoding="utf-8")
        job = engine.Job(str(machine), "linux-4k")
        timing = engine.run(str(tmp_path / "trace.mmtx"), [job], engine.Options(timing=True)).results[0].data["timing"]
        # No instruction waits for the store's line.
        assert round(timing["stack"]["data"][3] / ROOMY["memory"]) == misses


def test_every_instruction_of_a_trace_without_code_runs(bench: Bench) -> None:
    """Blocks longer than a fetch word can say, and instructions of which nothing else is known."""
    trace = (
        f"mmap {CODE:#x} 64K rwx anon populate\nf {CODE:#x} x40\nr {CODE + 4096:#x}\nn 100\nf {CODE:#x} x31\nn 9000\n"
    )
    result = bench.run("zen3-5900x", trace, timing=True)
    assert result["counts"]["instructions"] == 40 + 100 + 31 + 9000
    assert result["timing"]["instructions"] == result["timing"]["unknown_instructions"] == 40 + 100 + 31 + 9000
    assert result["timing"]["cycles"] >= (100 + 9000) / 6


def test_code_is_decoded_as_the_trace_says(bench: Bench) -> None:
    """A no-operation of AArch64, whose first byte begins no instruction of x86-64, on an x86-64 machine."""
    block = f"mmap {CODE:#x} 64K rwx anon populate\ncode n=1 x=1f2003d5\nf {CODE:#x} x1\n"
    unknown = [
        bench.run("zen3-5900x", f"#: isa {isa}\n{block}", timing=True)["timing"]["unknown_instructions"]
        for isa in ("aarch64", "x86-64")
    ]
    assert unknown == [0, 1]


def test_prefetches_of_the_program_are_counted_for_no_trace_has_their_addresses(bench: Bench) -> None:
    """`prefetcht0 [rax]` of x86-64 and `prfm pldl1keep, [x0]` of AArch64, five times each; then a no-operation."""
    for isa, prefetch, other in (("x86-64", "0f1808", "0f1f00"), ("aarch64", "000080f9", "1f2003d5")):
        block = f"#: isa {isa}\nmmap {CODE:#x} 64K rwx anon populate\n" + f"code n=1 x={{0}}\nf {CODE:#x} x1\n" * 5
        counted, none = (
            bench.run("zen3-5900x", block.format(code), timing=True)["timing"] for code in (prefetch, other)
        )
        assert (counted["software_prefetches"], counted["unknown_instructions"]) == (5, 0)
        assert "software_prefetches" not in none


def test_machines_and_traces_without_what_timing_needs_are_refused(cli: Cli) -> None:
    """Each with what is missing and what to do."""
    ran = cli("run", "sandybridge", "--trace", "gen:gups?footprint=1M&updates=10", "--timing")
    assert (ran.code, "core.timing" in ran.err) == (2, True)
    ran = cli("run", "zen3-5900x", "--trace", "gen:gups?footprint=1M&updates=10", "--timing", "--check", "translations")
    assert (ran.code, "--check" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("buffers", "words"),
    [
        ("[]", "core.timing.branch_targets has no buffers: leave it out"),
        ("[{ entries = 100, ways = 8, bubbles = 0 }]", "buffers[0] has 100 entries in sets of 8: give entries"),
    ],
)
def test_target_buffers_that_cannot_be_are_refused(cli: Cli, buffers: str, words: str) -> None:
    """No buffer at all, and one with a part of a set."""
    change = f"core.timing.branch_targets={{ buffers = {buffers}, decode_cycles = 10 }}"
    ran = cli("run", "zen3-5900x", "--trace", "gen:gups?footprint=1M&updates=10", "--set", change)
    assert (ran.code, words in ran.err) == (2, True), ran.err


def test_generators_say_how_their_loads_depend_on_each_other() -> None:
    """A chase of 1 GB misses all caches: 65,536 loads of 320 cycles, one after the other. Random loads overlap."""
    jobs = [
        engine.Job("zen4-epyc9004", "linux-4k", (f"core.timing.unknown={unknown}",))
        for unknown in ("independent", "dependent")
    ]
    # Memory that nobody has written is one page of zeroes, which the first cache holds.
    options = engine.Options(timing=True, reshape=engine.POPULATED)
    chase, gups = (
        [r.data["timing"] for r in engine.run(f"gen:{name}", jobs, options).results]
        for name in ("pointer-chase?footprint=1G&references=65536", "gups?footprint=1G&updates=65536")
    )
    for both in (chase, gups):
        assert both[0] == both[1], "what the generator says counts, not what the machine assumes"
        assert both[0]["unknown_instructions"] == 0
    assert chase[0]["cycles"] > 300 * 65536
    assert gups[0]["cycles"] < 100 * 65536


def test_a_prefetch_that_faults_costs_what_the_load_alone_would(tmp_path: Path) -> None:
    """CHANGELOG number 26. One instruction loads from one new page after the other, and each load faults.

    Another one's walks keep the only walker busy, so that a walk which is asked for in the past begins now.
    """
    machine, pages, others = tmp_path / "machine.toml", 64, DATA + (1 << 24)
    shape = {**ROOMY, "strides": 4, "stride_distance": 8, "walkers": 1, "dtlb": 1}
    machine.write_text(machine_text(shape), encoding="utf-8")
    cycles = []
    for count in (pages // 2, pages):
        lines = [f"mmap {CODE:#x} 64K rwx anon populate", f"mmap {DATA:#x} {pages * 4}K rw anon"]
        lines.append(f"mmap {others:#x} 256K rw anon populate")
        for page in range(count):
            for code, address in ((CODE, DATA + page * 4096), (CODE + 256, others + page * page % 37 * 4096)):
                lines += [f"code {LOAD.text()}", f"f {code:#x} x1", f"r {address:#x}"]
        trace = tmp_path / f"{count}.mmtx"
        trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
        result = engine.run(str(trace), [engine.Job(str(machine), "linux-4k")], engine.Options(timing=True)).results[0]
        cycles.append(int(result.data["timing"]["cycles"]))
    # A fault waits for two walks and for a line, and not for all that the faults before it waited for.
    assert cycles[1] < 2.2 * cycles[0]
    assert cycles[1] < 2000 * pages


def test_a_neighbour_on_the_core_takes_entries_and_lines() -> None:
    """A chase over 40 pages fits TLBs and caches. Entries that another thread displaces are fetched anew."""

    def told(*sets: str) -> tuple[int, int, int]:
        """Cycles, first-level misses of data, and walks for data."""
        trace = "gen:pointer-chase?footprint=2664960&node=66624&references=400000&populate=true"
        job = engine.Job("zen4-epyc9004", "linux-4k", sets)
        found = engine.run(trace, [job], engine.Options(timing=True, skip=150_000)).results[0].data
        arrays = {array["name"]: array for array in found["counts"]["arrays"]}
        walks = found["counts"]["walks"]["data"]["walks"]
        return found["timing"]["cycles"], arrays["L1-DTLB"]["misses"], walks

    alone, *nothing = told()
    assert nothing == [0, 0]
    first = told("tlb.L1-DTLB.retention_cycles=20000")
    both = told("tlb.L1-DTLB.retention_cycles=20000", "tlb.L2-DTLB.retention_cycles=20000")
    lines = told("cache.L1D.retention_cycles=20000", "cache.L1D.retention_shape=0.5")
    # Each of 40 entries goes about once in 20,000 cycles, and is looked for again within 200.
    gone = first[0] / 20_000 * 40
    assert gone / 1.2 < first[1] < gone * 1.2
    assert first[2] == 0
    # When it goes from the first level, it has often gone from the second.
    assert gone / 10 < both[2] < both[1]
    assert alone < first[0] < both[0]
    assert lines[1:] == (0, 0)
    assert lines[0] > alone


def test_designs_whose_entries_are_no_pages_keep_them(cli: Cli) -> None:
    """Which entries a neighbour would displace there is not modelled."""
    chase = "gen:pointer-chase?footprint=4M&node=4160"
    ran = cli("run", "haswell-mix", "--trace", chase, "--set", "tlb.STLB.retention_cycles=20000")
    assert ran.code == 2
    assert "tlb.STLB: retention_cycles is modelled for designs plain and zen: leave it out" in ran.err


@pytest.mark.parametrize(
    "generator",
    [
        "btree?elements=100k&lookups=2k",
        "hashjoin?inner=65536&outer=10k&build=0",
        "bfs?scale=12",
        "svm?instances=500&features=500k",
        "canneal?elements=65536&temperatures=1&swaps=1000",
        "ycsb?records=20k&operations=2k",
        "xsbench?gridpoints=1000&particles=5",
    ],
)
def test_what_generators_say_of_their_loads_lies_between_the_bounds(generator: str, tmp_path: Path) -> None:
    # A copy does not say which loads wait for which.
    copy = tmp_path / "copy.mmt"
    engine.trace_copy(f"gen:{generator}", str(copy), "native")

    def cycles(trace: str, *sets: str) -> int:
        (found,) = engine.run(trace, [engine.Job("zen3-5900x", "linux-4k", sets)], engine.Options(timing=True)).results
        timing = found.data["timing"]
        assert (timing["unknown_instructions"] == 0) == trace.startswith("gen:")
        return int(timing["cycles"])

    said = cycles(f"gen:{generator}")
    independent, dependent = (
        cycles(str(copy), f"core.timing.unknown={bound}") for bound in ("independent", "dependent")
    )
    # Accesses of an assumed kind take an integer unit, those of a stated one do not.
    assert 0.8 * independent < said < 1.05 * dependent
    if generator.startswith(("btree", "canneal")):
        # Levels of a lookup, and a net's element, location and coordinates, wait for each other.
        assert said > 1.05 * independent
    if generator.startswith(("hashjoin", "svm", "bfs", "canneal")):
        # Tuples, features, edges and nets do not.
        assert said < 0.6 * dependent
