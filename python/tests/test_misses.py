"""A run's misses as a trace: walked again without TLBs, they give the walk counts of the run."""

from pathlib import Path
from typing import Any

import pytest
from bench import Bench

from mmulab import UserError, engine

GUPS = "gen:gups?footprint=64M&updates=20000"
PROGRAM = """
mmap 0x40000000 8M rw anon
mmap 0x50000000 4M rw anon populate
n 100
w 0x40000000
r 0x40000008
r 0x50001000
w 0x50001000
mprotect 0x40000000 4K r
w 0x40000000
r 0x40000000
fork 2
p 2.2
w 0x50001000
munmap 0x50000000 2M
r 0x50300000
f 0x50300000 x9
r 0x60000000
"""


def walks(trace: str, *sets: str, machine: str = "skylake-e3-1240v5", policy: str = "linux-4k") -> dict[str, Any]:
    """What walking a trace counts."""
    counts: dict[str, Any] = engine.run(trace, [engine.Job(machine, policy, sets)]).results[0].data["counts"]
    return counts


@pytest.mark.parametrize("suffix", ["mmt", "mmtx"])
@pytest.mark.parametrize("program", ["gups", "text"])
@pytest.mark.parametrize("sets", [(), ("virtual.memory.size=1G",)])
def test_misses_walked_again_count_what_the_run_counted(
    bench: Bench, tmp_path: Path, program: str, suffix: str, sets: tuple[str, ...]
) -> None:
    trace = GUPS if program == "gups" else bench.write("program.mmtx", PROGRAM)
    target = str(tmp_path / f"misses.{suffix}")
    job = engine.Job("skylake-e3-1240v5", "linux-4k", sets)
    whole, written = engine.misses(trace, job, engine.Options(), target)
    whole.check()
    again = engine.run(target, [job]).results[0]
    again.check()
    assert written["references"] < whole.references
    assert again.references == written["references"]
    assert again.instructions == whole.instructions
    for side in ("instruction", "data"):
        assert again.walks(side) == whole.walks(side)
    assert again.walk_levels == whole.walk_levels
    assert again.host_walk_levels == whole.host_walk_levels
    assert again.counts["walks"]["replays"] == whole.counts["walks"]["replays"]
    assert again.data["machine"]["tlb"] == []
    assert again.data["trace"]["misses_of"] == "skylake-e3-1240v5 / linux-4k"
    assert any("TLBs: none; every reference is a walk" in warning for warning in again.warnings)


def test_misses_can_be_walked_under_other_tables(tmp_path: Path) -> None:
    target = str(tmp_path / "misses.mmt")
    sets = ("table.levels=5",)
    engine.misses(GUPS, engine.Job("skylake-e3-1240v5", "linux-4k"), engine.Options(), target)
    whole, again = walks(GUPS, *sets), walks(target, *sets)
    assert whole["walks"]["data"] == again["walks"]["data"]
    assert whole["walks"]["levels"] == again["walks"]["levels"]


TABLES = {
    "hashed": (("table.kind=hashed", "walker.cache=[]"), ("table.kind=hashed", "virtual.cache=[]")),
    "elastic cuckoo": (
        ("table.kind=elastic-cuckoo", "walker.cache=[]"),
        ("virtual.table.kind=elastic-cuckoo", "walker.cache=[]"),
    ),
    "RISC-V": (("table.kind=riscv-sv",), ("table.kind=riscv-sv", "virtual.table.kind=armv8-4k")),
}


@pytest.mark.parametrize("table", TABLES)
def test_misses_can_be_walked_under_any_table_in_both_dimensions(tmp_path: Path, table: str) -> None:
    for machine, sets in zip(("compendia-baseline", "compendia-nested"), TABLES[table], strict=True):
        target = str(tmp_path / f"{machine}.mmt")
        engine.misses(GUPS, engine.Job(machine, "linux-4k"), engine.Options(), target)
        whole, again = (walks(trace, *sets, machine=machine) for trace in (GUPS, target))
        for key in ("instruction", "data", "levels", "replays"):
            assert whole["walks"][key] == again["walks"][key]
        if machine == "compendia-nested":
            assert whole["virtual"]["walks"] == again["virtual"]["walks"]


def test_a_table_that_merges_walks_again_for_what_it_flushed(tmp_path: Path) -> None:
    """docs/guide/traces.md: a merge flushes the TLBs, of which misses know nothing."""
    target = str(tmp_path / "misses.mmt")
    machine, trace = "compendia-baseline", "gen:gups?footprint=256M&updates=40000"
    engine.misses(trace, engine.Job(machine, "linux-4k"), engine.Options(), target)
    whole, again = (walks(t, "table.kind=compendia", machine=machine) for t in (trace, target))
    merges = whole["memory"]["tables"]["merges"]["2+1"]
    assert merges == again["memory"]["tables"]["merges"]["2+1"] == 1
    assert 0 <= whole["walks"]["data"]["walks"] - again["walks"]["data"]["walks"] <= merges * 64


def test_shader_cores_have_no_misses_to_be_walked_again(tmp_path: Path) -> None:
    target = str(tmp_path / "misses.mmt")
    job = engine.Job("gpu-mix-baseline", "linux-4k")
    with pytest.raises(UserError, match=r"take a machine without \[gpu\]"):
        engine.misses(GUPS, job, engine.Options(), target)
    engine.misses(GUPS, engine.Job("skylake-e3-1240v5", "linux-4k"), engine.Options(), target)
    with pytest.raises(UserError, match="one walk serves several"):
        engine.run(target, [job])


def test_misses_of_misses_are_refused(tmp_path: Path) -> None:
    target = str(tmp_path / "misses.mmt")
    job = engine.Job("skylake-e3-1240v5", "linux-4k")
    engine.misses(GUPS, job, engine.Options(), target)
    with pytest.raises(UserError, match="holds misses only"):
        engine.misses(target, job, engine.Options(), str(tmp_path / "again.mmt"))
    with pytest.raises(UserError, match=r"written as \.mmt or \.mmtx"):
        engine.misses(GUPS, job, engine.Options(), str(tmp_path / "again.csv"))
