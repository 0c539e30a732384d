"""Claims about translation in virtual machines (papers 3, 4 and 5), by their numbers."""

from typing import Any

import narration
import pytest
from bench import BASE, Bench
from claims import claim

from mmulab import engine

COLD = f"mmap {BASE:#x} 4K rw anon populate\nr {BASE:#x}\n"


def guest(levels: int = 4, host_levels: int = 4) -> str:
    """The plain machine with a guest on it."""
    return f"""
[table]
levels = {host_levels}

[virtual.memory]
size = "32M"

[virtual.table]
levels = {levels}
"""


def cold_reads(bench: Bench, tables: str) -> int:
    """Entries a cold walk for a page of 4 KiB reads."""
    _, result = bench.explain(bench.machine(tables), COLD)
    data: dict[str, int] = result["counts"]["walks"]["data"]
    assert data["walks"] == 1
    return data["accesses"]


@claim("S3-007", "2", "A walk in two dimensions takes 24 sequential accesses in place of 4")
@claim("S4-001", "1, 2.3", "Nested four-level walk: (4 + 1) x (4 + 1) - 1 = 24 accesses")
def test_cold_walks_of_four_levels(bench: Bench) -> None:
    native = "[table]\nlevels = 4\n"
    assert (cold_reads(bench, native), cold_reads(bench, guest())) == (4, 24)


@claim("S4-002", "2.3", "Nested five-level walk: (5 + 1) x (5 + 1) - 1 = 35 accesses")
def test_cold_walks_of_five_levels(bench: Bench) -> None:
    assert cold_reads(bench, guest(5, 5)) == 35


MERGED = """
kind = "compendia"
compendia = { merge = "1/512", unmerge = "0/1" }
"""


@claim(
    "S4-003", "4.7, Figure 13a", "Host of two merged levels: (4 + 1) x (2 + 1) - 1 = 14 accesses; 8 with both merged"
)
def test_cold_walks_of_merged_tables(bench: Bench) -> None:
    memory = '\n[virtual.memory]\nsize = "32M"\n'
    assert cold_reads(bench, f"[table]{MERGED}{memory}") == 14
    assert cold_reads(bench, f"[table]{MERGED}{memory}\n[virtual.table]{MERGED}") == 8


def test_a_warm_walk_of_paper_5_reads_two_entries(bench: Bench) -> None:
    # The guest's walk cache tells where the host has the table: a warm walk reads the guest's leaf and the host's.
    trace = f"mmap {BASE:#x} 16K rw anon populate\nr {BASE:#x}\nr {BASE + 4096:#x}\nr {BASE + 8192:#x}\n"
    lines, _ = bench.explain("compendia-nested", trace)
    warm = [step["entry"] for step in lines[-1]["walk"] if step["cached"] == "memory"]
    assert warm == ["gL1", "hL1"]


@claim(
    "S3-048",
    "7.1, Figure 10",
    "Four virtual machines with memhog taking 40 % of each still have more than 70 % of their memory in superpages",
    "direction",
)
def test_fragmented_machines_keep_superpages(bench: Bench) -> None:
    gups = "gen:gups?footprint=128M&updates=2000"
    sets = ("memory.size=4G", "virtual.memory.size=512M", "virtual.memory.fragment={kind='memhog', percent=40}")
    job = engine.Job("skylake-e3-1240v5", "linux-thp", sets, "linux-thp")
    options = engine.Options(vms=(gups,) * 3, quantum=1000)
    counts = engine.run(gups, [job], options).results[0].data["counts"]["virtual"]
    assert len(counts["guests"]) == 4
    for memory in [g["memory"] for g in counts["guests"]] + [counts["memory"]]:
        mapped = {size: value["now"] for size, value in memory["mapped"].items()}
        assert mapped["2M"] > 0.7 * sum(mapped.values())


def test_huge_pages_gain_more_in_virtual_machines() -> None:
    """S2-049 for pages of 2 MiB beside 4 KiB, on x86."""

    def cycles(policy: str, host: str | None) -> float:
        sets = ("virtual.memory.size=1G",) if host else ()
        job = engine.Job("skylake-e3-1240v5", policy, sets, host)
        model: dict[str, Any] = engine.run("gen:gups?footprint=256M&updates=20000", [job]).results[0].data["model"]
        return float(model["translation_cycles"])

    native = cycles("linux-4k", None) - cycles("linux-thp", None)
    virtual = cycles("linux-4k", "linux-4k") - cycles("linux-thp", "linux-thp")
    assert virtual > 1.5 * native


def test_explain_and_run_agree_in_virtual_machines(bench: Bench) -> None:
    trace = "gen:gups?footprint=4M&updates=300"
    for sets in (("virtual.memory.size=64M",), ("virtual.memory.size=64M", "virtual.mode=shadow")):
        job = engine.Job("zen3-5900x", "linux-thp", sets, "linux-4k")
        run = engine.run(trace, [job]).results[0]
        lines, told = narration.narrate(trace, job, engine.Options())
        assert told["counts"] == run.counts
        assert told["model"] == run.model
        added = narration.add_up(lines, told["machine"])
        assert {key: value for key, value in added.items() if value} == narration.counters(told)


@pytest.mark.parametrize("mode", ["nested", "shadow"])
def test_the_checking_mode_holds_in_virtual_machines(mode: str) -> None:
    sets = ("virtual.memory.size=64M", f"virtual.mode={mode}")
    job = engine.Job("zen3-5900x", "linux-thp", sets, "linux-4k")
    options = engine.Options(check="translations")
    result = engine.run("gen:gups?footprint=1M&updates=200", [job], options).results[0]
    assert result.complete
