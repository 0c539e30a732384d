"""Every command that the README and the guide show does what they say it does: it runs."""

import platform
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import CHECKOUT, Cli

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs" / "guide").glob("*.md"))]
RECORDS = shutil.which(f"qemu-{platform.machine()}") is not None
# What a page's commands take for granted, and counts for a program that is done in a moment.
SMALLER = {"3G": "40k", "3500M": "60k", "500M": "20k", "100M": "20k"}
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


@pytest.fixture
def prepared(cli: Cli, tmp_path: Path) -> Cli:
    """A directory with `my-program`, its recording and a study of it, and traces of a GPU."""
    shutil.copytree(CHECKOUT / "tests" / "data" / "accel-sim", tmp_path / "traces")
    if not RECORDS:
        shutil.copy(CHECKOUT / "tests" / "data" / "cc1-small.mmt", tmp_path / "prog.mmt")
        assert cli("trace", "slice", "prog.mmt", "prog.mmtx", "--end", "100k").code == 0
        assert cli("study", "prog.mmt", "--out", "study-my-program", "--max-instructions", "1M").code == 0
        (tmp_path / "my-program").write_bytes(Path("/bin/true").read_bytes())
        return cli
    (tmp_path / "p.c").write_text(PROGRAM)
    linked = ["cc", "-O1", "-Wl,-z,max-page-size=0x200000", "-o", "my-program", "p.c"]
    subprocess.run(linked, cwd=tmp_path, check=True)
    assert cli("record", "-o", "prog.mmt", "--", "./my-program").code == 0
    assert cli("trace", "convert", "prog.mmt", "prog.mmtx").code == 0
    assert cli("study", "--out", "study-my-program", "--", "./my-program").code == 0
    return cli


def _write_files(page: Path, directory: Path) -> None:
    """The TOML files of a page whose first line is their name."""
    for name, text in re.findall(
        r"^```toml\n# (\w+\.toml)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    ):
        (directory / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(prepared: Cli, tmp_path: Path, page: Path) -> None:
    """In their order, in one directory."""
    _write_files(page, tmp_path)
    for words in _commands(page):
        words = [SMALLER.get(word, word) for word in words]
        output = words.index(">") if ">" in words else None
        ran = prepared(*words[:output])
        assert ran.code == 0, f"mmulab {shlex.join(words)}\n{ran.err}"
        if output is not None:
            (tmp_path / words[output + 1]).write_text(ran.out)


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
