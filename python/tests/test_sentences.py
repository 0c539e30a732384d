"""Sentences of README, guide and report that were not true, held against what runs show."""

from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT, Cli

from mmulab.result import Result
from mmulab.study import Outcome
from mmulab.study.places import as_good

MACHINE = "skylake-e3-1240v5"
COMPILER = CHECKOUT / "tests" / "data" / "cc1-small.mmt"
# One huge page of the heap each millisecond of simulated time.
DAEMON = ("scan_sleep_ms=1", "pages_to_scan=512")
READ = ("README.md", "docs/guide/reading-a-study.md", "docs/concepts/physical-memory.md", "docs/concepts/cost-model.md")


def _text(path: str) -> str:
    """A page, without its line breaks."""
    return " ".join((CHECKOUT / path).read_text(encoding="utf-8").split())


def _walks(counts: dict[str, Any]) -> int:
    return int(counts["walks"]["data"]["walks"])


def _counts(cli: Cli, policy: str, cpi: str, *more: str, machine: str = MACHINE) -> dict[str, Any]:
    counts = cli("run", machine, "--policy", policy, "--base-cpi", cpi, "--json", *more).json()["counts"]
    return {key: counts[key] for key in ("tlb", "walks", "memory")}


def test_misses_walks_and_memory_depend_on_the_base_cpi_where_it_is_said(cli: Cli, tmp_path: Path) -> None:
    """CHANGELOG number 22: they do with khugepaged and on shader cores, and nowhere else."""
    trace = ("--trace", str(COMPILER))
    assert _counts(cli, "linux-thp", "0.5", *trace) == _counts(cli, "linux-thp", "5", *trace)
    # A heap that grows in steps too small for huge pages, which the daemon collapses a huge page at a time.
    lines = ["mmap 0x400000 64K rx file:/bin/p+0"]
    for step in range(128):
        at = 0x600000 + (step << 16)
        lines += [f"brk 0x600000 {at + (1 << 16):#x}", *(f"w {at + page * 4096:#x}" for page in range(16))]
    for i in range(20_000):
        lines += ["f 0x400000 x100", f"r {0x600000 + i * 7919 % 2048 * 4096:#x}"]
    (tmp_path / "heap.mmtx").write_text("\n".join(lines) + "\n")
    khugepaged = [word for key in DAEMON for word in ("--set", f"policy.thp.khugepaged.{key}")]
    heap = ("--trace", "heap.mmtx", *khugepaged)
    early, late = (_walks(_counts(cli, "linux-thp-khugepaged", cpi, *heap)) for cpi in ("50", "0.5"))
    assert early < late
    warps = ("--trace", "gen:gpu-lud", "--max-instructions", "50k")
    short, long = (_walks(_counts(cli, "linux-4k", cpi, *warps, machine="gpu-mix-baseline")) for cpi in ("1", "8"))
    assert short != long
    assert "khugepaged wakes by simulated time" in _text("README.md")
    assert "on shader cores walks complete in time" in _text("README.md")


def test_read_around_is_equal_under_linux_and_another_under_freebsd(cli: Cli) -> None:
    """CHANGELOG number 22: report and guide say so."""
    found = {}
    for policy in ("linux-4k", "linux-thp", "hugetlb-2m", "freebsd-reserv"):
        ran = cli("run", MACHINE, "--trace", COMPILER, "--policy", policy, "--touched", "--json")
        found[policy] = ran.json()["counts"]["memory"]["read_around_bytes"]
    assert found["linux-4k"] == found["linux-thp"] == found["hugetlb-2m"] > 0
    assert found["freebsd-reserv"] != found["linux-4k"]
    assert "It is equal under all Linux policies." in _text("docs/guide/reading-a-study.md")


def test_the_report_is_of_freebsd_only_if_a_policy_of_it_ran(cli: Cli, tmp_path: Path) -> None:
    """And then it says why read-around differs."""
    for policies, is_there in (("linux-4k,linux-thp", False), ("linux-4k,freebsd-reserv", True)):
        ran = cli("study", COMPILER, "--machines", MACHINE, "--policies", policies, "--out", policies)
        assert ran.code == 0, ran.err
        report = " ".join((tmp_path / policies / "report.html").read_text(encoding="utf-8").split())
        assert "It is equal under all Linux policies" in report
        assert ("; FreeBSD’s read clusters give another amount." in report) == is_there
        assert ("FreeBSD" in report.partition('id="memory"')[2].partition("<table>")[0]) == is_there


def test_the_verdict_has_a_sentence_for_each_machine_in_the_order_they_ran(cli: Cli, tmp_path: Path) -> None:
    """CHANGELOG number 22: and where nothing is gained, it says no more than what the model shows."""
    machines = ["zen3-5900x", MACHINE]
    trace = "gen:sequential?footprint=64K"
    ran = cli("study", trace, "--machines", ",".join(machines), "--out", "out", "--policies", "linux-4k,linux-thp")
    assert ran.code == 0, ran.err
    results = [Result.load(p) for p in (tmp_path / "out" / "results").glob("*.json")]
    outcome = Outcome(sorted(results, key=lambda r: (machines.index(r.machine), r.policy)))
    lines = outcome.by_machine()
    assert [line.split(":")[0] for line in lines] == [results[0].machine_title for results in outcome.machines.values()]
    assert [*outcome.machines] == machines
    for machine, line in zip(machines, lines, strict=True):
        assert line.endswith("in this model, no policy saves more than 0.05 % of user time.")
        assert all(outcome.gain(r).user <= 0.0005 for r in outcome.machines[machine])
        assert line in (tmp_path / "out" / "summary.txt").read_text(encoding="utf-8")
    assert "Leave the pages as they are" in ran.out
    assert "read-" not in ran.out, "no tables where nothing is to be gained"
    assert "read-" in (tmp_path / "out" / "summary.txt").read_text(encoding="utf-8")


def test_the_best_page_size_is_what_the_guide_says() -> None:
    """CHANGELOG number 22: the first policy whose cost is within the margin of the lowest, the baseline first."""
    order = ["linux-4k", "linux-thp", "hugetlb-2m"]
    assert as_good({"linux-4k": 200, "linux-thp": 104, "hugetlb-2m": 100}, order, 5) == "linux-thp"
    assert as_good({"linux-4k": 200, "linux-thp": 106, "hugetlb-2m": 100}, order, 5) == "hugetlb-2m"
    assert as_good({"linux-4k": 105, "linux-thp": 104, "hugetlb-2m": 100}, order, 5) == "linux-4k"
    text = "“Best page size” belongs to the first policy whose cost is within 0.05 % of user time of the lowest."
    assert text in _text("docs/guide/reading-a-study.md")


def test_bloat_is_what_physical_memory_says(cli: Cli) -> None:
    """CHANGELOG number 22: the peak of private memory minus the peak of private pages accessed."""
    ran = cli("run", MACHINE, "--trace", COMPILER, "--policy", "linux-thp", "--touched", "--json")
    memory = ran.json()["counts"]["memory"]
    accessed = memory["touched_bytes"] - (memory["file_bytes_peak"] - memory["read_around_bytes"])
    assert memory["bloat_bytes"] == memory["private_bytes_peak"] - accessed > 0
    text = "is the peak of private memory minus the peak of private pages accessed"
    assert text in _text("docs/concepts/physical-memory.md")


@pytest.mark.parametrize(
    "phrase", ["told with its upper bound", "an upper bound,", "The truth lies between", "ever touched"]
)
def test_no_page_claims_what_was_shown_to_be_false(phrase: str) -> None:
    """CHANGELOG number 22: a stopwatch exceeded what was called an upper bound; bloat was defined as it once was."""
    pages = [*READ, "python/mmulab/study/templates/report.html.j2", "python/mmulab/study/outcome.py"]
    assert [page for page in pages if phrase in _text(page)] == []
