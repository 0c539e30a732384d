"""`explain` tells what `run` counts: every counter of a result, added up from the narration."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import narration
import pytest
from narration import Line
from reference import generate

from mmulab import UserError, engine

MACHINES = [m["name"] for m in engine.machines()]
POLICIES = [p["name"] for p in engine.policies()]
GENERATORS = [
    "gen:gups?footprint=64M&updates=300",
    "gen:sequential?footprint=8M&references=600",
    "gen:stride?footprint=64M&stride=8K&references=600",
    "gen:zipf?footprint=64M&references=600",
    "gen:pointer-chase?footprint=16M&references=600",
]
# Designs whose narration does not show which entry hits. An entry may have several pages, each of which is shown. A
# page may lie in several sets, or be found in another entry than its last.
MANY_COPIES = {"mix", "colt-sa", "colt++"}
COMPILER = Path(__file__).parents[2] / "tests" / "data" / "cc1-small.mmt"
# Machines whose page tables have pages of sixteen entries: the others refuse policies that set the contiguous bit.
HAVE_CONTIGUOUS = {
    "ampereone-a192",
    "neoverse-n1",
    "neoverse-v1-graviton3",
    "neoverse-v2-grace",
    "neoverse-v2-graviton4",
    "tps-haswell",
}
# Machines whose base pages are larger than 4K refuse policies that are written for pages of 4K. These run there.
ON_LARGER_BASE_PAGES = {
    "neoverse-n1-16k": {
        "eager-64k",
        "hugetlb-1g",
        "hugetlb-2m",
        "linux-4k",
        "linux-kswapd",
        "linux-thp",
        "linux-thp-madvise",
    },
    "neoverse-n1-64k": {"hugetlb-2m", "linux-4k", "linux-kswapd", "linux-thp", "linux-thp-madvise"},
}
NO_LARGER = "works with base pages of 4K only|not larger than the machine's base page|table has no huge page of"
# Pools as large as the shipped policies' would take the host's time to boot; 1 GiB is enough for these.
SMALL_POOL = {"hugetlb-2m": ("policy.hugetlb.pool=256M",), "hugetlb-1g": ("policy.hugetlb.pool=1G",)}


def agree(trace: str, job: engine.Job, options: engine.Options) -> tuple[list[Line], dict[str, Any]]:
    """Runs and explains, and compares every counter."""
    result = engine.run(trace, [job], options).results[0].data
    lines, explained = narration.narrate(trace, job, options)
    assert explained["counts"] == result["counts"]
    assert explained["model"] == result["model"]
    added = narration.add_up(lines, result["machine"])
    # The reference that memory ran out for has no address either.
    added["segfaults"] = added.get("segfaults", 0) - (result["ended"]["reason"] == "out-of-memory")
    counted = narration.counters(result)
    several = {array["name"] for array in result["machine"]["tlb"] if array.get("design") in MANY_COPIES}
    for key in [f"arrays.{name}.{what}" for name in several for what in ("fills", "evictions", "invalidations")]:
        pages, entries = added.pop(key, 0), counted.pop(key, 0)
        assert pages >= entries
    if result["machine"].get("virtual") and result["machine"]["table"]["kind"] in ("elastic-cuckoo", "hashed"):
        # Reads of hashed tables go on beside each other, of two dimensions within each other: times do not add up.
        for side in ("instruction", "data"):
            del added[f"walks.{side}.cycles"], counted[f"walks.{side}.cycles"]
    assert {key: value for key, value in added.items() if value} == counted
    numbers = [line["i"] for line in lines if line["i"] is not None]
    assert numbers == list(range(result["counts"]["references"]))
    return lines, result


def array_hits(lines: list[Line], machine: dict[str, Any]) -> Counter[str]:
    """Hits by array and size, from what each array must hold after all that was filled and dropped. One core, one
    address space."""
    held: dict[str, set[tuple[int, int]]] = {a["name"]: set() for a in machine["tlb"]}
    hits: Counter[str] = Counter()

    def drop(line: Line, what: tuple[str, ...]) -> None:
        for event in line["events"]:
            if event.get("tlb") in what:
                held[event["array"]].discard((event["va"], event["bytes"]))

    def fill(line: Line) -> None:
        for filled in line["filled"]:
            held[filled["array"]].add((filled["va"], filled["bytes"]))

    for line in lines:
        if line["i"] is None:
            continue
        if machine.get("gpu"):
            # Before a warp's lookup comes what walks have brought meanwhile; what a fault drops, after it.
            drop(line, ("evicted",))
            fill(line)
        side = "instruction" if line["kind"] == "fetch" else "data"
        for level in (1, 2):
            if line[f"l{level}"] != "hit":
                continue
            for array in machine["tlb"]:
                if array["level"] != level or array["side"] not in (side, "both"):
                    continue
                sizes = sorted(size for va, size in held[array["name"]] if va <= line["va"] < va + size)
                if sizes:
                    hits[f"{array['name']}.{sizes[0]}"] += 1
                    break
        drop(line, ("invalidated",) if machine.get("gpu") else ("evicted", "invalidated"))
        if not machine.get("gpu"):
            fill(line)
    return hits


def copied(result: dict[str, Any]) -> bool:
    """Whether an array may hold a page several times."""
    return any(array.get("design") in MANY_COPIES for array in result["machine"]["tlb"])


def by_array(hits: dict[str, int]) -> Counter[str]:
    """Hits of all sizes together."""
    sums: Counter[str] = Counter()
    for name, count in hits.items():
        sums[name.rsplit(".", 1)[0]] += count
    return sums


def sets_the_bit(policy: str) -> bool:
    """Whether the policy needs page tables that have a contiguous bit."""
    on_armv8 = engine.resolve(engine.Job("neoverse-n1", policy, SMALL_POOL.get(policy, ())))["policy"]
    return (on_armv8.get("contiguous") or {}).get("bit", "none") != "none"


def _pairs() -> Iterator[Any]:
    """Every shipped machine with every shipped policy. The suite runs one of ten: some of each machine and policy."""
    for (m, machine), (p, policy) in product(enumerate(MACHINES), enumerate(POLICIES)):
        marks = () if (m + p) % 10 == 0 else (pytest.mark.long,)
        yield pytest.param(machine, policy, marks=marks, id=f"{machine}-{policy}")


@pytest.mark.parametrize(("machine", "policy"), list(_pairs()))
def test_on_every_shipped_machine_and_policy(machine: str, policy: str) -> None:
    job = engine.Job(machine, policy, SMALL_POOL.get(policy, ()))
    if policy not in ON_LARGER_BASE_PAGES.get(machine, {policy}):
        with pytest.raises(UserError, match=NO_LARGER):
            engine.resolve(job)
        return
    if machine not in HAVE_CONTIGUOUS and sets_the_bit(policy):
        with pytest.raises(UserError, match=r"contiguous\.bit"):
            engine.resolve(job)
        return
    for trace in GENERATORS:
        lines, result = agree(trace, job, engine.Options())
        if copied(result):
            continue
        units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
        counted = {
            f"{array['name']}.{int(size[:-1]) * units[size[-1]]}": hits
            for array in result["counts"]["arrays"]
            for size, hits in array["hits_by_size"].items()
            if hits
        }
        told = array_hits(lines, result["machine"])
        if any(f".{size}" in name for name in counted for size in (16 << 10, 32 << 10)):
            # A page may lie in a coalesced entry and in one of its own from before: which one is found is not told.
            assert by_array(told) == by_array(counted)
        else:
            assert dict(told) == counted


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(name, marks=() if m % 3 == 0 else (pytest.mark.long,))
        for m, name in enumerate(MACHINES)
        # The program saw pages of 4K.
        if name not in ON_LARGER_BASE_PAGES
    ],
)
def test_on_a_real_program(machine: str) -> None:
    lines, result = agree(str(COMPILER), engine.Job(machine, "linux-thp"), engine.Options(max_instructions=60_000))
    assert result["counts"]["instructions"] >= 60_000
    assert copied(result) or sum(array_hits(lines, result["machine"]).values()) == sum(
        a["hits"] for a in result["counts"]["arrays"]
    )


@pytest.mark.parametrize("block", range(0, 120, 20))
def test_on_random_programs_and_machines(block: int, tmp_path: Path) -> None:
    for seed in range(block, block + 20):
        random = Random(f"agree {seed}")
        machine, policy = generate.machine(random), generate.policy(random)
        text = generate.Program(random, policy).text(250)
        for name, content in (("machine.toml", machine), ("policy.toml", policy), ("trace.mmtx", text)):
            tmp_path.joinpath(name).write_text(content, encoding="utf-8")
        job = engine.Job(str(tmp_path / "machine.toml"), str(tmp_path / "policy.toml"))
        agree(str(tmp_path / "trace.mmtx"), job, engine.Options(unmapped="fault"))
