"""What a study says first: steps, what they save, and lines to paste."""

from pathlib import Path

import pytest
from conftest import Cli

from mmulab.result import Result
from mmulab.study import lines, verdict
from mmulab.study.here import Here
from mmulab.study.outcome import Outcome
from mmulab.study.plan import DEFAULT_POLICIES

MACHINE = "skylake-e3-1240v5"
GUPS = "gen:gups?footprint=64M&updates=100k"


def _outcome(cli: Cli, trace: str, *options: str) -> Outcome:
    ran = cli("study", trace, "--machines", MACHINE, "--out", "out", "--no-here", *options)
    assert ran.code == 0, ran.err
    found = [Result.load(path) for path in (cli.cwd / "out" / "results").glob("*.json")]
    return Outcome(sorted(found, key=lambda r: DEFAULT_POLICIES.index(r.policy)))


def _here(seconds: tuple[float, float]) -> Here:
    policies = ("linux-4k", "linux-thp")
    return Here(
        machine="here.toml",
        seconds=dict(zip(policies, seconds, strict=True)),
        resident={"linux-4k": 64 << 20, "linux-thp": 66 << 20},
        sampled=0.0,
        native=None,
        apart="not timed",
    )


def test_random_updates_want_2_mb_pages(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step, for the memory that has all of the cost; the baseline's figures follow from the results."""
    monkeypatch.setattr(lines, "general", lambda: "madvise")
    outcome = _outcome(cli, GUPS)
    (step,) = verdict.of(outcome).steps
    assert step.do == "Map anonymous memory (64 MB) with transparent 2 MB pages (linux-thp)."
    small, large = (next(r for r in outcome.results if r.policy == p) for p in ("linux-4k", "linux-thp"))
    assert step.saves[0] == pytest.approx(1 - large.user_cycles / small.user_cycles)
    assert step.saves[1] == pytest.approx(1 - large.serial_cycles / small.serial_cycles)
    rows = dict(step.rows)
    assert rows["where"].startswith("stalls for translations: ")
    assert "more resident at the peak" in rows["memory"]
    assert rows["kernel"].endswith("is [madvise]: a program must ask, by one of these lines")
    said = "\n".join(line for _, line in step.how)
    assert "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 PROGRAM ARGS" in said
    assert "madvise(p, bytes, MADV_HUGEPAGE)" in said


@pytest.mark.parametrize(
    ("switch", "has", "has_not"),
    [
        ("always", "is [always]: large, aligned memory has 2 MB pages already", "echo always"),
        ("never", "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled", "must ask"),
        ("", "is [absent]: this kernel has no transparent 2 MB pages", "echo madvise"),
    ],
)
def test_lines_are_those_of_this_kernel(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, switch: str, has: str, has_not: str
) -> None:
    monkeypatch.setattr(lines, "general", lambda: switch)
    (step,) = verdict.of(_outcome(cli, GUPS)).steps
    said = "\n".join(text for _, text in (*step.rows, *step.how))
    assert has in said
    assert has_not not in said


def test_what_is_known_of_this_computer_counts_before_models(cli: Cli) -> None:
    """Its forecast heads the rows; where it gains nothing here, the models' gains are no advice."""
    outcome = _outcome(cli, GUPS)
    outcome.here = _here((1.0, 0.5))
    (step,) = verdict.of(outcome).steps
    assert step.rows[0][1].startswith("forecast 50.0 % (")
    assert ("memory", "2 MB more resident at the peak (66 MB in all)") in step.rows
    outcome.here = _here((1.0, 1.5))
    found = verdict.of(outcome)
    assert not found.steps
    assert found.nothing.startswith(
        "Leave the pages as they are. On this computer, 2 MB pages gain this program nothing"
    )
    outcome.here = _here((1.0, 0.98))
    (step,) = verdict.of(outcome).steps
    assert step.do.startswith("Try transparent 2 MB pages")


def test_where_nothing_is_gained_tables_are_noise(cli: Cli, tmp_path: Path) -> None:
    """The terminal has a sentence; summary.txt and the report have the tables."""
    ran = cli("study", "gen:sequential?footprint=64K", "--machines", MACHINE, "--out", "out", "--no-here")
    assert ran.code == 0, ran.err
    assert "Leave the pages as they are: in this model, no policy saves more than" in ran.out
    assert "Regions of highest cost" not in ran.out
    assert "machine / policy" in (tmp_path / "out" / "summary.txt").read_text(encoding="utf-8")
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "The tables, in which nothing is to be gained" in html
    alone = cli("study", GUPS, "--machines", MACHINE, "--policies", "linux-4k", "--out", "one", "--no-here")
    assert "Only linux-4k was run: there is nothing to compare it with." in alone.out


def test_allocators_are_told_by_their_libraries(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """jemalloc's setting stands there if the program maps jemalloc."""
    monkeypatch.setattr(lines, "general", lambda: "madvise")
    text = ["mmap 0x400000 4K rx file:/usr/lib/libjemalloc.so.2+0", "mmap 0x10000000 64M rw anon"]
    text += [f"f 0x400000 x4\nw {0x10000000 + i * 7919 % 16384 * 4096:#x}" for i in range(20000)]
    (tmp_path / "a.mmtx").write_text("\n".join(text) + "\n")
    (step,) = verdict.of(_outcome(cli, "a.mmtx")).steps
    assert any(line.startswith("MALLOC_CONF=thp:always,metadata_thp:auto") for _, line in step.how)


def test_the_pool_needs_pages_set_aside(cli: Cli) -> None:
    """64 MB are 32 pages, and the pages that are resident beside them."""
    (step,) = verdict.of(_outcome(cli, GUPS, "--policies", "linux-4k,hugetlb-2m")).steps
    assert "2 MB pages of the hugetlb pool (hugetlb-2m)" in step.do
    assert step.how[0][1].startswith("echo 32 | sudo tee /proc/sys/vm/nr_hugepages")
    assert any("glibc.malloc.hugetlb=2" in line for _, line in step.how)
