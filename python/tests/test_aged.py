"""Memory as guests that had booted, or had been used, left it (`memory.aged`)."""

from pathlib import Path
from typing import Any

import pytest

from mmulab import engine
from mmulab.reproduce.pte_coalescing import table as coalescing_table
from mmulab.study import Plan

GUPS = "gen:gups?footprint=8M&updates=20000"
MACHINE = "zen3-5900x"


def study_plan(*sets: str) -> Plan:
    """Of one machine and policy."""
    return Plan.make(GUPS, (MACHINE,), ("linux-4k",), sets, engine.Options(touched=True, profile=True))


def run(*sets: str) -> dict[str, Any]:
    """What the study's job gives."""
    plan = study_plan(*sets)
    return engine.run(GUPS, plan.jobs, plan.options).results[0].data


def test_a_study_runs_in_memory_that_was_used_and_says_so() -> None:
    """CHANGELOG number 10: `used` is the default, can be turned off, and stands among the assumptions."""
    data = run()
    assert data["machine"]["memory"]["aged"] == "used"
    [said] = [a for a in data["assumptions"] if a["where"] == "memory" and a["key"] == "aged"]
    assert "guests of Linux 6.1" in said["reason"]
    assert "run many processes" in said["reason"]
    data = run("memory.aged=off")
    assert data["machine"]["memory"]["aged"] == "off"
    assert not [a for a in data["assumptions"] if a["key"] == "aged"]


@pytest.mark.parametrize("said", ["memory.aged=booted", "memory.fragment.kind=memhog"])
def test_what_memory_is_like_can_be_said(said: str) -> None:
    """CHANGELOG number 10: neither study nor table adds to what is said."""
    assert study_plan(said).jobs[0].sets == (said,)
    assert coalescing_table.Plan(GUPS, sets=(said,)).as_run == (said,)
    assert coalescing_table.Plan(GUPS, sets=("tlb.L2-DTLB.entries=64",)).as_run[0] == "memory.aged=used"


def test_pages_lie_together_by_coincidence_as_they_do_in_guests(tmp_path: Path) -> None:
    """CHANGELOG number 10: 2,048 pages out of the lists of a used guest, whose 100 frames lay in some 66 runs."""
    trace = tmp_path / "touch.txt"
    trace.write_text("mmap 0x40000000 8M rw anon populate\nr 0x40000000\n")

    def average(aged: str) -> float:
        job = engine.Job(MACHINE, "linux-4k", (f"memory.aged={aged}", "core.count=1", "core.threads=1"))
        small = engine.run(str(trace), [job]).results[0].counts["memory"]["contiguity"]["by_size"]["4K"]
        return float(small["pages"]) / float(small["runs"])

    assert average("off") > 1000
    assert 1.2 < average("used") < 3
    assert 20 < average("booted") < 100


def test_the_table_tells_what_memory_was_like() -> None:
    """CHANGELOG number 10: the table of paper 1 has its memory in its notes."""
    plan = coalescing_table.Plan("gen:gups?footprint=1M&updates=2000", options=engine.Options(max_instructions=20000))
    table = coalescing_table.run(plan)
    assert "Memory: 32G, under Linux with the free lists of guests that had been used" in " ".join(table.notes)
