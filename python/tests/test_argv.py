"""Which words of a command line are the program's."""

import shutil
from pathlib import Path

import pytest
from conftest import Cli

from mmulab.cli.app import split_program


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a program, a script, and a file that is neither, named as a program in PATH is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog").write_bytes(b"\x7fELF" + bytes(60))
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "sort").write_bytes(b"recorded")
    (tmp_path / "traces").mkdir()
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("line", "own", "program"),
    [
        ("study ls -la", "study", "ls -la"),
        ("study --machines all --json ls -la --json", "study --machines all --json", "ls -la --json"),
        ("study --machines=all -- ls", "study --machines=all", "ls"),
        ("study --set a=1 --set b=2 ls", "study --set a=1 --set b=2", "ls"),
        # A flag takes no value: what follows it is the program.
        ("study --no-here true x", "study --no-here", "true x"),
        # The program's own dashes stay with it.
        ("record -o out.mmt git log -- file", "record -o out.mmt", "git log -- file"),
        ("record -oout.mmt ls", "record -oout.mmt", "ls"),
        ("try --pairs 8 ls -l", "try --pairs 8", "ls -l"),
        ("try -- ls --pairs 8", "try", "ls --pairs 8"),
        # Programs of this directory, by their first bytes.
        ("study prog --json", "study", "./prog --json"),
        ("study ./script x", "study", "./script x"),
        # One that is not there is still a program to these two: they say so themselves.
        ("record no-such-program", "record", "no-such-program"),
    ],
)
def test_the_first_word_that_is_no_option_is_the_program(line: str, own: str, program: str) -> None:
    assert split_program(line.split()) == (own.split(), program.split())


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "line",
    [
        "study sort --machines all",
        "study --machines all no-such-file",
        "study gen:gups?footprint=1M --json",
        "study mix:two-gups",
        "study traces",
        "study",
        "study --json",
        "run zen3-5900x --trace x",
        "",
    ],
)
def test_a_trace_is_no_program(line: str) -> None:
    assert split_program(line.split()) == (line.split(), None)


@pytest.mark.usefixtures("here")
def test_a_trace_and_a_program_are_both_handed_on_to_be_refused() -> None:
    assert split_program(["study", "sort", "--", "ls"]) == (["study", "sort"], ["ls"])


@pytest.mark.parametrize(
    "command", [("run", "skylake-e3-1240v5", "--trace"), ("trace", "info"), ("pages", "skylake-e3-1240v5", "--trace")]
)
def test_a_program_given_as_a_trace_is_explained(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    """An ELF file by what it is, the name of a program in PATH by what it is not."""
    shutil.copy(str(shutil.which("true")), tmp_path / "a.out")
    for given in ("./a.out", "true"):
        ran = cli(*command, given)
        assert ran.code == 2
        assert f"{given}: a program, not a trace" in ran.err
        assert f"hint: `mmulab study {given}`" in ran.err
        assert "mmulab record -o" in ran.err
