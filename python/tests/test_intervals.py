"""Recordings in intervals: what lies between is run, and not counted."""

import random
import shutil
from typing import Any

import pytest
from conftest import Bench, Cli

BASE, PAGES = 0x4000_0000, 600
Json = dict[str, Any]
qemu = pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-x86_64 is missing")


def references(chosen: random.Random, count: int) -> str:
    """Fetches, loads and stores in two mappings, in two processes, and events."""
    lines = []
    for _ in range(count):
        at = BASE + chosen.randrange(PAGES) * 4096 + chosen.randrange(4096) // 8 * 8
        lines.append(chosen.choice((f"r {at:#x}", f"w {at:#x}", f"f {at:#x} x{chosen.randint(1, 9)}")))
        if chosen.random() < 0.02:
            lines.append(
                chosen.choice(("p 1.1", "p 2.2", "tick", f"munmap {at & ~4095:#x} 4K", f"mmap {BASE:#x} 64K rwx anon"))
            )
    return "\n".join(lines) + "\n"


def leaves(counts: Any, at: str = "") -> dict[str, int]:
    """Whole numbers of a result, by their place."""
    if isinstance(counts, dict):
        return {k: v for key, value in counts.items() for k, v in leaves(value, f"{at}.{key}").items()}
    return {at: counts} if isinstance(counts, int) else {}


@pytest.mark.parametrize("policy", ["linux-4k", "linux-thp", "freebsd-reserv"])
@pytest.mark.parametrize("machine", ["skylake-e3-1240v5", "zen3-5900x"])
def test_what_lies_between_intervals_is_run_and_not_counted(bench: Bench, machine: str, policy: str) -> None:
    """Counts are those of all, without what was counted between the end of an interval and the next one."""
    chosen = random.Random(f"{machine} {policy}")
    first = f"mmap {BASE:#x} {PAGES * 4}K rwx anon\nfork 2\n" + references(chosen, 400)
    between, second = (references(chosen, 300) for _ in range(2))

    def counted(trace: str) -> dict[str, int]:
        counts = bench.run(machine, trace, policy, unmapped="map")["counts"]
        parts = {key: counts[key] for key in ("tlb", "walks", "instructions", "references")}
        kernel = {key: counts["kernel"][key] for key in ("faults", "events", "refusals")}
        return leaves({**parts, "kernel": kernel})

    whole, before, alone = (counted(trace) for trace in (first + between + second, first + between, first))
    wanted = {at: count - before[at] + alone[at] for at, count in whole.items()}
    paused = counted(f"{first}pause\n{between}continue 1000\n{second}")
    assert paused == wanted
    assert paused != whole
    assert counted(f"{first}pause\n{between}") == alone


@qemu
def test_intervals_leave_the_memory_of_the_whole_program(cli: Cli) -> None:
    """Pages used in between are told: as many are resident as of the program recorded whole."""
    program = ("--fixed-layout", "--", "ls", "/usr/bin")
    cli("record", "-o", "whole.mmt", *program)
    whole = cli("trace", "info", "whole.mmt", "--json").json()
    assert whole["left_out"] == 0
    # The program ends in an interval.
    every = next(n for n in range(100_000, 300_000, 1000) if 4000 < whole["instructions"] % n < 12_000)
    assert cli("record", "-o", "part.mmt", "--intervals", f"20k/{every}", *program).code == 0
    part = cli("trace", "info", "part.mmt", "--json").json()
    assert part["left_out"] + part["instructions"] == whole["instructions"]
    assert part["instructions"] <= whole["instructions"] // 4
    assert part["events"]["pause"] == part["events"]["continue"] > 5
    assert "instructions between intervals" in cli("trace", "info", "part.mmt").out

    def memory(name: str) -> tuple[int, int, int]:
        result = cli("run", "skylake-e3-1240v5", "--trace", f"{name}.mmt", "--json").json()
        assert result["complete"]
        held = result["counts"]["memory"]
        return held["private_bytes_peak"], held["table_bytes_peak"], held["page_cache_bytes"]

    *own, files = memory("part")
    *all_own, all_files = memory("whole")
    assert own == all_own
    # What is read around a page of a file depends on the order of the pages.
    assert abs(files - all_files) < 0.05 * all_files


@qemu
def test_a_part_of_a_recording_in_intervals_can_be_taken_and_mixed(cli: Cli) -> None:
    cli("record", "-o", "part.mmt", "--intervals", "20k/200k", "--", "ls", "/usr/bin")
    refused = cli("run", "skylake-e3-1240v5", "--trace", "mix:two?a=part.mmt&b=part.mmt")
    assert refused.code != 0
    assert cli("trace", "slice", "part.mmt", "one.mmt", "--start", "0", "--end", "15k").code == 0
    assert cli("trace", "info", "one.mmt", "--json").json()["left_out"] == 0


@pytest.mark.parametrize("given", ["5M/5M", "0/10M", "10M", "10M/", "a/b", "20M/10M"])
def test_intervals_that_are_none_are_refused(cli: Cli, given: str) -> None:
    ran = cli("record", "--intervals", given, "--", "true")
    assert ran.code == 2
    assert "such as 10M/500M" in ran.err


def test_a_generated_workload_has_no_intervals(cli: Cli) -> None:
    ran = cli("workloads", "record", "gups", "--intervals", "1M/10M")
    assert ran.code == 2
    assert "leave --intervals out" in ran.err
