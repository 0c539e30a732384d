"""`moonshot/`, which builds a kernel and is run by hand.

Its files exist and state their licence, its hooks parse, and its comparison finds the differences that it is for.
"""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from conftest import CHECKOUT

MOONSHOT = CHECKOUT / "moonshot"
HOOKS = sorted((MOONSHOT / "hooks").glob("*.cocci"))
SOURCES = sorted(
    path
    for path in MOONSHOT.rglob("*")
    if path.is_file() and path.name not in ("LICENSE", "README.md") and "__pycache__" not in path.parts
)

# Two ranges of 64 KiB: the first whole, with the bit, but for a page that was given back and used again elsewhere.
RECORDED = """
mmap 0x7ff000 0x1000 rw anon growsdown label=[stack]
frames 0x10000 0x40000 64K
frames 0x20000 0x51000 4K x2
madvise 0x20000 0x1000 dontneed
fork 2
p 2.2
frames 0x10000 0x70000 4K x16
exit 0
p 1.1
frames 0x7ff000 0x7f000 4K
exit 0
"""
DRAWN = """process 1
level 4 table at 0x1000
  [0] 0x0: ->
              [16] 0x10000: 64K rw-ad at 0x80000 (16 entries)
              [33] 0x21000: 4K rw-ad at 0x92000
process 2
              [16] 0x10000: 15 x 4K rw-ad at 0x30000
"""


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    """The comparison, as a module."""
    spec = importlib.util.spec_from_file_location("moonshot_compare", MOONSHOT / "compare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_file_says_its_licence() -> None:
    assert len(SOURCES) > 9
    heads = {path: path.read_text(encoding="utf-8").splitlines()[:2] for path in SOURCES}
    assert [
        path.name for path, head in heads.items() if "SPDX-License-Identifier: GPL-2.0-only" not in " ".join(head)
    ] == []
    assert "GNU GENERAL PUBLIC LICENSE" in (MOONSHOT / "LICENSE").read_text(encoding="utf-8")
    assert 'exclude = ["python/tests/**", "moonshot/**"]' in (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_command_applies_each_hook_and_counts_its_calls() -> None:
    """A call that a semantic patch adds and that nobody counts could be missing from another Linux unnoticed."""
    command = (MOONSHOT / "run").read_text(encoding="utf-8")
    counted = set(re.findall(r'"(\w+) (\S+) (coala_\w+) \d"', command))
    added = set()
    for hook in HOOKS:
        [file] = re.findall(rf"{hook.stem}:(\S+?)[ ;]", command)
        text = "".join(line for line in hook.read_text(encoding="utf-8").splitlines(True) if line.startswith("+"))
        added |= {(hook.stem, file, call) for call in re.findall(r"\b(coala_\w+)\(", text)}
    assert len(added) > 7
    assert counted == added


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.stem)
@pytest.mark.skipif(shutil.which("spatch") is None, reason="needs Coccinelle")
def test_hooks_parse(hook: Path) -> None:
    ran = subprocess.run(["spatch", "--parse-cocci", str(hook)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_command_is_a_script_that_bash_understands() -> None:
    subprocess.run(["bash", "-n", str(MOONSHOT / "run")], check=True)


def test_a_recording_becomes_the_first_processs_pages(compare: ModuleType) -> None:
    """With the last frame of each, the bit, and without what was given back."""
    tables, stack = compare.recorded(RECORDED)
    assert stack == (0x7FF, 0x800)
    assert sorted(tables) == [*range(0x10, 0x20), 0x21, 0x7FF]
    assert tables[0x1F] == (0x4F, True, True)
    assert tables[0x21] == (0x52, False, False)


def test_a_page_is_in_place_in_the_block_of_its_range(compare: ModuleType) -> None:
    """Not in another one, even if the frame's number agrees with the page's modulo 16."""
    drawn = "process 1\n [1] 0x31000: 2 x 4K rw-ad at 0x41000\n [3] 0x33000: 4K rw-ad at 0x53000\n"
    tables = compare.simulated(drawn)
    assert [(page, entry.in_place) for page, entry in tables.items()] == [(0x31, True), (0x32, True), (0x33, False)]
    assert compare.said_of(0x33, tables[0x33]) == "in another block, no bit"


def test_differences_are_found_by_page(compare: ModuleType) -> None:
    """Whether a page is there, in its place and has the bit; not how far two kernels have it out of its place."""
    real, stack = compare.recorded(RECORDED)
    ours = compare.simulated(DRAWN)
    parts = compare.parts_of("part first 10000 10000\npart second 20000 10000\n", stack)
    first, second, stack_row = (compare.compared(part, real, ours) for part in parts)
    assert first == ("first", 16, 16, 16, 16, 16, 16, 16, 16)
    assert second == ("second", 1, 0, 0, 1, 0, 0, 1, 1)
    assert (stack_row.agree, stack_row.pages) == (0, 1)
    assert list(compare.differences(parts, real, ours, "elastic")) == [], "that of the stack is known"
    real[0x13] = real[0x13]._replace(bit=False)
    del ours[0x21]
    assert list(compare.differences(parts, real, ours, "elastic")) == [
        "first 0x13000 (page 3 of 16): Linux in place, no bit; elastic in place, bit",
        "second 0x21000 (page 1 of 16): Linux 1 out of place, no bit; elastic not there",
    ]


def test_the_end_of_the_program_is_left_out(compare: ModuleType) -> None:
    """The simulated kernel would free its tables at it."""
    assert compare.as_it_ends(RECORDED).endswith("4K\n")
    with pytest.raises(SystemExit, match="does not end"):
        compare.as_it_ends("w 0x1000\n")
