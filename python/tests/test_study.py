"""The main job, end to end."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import CHECKOUT, Cli

from mmulab import Failure
from mmulab.result import Result
from mmulab.study.places import Region

SECTIONS = ["regions", "functions", "instructions", "blocks", "misses", "walks", "time", "memory", "exactness"]
SECTIONS += ["assumptions", "words"]


def _results(directory: Path) -> list[Result]:
    return [Result.load(p) for p in sorted((directory / "results").glob("*.json"))]


def test_a_study_writes_all_it_promises(study_dir: Path) -> None:
    """Two machines under three policies, each with its sums."""
    files = {"report.html", "summary.txt", "study.json", "results", "code-windows.json"}
    assert {p.name for p in study_dir.iterdir()} == files
    results = _results(study_dir)
    assert len(results) == 8
    for result in results:
        assert [i.name for i in result.identities() if not i.holds] == []
        assert sum(r["l1d_misses"] for r in result.regions) == result.tlb("l1d")["misses"]
        assert result.complete
    spec = json.loads((study_dir / "study.json").read_text())
    assert len(spec["jobs"]) == 8
    assert spec["trace_identity"] == results[0].trace_identity


class _Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.sections: list[str] = []
        self.outside: list[str] = []
        self.plots = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "section":
            self.sections.append(str(values.get("id")))
        self.plots += tag == "svg"
        for name in ("src", "href"):
            value = values.get(name) or ""
            if value.startswith(("http", "//", "file:")):
                self.outside.append(value)


def test_the_report_stands_by_itself(study_dir: Path) -> None:
    """All sections, plots inside, nothing fetched from elsewhere."""
    text = (study_dir / "report.html").read_text()
    outline = _Outline()
    outline.feed(text)
    assert outline.sections == SECTIONS
    # Five plots, and the strips of code and of data over time.
    assert outline.plots == 7
    assert outline.outside == []
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert "Counted exactly" in text


def test_larger_pages_pay_for_gups(study_dir: Path) -> None:
    """Random updates of 32 MB: the one case where the answer is known beforehand."""
    by = {(r.machine, r.policy): r for r in _results(study_dir)}
    machine = "skylake-e3-1240v5"
    base, thp = by[machine, "linux-4k"], by[machine, "linux-thp"]
    assert thp.walk_count < base.walk_count / 10
    assert thp.translation_cycles < base.translation_cycles
    assert "2M" in (study_dir / "summary.txt").read_text()


def test_studies_are_the_same_each_time(study_dir: Path, cli: Cli, tmp_path: Path) -> None:
    """Report and results, byte for byte, with any number of threads."""
    args = ["gen:gups?footprint=32M&updates=20000", "--machines", "skylake-e3-1240v5,zen3-5900x"]
    files = sorted(p.relative_to(study_dir) for p in study_dir.rglob("*") if p.is_file())
    assert len(files) == 12
    for threads in ("1", "2"):
        out = tmp_path / threads
        # Interpreters of their own, whose sets have other orders than those of each other.
        assert cli("study", *args, "--threads", threads, "--out", out, PYTHONHASHSEED=threads).code == 0
        assert sorted(p.relative_to(out) for p in out.rglob("*") if p.is_file()) == files
        for name in files:
            assert (out / name).read_bytes() == (study_dir / name).read_bytes(), name


def test_compare_takes_a_study(study_dir: Path, cli: Cli) -> None:
    """A table of each machine; a refusal for different traces unless forced."""
    ran = cli("compare", study_dir)
    assert ran.code == 0, ran.err
    assert "L1 data misses" in ran.out
    assert cli("run", "skylake-e3-1240v5", "--trace", "gen:sequential?footprint=1M", "--out", "other").code == 0
    other = "other/skylake-e3-1240v5--linux-4k.json"
    mine = study_dir / "results" / "skylake-e3-1240v5--linux-4k.json"
    refused = cli("compare", mine, other)
    assert refused.code == 2
    assert "different traces" in refused.err
    assert "--force" in refused.err
    forced = cli("compare", mine, other, "--force")
    assert forced.code == 0
    assert "warning: the results are of different traces" in forced.err


def test_a_sum_that_does_not_come_out_stops_the_report(study_dir: Path) -> None:
    """Before anything is written."""
    result = _results(study_dir)[0]
    result.counts["tlb"]["l1d"]["hits"] += 1
    with pytest.raises(Failure, match="contradict"):
        result.check()


def test_a_program_of_several_regions(cli: Cli, tmp_path: Path) -> None:
    """A text trace with code, heap and two processes: costs fall where the references were."""
    lines = ["mmap 0x400000 1M rx file:/bin/prog+0", "brk 0x600000 0x1600000", "mmap 0x7f0000000000 4M rw anon"]
    for i in range(3000):
        lines += [f"f {0x400000 + i % 200 * 4096:#x} x4", f"w {0x600000 + i * 7919 % 4096 * 4096:#x}"]
        lines += [f"r {0x7F0000000000 + i * 31 % 1024 * 4096:#x}"]
    (tmp_path / "a.mmtx").write_text("\n".join(lines) + "\n")
    ran = cli("study", "a.mmtx", "--machines", "skylake-e3-1240v5", "--out", "out")
    assert ran.code == 0, ran.err
    assert "report: out/report.html" in ran.err
    result = Result.load(tmp_path / "out" / "results" / "skylake-e3-1240v5--linux-4k.json")
    costs = {r["kind"]: r["walks"] for r in result.regions if r["walks"]}
    assert costs.keys() == {"file", "heap", "anon"}
    assert "/bin/prog r-x" in ran.out
    assert "prog+0x0 (page)" in ran.out
    assert "Functions of /bin/prog are not known" in ran.out


def test_functions_are_known_of_processes_that_have_ended(cli: Cli, tmp_path: Path) -> None:
    """Two programs, one after the other in one process, at the same addresses: each has its own costs."""
    lines = ["mmap 0x400000 1M rx file:/bin/first+0", *(f"f {0x400000 + i % 100 * 4096:#x} x4" for i in range(1000))]
    lines += ["exec /bin/second", "mmap 0x400000 1M rx file:/bin/second+0"]
    lines += [*(f"f {0x400000 + i % 200 * 4096:#x} x4" for i in range(2000)), "exit"]
    (tmp_path / "a.mmtx").write_text("\n".join(lines) + "\n")
    ran = cli("study", "a.mmtx", "--machines", "skylake-e3-1240v5", "--out", "out")
    assert ran.code == 0, ran.err
    result = Result.load(tmp_path / "out" / "results" / "skylake-e3-1240v5--linux-4k.json")
    names = {r["id"]: r["name"] for r in result.regions}
    misses = dict.fromkeys(names.values(), 0)
    for place in result.code["places"]:
        misses[names[place["region"]]] += place["l1i_misses"]
    assert misses["/bin/first r-x"] >= 100
    assert misses["/bin/second r-x"] >= 200
    assert sum(misses.values()) == misses["/bin/first r-x"] + misses["/bin/second r-x"]
    summary = (tmp_path / "out" / "summary.txt").read_text(encoding="utf-8")
    assert "first+0x" in summary
    assert "second+0x" in summary
    assert "unmapped" not in summary


# mmulab in a process of its own. Its first progress report comes when part of the trace was run: then it says so.
AT_WORK = """
import sys
from mmulab import _core
from mmulab.cli import main
run = _core.run
def reporting(spec, on_progress, *more):
    def told(text):
        sys.stderr.write("at work\\n")
        sys.stderr.flush()
        return on_progress(text)
    return run(spec, told, *more)
_core.run = reporting
main()
"""


def test_ctrl_c_reports_what_there_is(tmp_path: Path) -> None:
    """A marked partial result, and an exit code that says so. However long it takes to begin (CHANGELOG number 0)."""
    import signal

    args = [sys.executable, "-c", AT_WORK, "run", "skylake-e3-1240v5", "--json"]
    with subprocess.Popen(
        [*args, "--trace", "gen:gups?footprint=1G&updates=4000000000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "at work\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=300)
    assert child.returncode == 130, err
    data = json.loads(out)
    assert data["complete"] is False
    assert data["ended"]["reason"] == "interrupted"
    assert data["counts"]["instructions"] > 0
    assert "partial" in err


def _region(**change: object) -> Region:
    values: dict[str, object] = {
        "number": 1,
        "name": "[heap]",
        "kind": "heap",
        "start": 0,
        "end": 1 << 24,
        "cost": {"linux-4k": 1000, "linux-thp": 100, "hugetlb-2m": 100},
        "walks": {},
        "misses": {},
        "mapped": {
            "linux-4k": {"4K": 1 << 20},
            "linux-thp": {"4K": 4096, "2M": 4 << 20},
            "hugetlb-2m": {"2M": 8 << 20},
        },
        "resident": {"linux-4k": 1 << 20, "linux-thp": 3 << 20, "hugetlb-2m": 8 << 20},
        "baseline": "linux-4k",
        "user_cycles": 10_000,
    }
    return Region(**{**values, **change})  # type: ignore[arg-type]


def test_advice_names_the_size_and_its_memory() -> None:
    """Of two policies that cost the same, the first; its size is the largest used for a good part."""
    region = _region()
    assert region.best == "linux-thp"
    assert region.page_size == "2M"
    assert region.gain_share == pytest.approx(0.09)
    assert region.extra_memory == 2 << 20, "what is resident counts, not what page tables map"


def test_advice_is_silent_where_nothing_is_gained() -> None:
    """Too small a gain, or one that others' pages brought."""
    assert _region(user_cycles=10_000_000).best == "linux-4k"
    same = {"linux-4k": {"4K": 4096}, "linux-thp": {"4K": 4096}, "hugetlb-2m": {"4K": 4096}}
    assert _region(mapped=same).best == "linux-4k"


def test_readme_names_only_commands_that_exist() -> None:
    """Each `mmulab WORD` in README and guide is a command."""
    from mmulab.cli.app import app

    for page in [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs" / "guide").glob("*.md"))]:
        for word in re.findall(r"^\$ (?:\.venv/bin/)?mmulab (\w+)", page.read_text(), re.MULTILINE):
            assert word in app.loaded(), f"{page.name}: {word}"
