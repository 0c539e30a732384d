"""Every command that the README, the guide and the questions show runs, and prints what the questions say it prints."""

import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import rich_click as click
from conftest import CHECKOUT, Cli, Ran

from mmulab import UserError
from mmulab.cli.app import app, invoke
from mmulab.reproduce.mix import gpu
from mmulab.reproduce.pte_coalescing import group_size

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs" / "guide").glob("*.md"))]
QUESTIONS = sorted((CHECKOUT / "docs" / "questions").glob("*.md"))
RECORDS = shutil.which(f"qemu-{platform.machine()}") is not None
# What a page's commands take for granted, and counts for a program that is done in a moment.
SMALLER = {"3G": "40k", "3500M": "60k", "500M": "20k", "100M": "20k"}
# Commands that take long, by their first words, and what the suite adds to them. `make test-long` runs them as they
# stand.
LESS = {
    ("probe",): ["--from", str(CHECKOUT / "tests" / "data" / "probe-zen4-guest.json")],
    ("reproduce", "elastic-sizes"): ["--max-instructions", "20k"],
    ("reproduce", "elastic-mixes"): ["--max-instructions", "20k"],
}
# Some have no option for it: the module, and the values that the suite gives its names.
PATCHED = {
    ("reproduce", "gpu-tlbs"): (gpu, {"QUICK_INSTRUCTIONS": 10_000}),
    ("reproduce", "pte-coalescing-group-size"): (
        group_size,
        {"REFERENCES": 20_000, "DENSE": ("gen:gups?footprint=16M&updates=20k",), "SHARES": (0.5, 1.0)},
    ),
}
# Experiments that other tests run whole, as commands too: by the file. Here the suite only reads their options.
READ = {
    "compendia-figure-15": "test_reproduce_compendia.py",
    "compendia-speedup": "test_reproduce_compendia.py",
    "compendia-thresholds": "test_reproduce_compendia.py",
    "elastic-fault-latency": "test_reproduce_elastic.py",
    "elastic-systems": "test_reproduce_elastic.py",
    "leshy": "test_leshy.py",
    "pte-coalescing-table": "test_reproduce.py",
    "speedups": "test_speedups.py",
    "together": "test_together.py",
}
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    long sum = 0, n = 1 << 16;
    long *table = malloc(n * sizeof *table);
    for (long i = 0; i < n; i++) table[i * 7919 % n] = i;
    for (long i = 0; i < n; i++) sum += table[i];
    printf("%ld took 0.001 s\n", sum);
}
"""


def _commands(page: Path) -> list[list[str]]:
    """The commands of mmulab on a page, but those that need another tool's trace, or a guest: it has its own tests."""
    lines = re.findall(r"^\$ (?:\.venv/bin/)?mmulab (.*)$", page.read_text("utf-8"), re.MULTILINE)
    found = [shlex.split(line, comments=True) for line in lines]
    # Without QEMU what needs no recording is run on the shipped one.
    left_out = {"prog.view", "prog.lackey", "--system"}
    left_out |= set() if RECORDS else {"record", "check", "--"}
    return [words for words in found if not left_out & set(words)]


@pytest.fixture(scope="session")
def prepared_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `my-program`, its recording and a study of it, and traces of a GPU."""
    directory = tmp_path_factory.mktemp("prepared")
    cli = Cli(directory)
    shutil.copytree(CHECKOUT / "tests" / "data" / "accel-sim", directory / "traces")
    if not RECORDS:
        shutil.copy(CHECKOUT / "tests" / "data" / "cc1-small.mmt", directory / "prog.mmt")
        assert cli("trace", "slice", "prog.mmt", "prog.mmtx", "--end", "100k").code == 0
        assert cli("study", "prog.mmt", "--out", "study-my-program", "--max-instructions", "1M").code == 0
        (directory / "my-program").write_bytes(Path("/bin/true").read_bytes())
        return directory
    (directory / "p.c").write_text(PROGRAM)
    linked = ["cc", "-O1", "-Wl,-z,max-page-size=0x200000", "-o", "my-program", "p.c"]
    subprocess.run(linked, cwd=directory, check=True)
    assert cli("record", "-o", "prog.mmt", "--", "./my-program").code == 0
    assert cli("trace", "convert", "prog.mmt", "prog.mmtx").code == 0
    assert cli("study", "--out", "study-my-program", "--", "./my-program").code == 0
    return directory


@pytest.fixture
def prepared(prepared_once: Path, cli: Cli, tmp_path: Path) -> Cli:
    """The same directory, of one's own."""
    shutil.copytree(prepared_once, tmp_path, dirs_exist_ok=True)
    return cli


def _write_files(page: Path, directory: Path) -> None:
    """The TOML files of a page whose first line is their name."""
    for name, text in re.findall(
        r"^```toml\n# (\w+\.toml)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    ):
        (directory / name).write_text(text, encoding="utf-8")


def _less(words: list[str]) -> list[str]:
    """A command with what the suite adds to it."""
    return [*words, *next((more for first, more in LESS.items() if tuple(words[: len(first)]) == first), [])]


def _is_read(words: list[str]) -> bool:
    """Whether the suite only reads the options of a command."""
    return words[0] == "reproduce" and words[1] in READ


def _takes_long(words: list[str]) -> bool:
    """Whether the suite runs less of a command than a page shows."""
    return _less(words) != words or tuple(words[:2]) in PATCHED or _is_read(words)


def _read(words: list[str]) -> None:
    """Reads the options of an experiment's command as the command line does. Raises click's errors."""
    experiments = app.get_command(click.Context(app), words[0])
    assert isinstance(experiments, click.Group)
    experiment = experiments.get_command(click.Context(experiments), words[1])
    assert experiment is not None, words[1]
    experiment.make_context(words[1], words[2:])


def _run_page(prepared: Cli, tmp_path: Path, page: Path, run: Callable[[list[str]], Ran]) -> None:
    """Runs the commands of a page in their order, in one directory."""
    _write_files(page, tmp_path)
    for words in _commands(page):
        words = [SMALLER.get(word, word) for word in words]
        output = words.index(">") if ">" in words else None
        ran = run(words[:output])
        assert ran.code == 0, f"mmulab {shlex.join(words)}\n{ran.err}"
        if output is not None:
            (tmp_path / words[output + 1]).write_text(ran.out)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(
    prepared: Cli,
    tmp_path: Path,
    page: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Those that take long with smaller inputs. Options of experiments that other tests run are read."""

    def run(words: list[str]) -> Ran:
        if _is_read(words):
            with monkeypatch.context() as patch:
                patch.chdir(tmp_path)
                _read(words)
            return Ran(0, "", "")
        if tuple(words[:2]) not in PATCHED:
            return prepared(*_less(words))
        module, values = PATCHED[words[0], words[1]]
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            for name, value in values.items():
                patch.setattr(module, name, value)
            code = invoke(words)
        return Ran(code, *capsys.readouterr())

    _run_page(prepared, tmp_path, page, run)


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(map(_takes_long, _commands(page)))], ids=lambda page: page.stem
)
def test_the_commands_of_a_page_run_as_they_stand(prepared: Cli, tmp_path: Path, page: Path) -> None:
    """Also those that take long, with the inputs that the page gives them."""
    _run_page(prepared, tmp_path, page, lambda words: prepared(*words))


def _answers(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a page in their order, each with the lines that it shows as their output."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        # A command may go on after a backslash.
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.strip() not in ("", "..."):
                found[-1][1].append(line)
    return found


def _missing(expected: list[str], printed: str) -> list[str]:
    """The expected lines that do not follow each other in what was printed. Blanks do not count; `...` is anything."""
    lines = iter(" ".join(line.split()) for line in printed.splitlines())
    left = []
    for line in expected:
        parts = (re.escape(" ".join(part.split())) for part in line.split("..."))
        pattern = re.compile(r".*".join(parts))
        if not any(pattern.fullmatch(printed_line) for printed_line in lines):
            left.append(line)
    return left


@pytest.mark.parametrize("page", QUESTIONS, ids=lambda page: page.stem)
def test_a_question_is_answered_as_its_page_says(
    cli: Cli, tmp_path: Path, page: Path, request: pytest.FixtureRequest
) -> None:
    """A block with a file's name is this file. A console block has commands, and lines that they print."""
    text = page.read_text("utf-8")
    if not RECORDS and re.search(r"^\$ mmulab (record|study|try) .*\./", text, re.MULTILINE):
        pytest.skip("records a program, and there is no QEMU")
    if re.search(r"^\$ .*(my-program|prog\.mmt)", text, re.MULTILINE):
        request.getfixturevalue("prepared")
    (tmp_path / "tests").symlink_to(CHECKOUT / "tests")
    for name, content in re.findall(r"^```\w+ ([\w.-]+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(content)
    answers = _answers(text)
    assert answers or page.stem == "README"
    for command, expected in answers:
        words = shlex.split(command, comments=True)
        if words[0] == "cc":
            subprocess.run(words, cwd=tmp_path, check=True)
            continue
        assert words[0] == "mmulab", command
        output = words.index(">") if ">" in words else None
        ran = cli(*words[1:output])
        assert ran.code == 0, f"{command}\n{ran.err}"
        if output is not None:
            (tmp_path / words[output + 1]).write_text(ran.out)
        assert _missing(expected, ran.out) == [], f"{command}\n{ran.out}"


def test_lines_of_an_answer_are_found_in_their_order() -> None:
    printed = "a   1\nb 2\nc 3 of 4\n"
    assert _missing(["a 1", "c ... 4"], printed) == []
    assert _missing(["c 3 of 4", "a 1"], printed) == ["a 1"]
    assert _missing(["b 3"], printed) == ["b 3"]
    assert _answers("```console\n$ mmulab run \\\n  x\na\n...\n$ mmulab y\n```\n") == [
        ("mmulab run    x", ["a"]),
        ("mmulab y", []),
    ]


def test_options_that_are_read_are_those_of_the_command(tmp_path: Path) -> None:
    trace = ["reproduce", "pte-coalescing-table", "--trace", str(tmp_path / "none.mmt")]
    _read([*trace[:3], "gen:gups"])
    for wrong in (trace, [*trace[:3], "gen:gups", "--beside"], ["reproduce", "together", "--max-instructions", "few"]):
        with pytest.raises((click.UsageError, UserError)):
            _read(wrong)


def test_experiments_whose_options_are_read_are_run_by_other_tests() -> None:
    for experiment, file in READ.items():
        assert f'"{experiment}"' in (CHECKOUT / "python" / "tests" / file).read_text("utf-8"), experiment


def test_the_pages_show_commands() -> None:
    """The pattern above finds them: most of the commands there are."""
    shown = {words[0] for page in PAGES for words in _commands(page)}
    assert {"study", "run", "explain", "trace", "compare", "machines"} <= shown


def test_what_descriptions_say_to_set_can_be_set(cli: Cli) -> None:
    """Reasons of assumptions name keys: each is one of the machine's or the policy's whose file names it."""
    asked = 0
    for file in [*(CHECKOUT / "machines").glob("*.toml"), *(CHECKOUT / "policies").glob("*.toml")]:
        for key in sorted(set(re.findall(r"--set ([\w.]+)=", file.read_text("utf-8")))):
            machine = file.stem if file.parent.name == "machines" else "skylake-e3-1240v5"
            policy = file.stem if file.parent.name == "policies" else "linux-4k"
            value = "1G" if key.endswith("pool") else "2"
            args = ["--trace", "gen:gups?updates=10", "--policy", policy, "--set", f"{key}={value}"]
            ran = cli("run", machine, *args)
            assert ran.code == 0, f"{file.name}: --set {key}: {ran.err}"
            asked += 1
    assert asked > 3
