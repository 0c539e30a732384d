"""What reports say beside the costs: memory that nobody touched, fragmentation, warnings, all on any terminal."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT, SMALL, Cli
from rich.console import Console

from mmulab.cli import console
from mmulab.cli.app import invoke
from mmulab.result import Result, json_text
from mmulab.study import Outcome, terminal, verdict
from mmulab.study.plan import DEFAULT_POLICIES
from mmulab.study.report import html

MACHINE = "skylake-e3-1240v5"
COMPILER = CHECKOUT / "tests" / "data" / "cc1-small.mmt"
MIB = 1 << 20


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """A study of the shipped recording of a compiler on one machine."""
    directory = tmp_path_factory.mktemp("compiler")
    ran = Cli(directory)("study", COMPILER, "--machines", MACHINE, "--out", "out")
    assert ran.code == 0, ran.err
    return [Result.load(p) for p in sorted((directory / "out" / "results").glob("*.json"))]


def test_bloat_is_of_private_memory_and_read_around_of_files(cli: Cli, tmp_path: Path) -> None:
    """One store in 4 MB, one fetch from a file of 64 KB: with huge pages 2 MB less a page are bloat."""
    text = "mmap 0x400000 64K rx file:/bin/p+0\nmmap 0x40000000 4M rw anon\nf 0x400000 x4\nw 0x40000000\n"
    (tmp_path / "a.mmtx").write_text(text)
    for policy, bloat in (("linux-4k", 0), ("linux-thp", 2 * MIB - 4096)):
        ran = cli("run", MACHINE, "--trace", "a.mmtx", "--policy", policy, "--touched", "--json").json()
        memory = ran["counts"]["memory"]
        assert memory["touched_bytes"] == 8192
        assert memory["bloat_bytes"] == bloat
        assert memory["read_around_bytes"] == 60 << 10
        assert memory["resident_bytes_peak"] == 8192 + bloat + (60 << 10)
    told = cli("run", MACHINE, "--trace", "a.mmtx", "--policy", "linux-thp", "--touched").out
    assert "Never accessed: 2 MB of private memory (bloat), 60 KB of files (read-around)." in told
    untracked = cli("run", MACHINE, "--trace", "a.mmtx", "--json").json()["counts"]["memory"]
    assert not {"touched_bytes", "bloat_bytes", "read_around_bytes"} & untracked.keys()


def test_a_compiler_has_no_bloat_with_base_pages(compiler: list[Result]) -> None:
    """Base pages are resident because somebody touched them; what else is there, reading around brought."""
    by_policy = {r.policy: r for r in compiler}
    base, thp = by_policy["linux-4k"], by_policy["linux-thp"]
    assert base.bloat == 0
    assert base.read_around
    assert base.read_around > MIB
    assert thp.read_around == base.read_around
    assert thp.bloat
    assert thp.bloat > MIB


def test_fragmentation_is_told_as_wanted_and_as_it_is(cli: Cli, tmp_path: Path) -> None:
    """In JSON for each order, in the text for some; each index is no smaller than that of the order below."""
    machine = cli("machines", "show", MACHINE).out
    (tmp_path / "frag.toml").write_text(
        machine.replace("[memory]\n", '[memory]\nfragment = {kind = "fmfi", target = 0.5, free = "256M"}\n', 1)
    )
    args = ["run", "./frag.toml", "--trace", SMALL, "--policy", "linux-thp"]
    found = cli(*args, "--json").json()["counts"]["memory"]["fragmentation"]
    assert found["target"] == {"order": 9, "fmfi": 0.5}
    assert [(o["order"], o["block"]) for o in found["orders"]][::9] == [(0, "4K"), (9, "2M")]
    for when in ("fmfi_at_start", "fmfi_at_end"):
        indices = [o[when] for o in found["orders"]]
        assert indices == sorted(indices)
        assert indices[0] == 0
    assert found["orders"][9]["fmfi_at_start"] == pytest.approx(0.5, abs=0.02)
    assert found["orders"][9]["fmfi_at_end"] > 0.5
    told = cli(*args).out.splitlines()
    at = next(i for i, line in enumerate(told) if line.startswith("Fragmentation (FMFI) for"))
    assert told[at + 1].split()[:2] == ["wanted", "50.0"]
    assert told[at + 2].startswith("before the program")
    plain = cli("run", MACHINE, "--trace", SMALL, "--json").json()["counts"]["memory"]["fragmentation"]
    assert plain["target"] is None


def test_profiles_add_up_with_what_they_do_not_list(compiler: list[Result], cli: Cli) -> None:
    """Thousands of places are listed; the rest, as of 32 GB in 16384 blocks, has its own sum."""
    large = cli("run", MACHINE, "--trace", "gen:gups?footprint=32G&updates=100000", "--profile", "--json").json()
    for result in [*compiler, Result(large)]:
        for profile in (result.code, result.heat):
            assert len(profile["places"]) <= 8192
            assert (profile["rest"]["places"] > 0) == (len(profile["places"]) == 8192)
            for key in ("l1i_misses", "l1d_misses", "walks", "walk_reads", "walk_cycles", "stall_cycles"):
                total = sum(place[key] for place in profile["places"]) + profile["rest"][key]
                assert total == sum(region[key] for region in result.regions), key
    assert large["heat"]["rest"]["places"] > 8000
    assert compiler[0].code["rest"]["places"] == 0, "all of what the compiler ran is listed"


@pytest.mark.parametrize("width", [80, 100, 140])
def test_tables_fit_the_terminal(compiler: list[Result], width: int) -> None:
    """No line is longer than the terminal is wide, and no heading or figure is cut; names are."""
    out = Console(file=io.StringIO(), width=width, force_terminal=True, no_color=True, highlight=False)
    outcome = Outcome(sorted(compiler, key=lambda r: DEFAULT_POLICIES.index(r.policy)))
    terminal.show(out, outcome, whole=True)
    assert isinstance(out.file, io.StringIO)
    lines = out.file.getvalue().replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "").splitlines()
    # Lines to paste stay whole.
    to_paste = [line for step in verdict.of(outcome).steps for _, line in step.how]
    assert max(len(line) for line in lines if not any(line.endswith(whole) for whole in to_paste)) <= width
    heads = {word for line in lines for word in line.split()}
    assert {"L1I", "L2D", "translation", "resident", "bloat", "tables", "memory"} <= heads
    tables = lines[next(at for at, line in enumerate(lines) if line.startswith("Regions")) :]
    assert [line for line in tables if "…" in line and "%" in line and line.index("…") > line.index("%")] == []
    assert "…" not in tables[0] + tables[1], "headings are whole"


def test_a_program_with_brackets_in_its_arguments_is_shown_as_it_is(cli: Cli, tmp_path: Path) -> None:
    """What looks like the markup of the terminal library is not taken for it."""
    assert cli("trace", "convert", SMALL, "a.mmt").code == 0
    (tmp_path / "[bold]x[end].mmtx").write_text("mmap 0x40000000 4M rw anon\nw 0x40000000\n")
    ran = cli("run", MACHINE, "--trace", "[bold]x[end].mmtx")
    assert ran.code == 0, ran.err
    assert "[bold]x[end].mmtx" in ran.out
    studied = cli("study", "[bold]x[end].mmtx", "--machines", MACHINE)
    assert studied.code == 0, studied.err
    assert "[bold]x[end].mmtx" in studied.out


@pytest.mark.parametrize("command", ["run", "explain", "study"])
def test_a_machine_for_other_programs_is_warned_of_once(cli: Cli, command: str) -> None:
    """Whatever command runs it."""
    trace = ["--trace", SMALL, "neoverse-n1"] if command != "study" else [SMALL, "--machines", "neoverse-n1"]
    ran = cli(command, *trace)
    assert ran.code == 0, ran.err
    assert ran.err.count("warning: neoverse-n1 is a machine for aarch64; the trace is of x86-64 code") == 1


def test_a_study_leaves_nothing_of_the_one_before_it(cli: Cli, tmp_path: Path) -> None:
    """Written where one is, it replaces its results; other files stay."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    assert cli("study", SMALL, "--machines", f"{MACHINE},zen3-5900x", "--out", "out").code == 0
    other = ("study", SMALL, "--machines", "zen3-5900x", "--policies", "linux-4k", "--out", "out")
    assert cli(*other, "--replace").code == 0
    assert [p.name for p in (tmp_path / "out" / "results").iterdir()] == ["zen3-5900x--linux-4k.json"]
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_a_program_that_cannot_be_started_leaves_nothing(cli: Cli, tmp_path: Path) -> None:
    """Neither one that is not there nor one that may not be executed."""
    (tmp_path / "script").write_text("#!/bin/sh\n")
    for program, said in (("./nowhere", "no such program"), ("./script", "chmod +x ./script")):
        ran = cli("study", "--", program)
        assert ran.code == 2
        assert said in ran.err
    assert [p.name for p in tmp_path.iterdir()] == ["script"]


def test_studies_are_compared_machine_by_machine(cli: Cli) -> None:
    """Two studies of one trace: the same machine under the same policy stand side by side, what one lacks is told."""
    for out, machines, sets in (("a", f"{MACHINE},zen3-5900x", []), ("b", MACHINE, ["--set", "tlb.STLB.entries=192"])):
        assert cli("study", SMALL, "--machines", machines, "--policies", "linux-4k", "--out", out, *sets).code == 0
    ran = cli("compare", "a", "b")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[2].split() == ["linux-4k", "b"]
    assert ran.out.splitlines()[3].split() == ["a", "tlb.STLB.entries=192"]
    assert "in one study only, and not compared: zen3-5900x / linux-4k" in ran.err


def test_a_result_of_another_layout_is_refused(cli: Cli, tmp_path: Path) -> None:
    """With what to do."""
    assert cli("run", MACHINE, "--trace", SMALL, "--out", "out").code == 0
    path = tmp_path / "out" / f"{MACHINE}--linux-4k.json"
    data = json.loads(path.read_text())
    path.write_text(json_text({**data, "schema": 1}))
    ran = cli("compare", path, path)
    assert ran.code == 2
    assert "in layout 1 and not 4" in ran.err
    assert "run the trace again" in ran.err


def _keys(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}"
            yield from _keys(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, f"{path}[]")


def test_a_result_of_layout_3_is_read_under_the_names_of_today(cli: Cli, tmp_path: Path) -> None:
    """The result that an earlier version wrote has the keys, and the counts, that this one writes."""
    old = Result.load(CHECKOUT / "tests" / "data" / "result-layout-3.json")
    run = ("run", "elastic-cuckoo", "--trace", "gen:gups?footprint=4M&updates=200", "--out", "out")
    assert cli(*run).code == 0
    new = Result.load(tmp_path / "out" / "elastic-cuckoo--linux-4k.json")
    assert set(_keys(old.data["counts"])) == set(_keys(new.data["counts"]))
    assert old.data["counts"] == new.data["counts"]
    assert set(_keys(old.data["machine"])) == set(_keys(new.data["machine"]))
    ran = cli("compare", "out", CHECKOUT / "tests" / "data" / "result-layout-3.json")
    assert ran.code == 0, ran.err


def test_json_is_laid_out_for_people_and_still_json() -> None:
    """Lists of tables have an entry a line; deep tables are one."""
    value = {"a": [{"x": 1, "y": [1, 2]}, {"x": 2, "y": []}], "b": {"c": {}, "d": [1, 2]}, "e": "ä"}
    text = json_text(value)
    assert json.loads(text) == value
    assert text.splitlines()[1:4] == [' "a": [', '  {"x": 1, "y": [1, 2]},', '  {"x": 2, "y": []}']
    assert "ä" in text


def test_the_tab_key_offers_what_there_is(cli: Cli) -> None:
    """Commands, machines and policies, also after a comma."""

    def offered(words: str) -> list[str]:
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_MMULAB_COMPLETE": "bash_complete"}
        return [line.split(",", 1)[1] for line in cli(**asked).out.splitlines()]

    assert "study" in offered("mmulab st")
    assert offered("mmulab run skyl") == [MACHINE]
    policies = [f"linux-4k,linux-thp{more}" for more in ("", "-khugepaged", "-madvise")]
    assert offered("mmulab study --policies linux-4k,linux-th") == policies
    assert offered("mmulab run zen3-5900x --trace gen:gu") == ["gen:gups"]
    for shell in ("bash", "zsh", "fish"):
        assert "_MMULAB_COMPLETE" in cli("completion", shell).out


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal of 80 columns without colours shows."""
    shown = io.StringIO()
    out = Console(file=shown, width=80, force_terminal=True, color_system=None, highlight=False)
    monkeypatch.setattr(console, "out", lambda: out)
    return shown


def test_a_description_is_shown_whole_on_a_narrow_terminal(narrow: io.StringIO, capsys: pytest.CaptureFixture) -> None:
    """Its longest lines are sources and reasons."""
    for kind, name in (("machines", MACHINE), ("policies", "linux-4k")):
        assert invoke([kind, "show", name]) == 0
        text = (CHECKOUT / kind / f"{name}.toml").read_text("utf-8")
        assert "".join(text.split()) in "".join(narrow.getvalue().split())
    narrow.truncate(0)
    assert invoke(["machines", "list"]) == 0
    assert "…" not in narrow.getvalue()
    assert capsys.readouterr().err == ""


def test_comparisons_are_not_broken_on_a_narrow_terminal(
    compiler: list[Result], narrow: io.StringIO, tmp_path: Path
) -> None:
    """As many results side by side as fit; each figure on one line with its difference."""
    for result in compiler:
        result.save(tmp_path)
    assert invoke(["compare", str(tmp_path)]) == 0
    lines = narrow.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    # Four policies: two side by side, one, and one.
    assert sum("page walks" in line for line in lines) == 3
    for line in lines:
        assert line.count("(") == line.count(")"), line


def test_what_scrolls_in_a_report_can_be_reached_by_keys(compiler: list[Result]) -> None:
    """A checker of accessible pages (axe-core) finds fault with anything else."""
    page = html(Outcome(compiler))
    assert page.count('class="scroll"') > 5
    assert page.count('class="scroll"') == page.count('class="scroll" tabindex="0" role="group"')


def test_regions_of_next_to_no_cost_have_no_rows(compiler: list[Result]) -> None:
    """They are counted below the table."""
    outcome = Outcome(sorted(compiler, key=lambda r: DEFAULT_POLICIES.index(r.policy)))
    (found,) = outcome.regions.values()
    total = sum(r.cost["linux-4k"] for r in found)
    shown = [r for r in found if r.cost["linux-4k"] >= 0.001 * total or r.gain]
    assert 0 < len(shown) < len(found)
    assert f"{len(found) - len(shown)} more regions" in html(outcome)
