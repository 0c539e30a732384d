"""What a study says first: steps, what they save, and lines to paste."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli

from mmulab.result import Result
from mmulab.study import lines, verdict
from mmulab.study.code import ON_REQUEST
from mmulab.study.here import Here
from mmulab.study.outcome import Outcome
from mmulab.study.places import Region
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


def test_a_trial_counts_before_the_forecast(cli: Cli) -> None:
    """It heads the rows with its interval, sorts the steps by it, and decides; the forecast is the second row."""
    outcome = _outcome(cli, GUPS)
    outcome.here = replace(_here((1.0, 0.99)), tried={"saving": 0.25, "low": 0.2, "high": 0.3})
    (step,) = verdict.of(outcome).steps
    assert step.do.startswith("Map anonymous memory (64 MB)"), "though the forecast alone leaves it open"
    assert step.rows[0] == ("saves", "tried 25.0 % (20.0 % to 30.0 %) on this computer")
    assert step.rows[1][1].startswith("forecast 1.0 % (")
    assert step.saves == (0.2, 0.3)
    outcome.here = replace(_here((1.0, 0.5)), tried={"saving": 0.0, "low": -0.004, "high": 0.004})
    found = verdict.of(outcome)
    assert not found.steps
    assert "2 MB pages gain this program nothing: tried 0.0 % (−0.4 % to 0.4 %)." in found.nothing
    assert "Without the trial: forecast 50.0 %" in found.nothing
    outcome.here = replace(_here((1.0, 0.5)), tried={"saving": 0.1, "low": -0.1, "high": 0.3})
    (step,) = verdict.of(outcome).steps
    assert "is not certain: the trial does not decide it" in step.do
    outcome.here = replace(_here((1.0, 0.5)), tried={"saving": None, "why": "interrupted"})
    (step,) = verdict.of(outcome).steps
    assert step.rows[0][1].startswith("forecast 50.0 % ("), "a trial without a result decides nothing"


@pytest.mark.parametrize(
    ("saved", "is_over", "said"),
    [
        ((0.0, 0.0), True, "every policy saves less than 0.1 % of user time, even if no translation overlapped"),
        ((0.0, 0.007), True, "every policy saves less than 0.1 % of user time, and at most 0.7 % if no translation"),
        ((0.004, 0.007), True, "every policy saves at most 0.4 % of user time, and at most 0.7 % if no translation"),
        ((0.0, 0.015), False, "at most 1.5 % of user time can be saved (linux-thp on skylake-e3-1240v5, if no "),
    ],
)
def test_pages_are_left_only_where_the_upper_end_says_so(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, saved: tuple[float, float], is_over: bool, said: str
) -> None:
    """The middle decides whether a step is advised; the upper end whether there is nothing to gain."""
    monkeypatch.setattr(verdict, "saved_on", lambda *_: saved)
    outcome = _outcome(cli, "gen:sequential?footprint=64K", "--policies", "linux-4k,linux-thp")
    found = verdict.of(outcome)
    assert said in found.nothing
    assert found.is_over == is_over
    assert found.nothing.startswith("Leave the pages as they are: " if is_over else "No change is advised: ")


def test_every_line_to_paste_has_a_source(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of each kind of program and switch; mmulab's own commands need none. The report prints them."""
    outcome = _outcome(cli, GUPS)
    region: Any = {"kind": "file", "name": "x", "start": 0, "end": 4096}
    files = [{**region, "file": f"/usr/lib/{start}.so"} for start, _, _ in lines._ALLOCATORS]
    result = Result({**outcome.results[0].data, "regions": [*outcome.results[0].regions, *files]})
    anon = [r for found in outcome.regions.values() for r in found if r.kind == "anon"]
    how: list[lines.Line] = []
    for switch in ("always", "madvise", "never"):
        monkeypatch.setattr(lines, "general", lambda switch=switch: switch)
        for go in (False, True):
            monkeypatch.setattr(lines, "is_go", lambda *_, go=go: go)
            how += lines.memory("linux-thp", {}, anon, result, {"tcmalloc::tcmalloc_internal::Span::Alloc()"})
    how += [*lines.memory("hugetlb-2m", {}, anon, result), *lines.code({"program": "/usr/bin/node"}, ON_REQUEST)]
    without = [line for _, line in how if "mmulab" not in line and not lines.sources([("", line)])]
    assert without == []
    assert {source for _, source in lines.SOURCES} == {*lines.sources(how)}, "no source without a line"
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "The lines are documented in: " in html
    assert "PR_SET_THP_DISABLE(2const)" in html


@pytest.mark.parametrize(
    ("library", "mapping", "is_asked"),
    [
        ("/usr/lib/libc.so.6", "anon", True),
        ("/usr/lib/libc.so.6", "anon name:table_new", False),
        ("/opt/libmmulab_sites.so", "anon", False),
        ("/bin/static", "anon", False),
        ("/usr/lib/libc.so.6", "go", False),
        ("/usr/lib/libc.so.6", "heap", False),
    ],
)
def test_memory_without_a_name_has_a_hint_to_names(
    cli: Cli, tmp_path: Path, library: str, mapping: str, is_asked: bool
) -> None:
    """Only if the recording could have named it, and did not: the row has the command that does."""
    start = 0xC000000000 if mapping == "go" else 0x10000000
    named = mapping.endswith("table_new")
    text = ["#: program ./my%20program", "#: arg -n", "mmap 0x400000 4K rx file:/bin/p+0"]
    text += [f"mmap 0x500000 4K rx file:{library}+0"]
    text += [f"brk {start:#x} {start + (64 << 20):#x}" if mapping == "heap" else f"mmap {start:#x} 64M rw anon"]
    text += [f"name {start:#x} 64M table_new"] if named else []
    text += [f"f 0x400000 x4\nw {start + i * 7919 % 16384 * 4096:#x}" for i in range(20000)]
    (tmp_path / "a.mmtx").write_text("\n".join(text) + "\n")
    (step,) = verdict.of(_outcome(cli, "a.mmtx", "--policies", "linux-4k,linux-thp")).steps
    rows = dict(step.rows)
    assert ("names" in rows) == is_asked
    if is_asked:
        assert "`mmulab study --sites -- './my program' -n` shows which functions asked" in rows["names"]
    assert ("table_new" in step.do) == named


def test_a_flag_that_launchers_set_can_be_seen_and_cleared(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PR_SET_THP_DISABLE, which a shell's programs inherit: the lines show it, and the kernel's row where it is set."""
    monkeypatch.setattr(lines, "general", lambda: "always")
    status = tmp_path / "status"
    monkeypatch.setattr(lines, "_STATUS", status)
    outcome = _outcome(cli, GUPS)
    for value, is_said in (("1", False), ("0", True)):
        status.write_text(f"Name:\tx\nTHP_enabled:\t{value}\nThreads:\t1\n")
        (step,) = verdict.of(outcome).steps
        assert ("programs that this shell starts get none" in dict(step.rows)["kernel"]) == is_said
    check = [line for _, line in step.how[[label for label, _ in step.how].index("check") :]]
    assert check[0].startswith("grep THP_enabled /proc/PID/status")
    assert check[1].startswith("prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);")


def test_go_and_tcmalloc_have_lines_of_their_own(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Go by its heap's place or its file's build information; TCMalloc, which is linked in, by its functions."""
    monkeypatch.setattr(lines, "general", lambda: "madvise")
    text = ["mmap 0x400000 4K rx file:/bin/p+0", "mmap 0xc000000000 64M rw anon"]
    text += [f"f 0x400000 x4\nw {0xC000000000 + i * 7919 % 16384 * 4096:#x}" for i in range(20000)]
    (tmp_path / "go.mmtx").write_text("\n".join(text) + "\n")
    (step,) = verdict.of(_outcome(cli, "go.mmtx")).steps
    said = [line for _, line in step.how]
    assert any(line.startswith("GODEBUG=disablethp=0 ") for line in said)
    assert sum(line.startswith("echo always") and "Go's heap does not ask" in line for line in said) == 1
    assert not any("GLIBC_TUNABLES" in line or "MADV_" in line for line in said)
    built = tmp_path / "server"
    outcome = _outcome(cli, GUPS, "--replace")
    for content, go in ((b"\x7fELF..\xff Go buildinf:\x08", True), (b"\x7fELF..", False), (b"", False)):
        built.write_bytes(content)
        mapped = Result({**outcome.results[0].data, "regions": [{"kind": "file", "file": str(built)}]})
        assert lines.is_go({"program": "./server"}, mapped) == go
    anon = [r for found in outcome.regions.values() for r in found if r.kind == "anon"]
    for functions, proper in (({"tcmalloc::tcmalloc_internal::Span::Alloc()"}, True), ({"tcmalloc::Span"}, False)):
        how = lines.memory("linux-thp", {}, anon, outcome.results[0], functions)
        assert any("khugepaged/max_ptes_none     # TCMalloc" in line for _, line in how) == proper
        assert sum(line.startswith("echo always") for _, line in how) == 1


def test_names_have_their_counts_and_size_in_one_pair_of_brackets() -> None:
    """The gallery once had "(21 processes) (64.1 MB)"."""
    values: dict[str, Any] = {key: {} for key in ("cost", "walks", "misses", "mapped", "resident")}
    known: dict[str, Any] = {"number": 1, "kind": "anon", "start": 0, "end": 64 << 20, "baseline": "", "user_cycles": 1}
    for name, said in (
        ("anon", "anonymous memory (64 MB)"),
        ("anon (21 processes)", "anonymous memory (21 processes, 64 MB)"),
        ("anon of x (3 mappings, 21 processes)", "anonymous memory of x (3 mappings, 21 processes, 64 MB)"),
    ):
        assert verdict._named(Region(name=name, **known, **values)) == said


@pytest.mark.parametrize(
    ("low", "shown"), [(-0.0003, "0.0 % to 2.5 %"), (-0.02, "−2.0 % to 2.5 %"), (0.0003, "<0.1 % to 2.5 %")]
)
def test_a_loss_that_rounds_to_nothing_is_shown_as_nothing(cli: Cli, low: float, shown: str) -> None:
    """The gallery once had "−<0.1 % to 2.5 %"."""
    assert verdict._range(_outcome(cli, GUPS), {"a": (low, 0.025)}).startswith(f"{shown} of user time on a")


def test_a_report_has_no_empty_terms(cli: Cli, tmp_path: Path) -> None:
    """Rows without a label are further descriptions of the label above."""
    outcome = _outcome(cli, GUPS)
    outcome.here = _here((1.0, 0.5))
    (step,) = verdict.of(outcome).steps
    assert any(not label for label, _ in step.rows)
    assert all(label for label, _ in step.grouped)
    assert [text for _, texts in step.grouped for text in texts] == [text for _, text in step.rows]
    from mmulab.study.report import html

    page = html(outcome)
    assert "<dt></dt>" not in page
    assert re.search(r"<dt>saves</dt>(<dd>[^<]+</dd>){2,}", page)


def test_where_nothing_is_gained_tables_are_noise(cli: Cli, tmp_path: Path) -> None:
    """The terminal has a sentence; summary.txt and the report have the tables."""
    ran = cli("study", "gen:sequential?footprint=64K", "--machines", MACHINE, "--out", "out", "--no-here")
    assert ran.code == 0, ran.err
    assert "Leave the pages as they are: in this model, every policy saves less than 0.1 % of user time" in ran.out
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
