"""Notebooks: each runs from its first cell to its last, and prints what it keeps; none names a path of a computer."""

import re
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from conftest import CHECKOUT

NOTEBOOKS = sorted((CHECKOUT / "docs" / "notebooks").glob("*.ipynb"))
# Directories in which people and builds have files of their own.
OWN_PATH = re.compile(r"/(?:home|root|tmp|work|Users|private|builds|mnt)/|site-packages")
# Each takes 2 to 6 s on a slow computer that has nothing else to do.
SECONDS_MAX = 120


@pytest.fixture
def notebooks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that executes them, as a module."""
    for name in ("nbclient", "ipykernel"):
        pytest.importorskip(name)
    monkeypatch.syspath_prepend(str(CHECKOUT / "scripts"))
    import notebooks

    monkeypatch.delitem(sys.modules, "notebooks")
    return notebooks


def test_there_is_a_notebook_for_each_part_of_the_api() -> None:
    assert {path.stem for path in NOTEBOOKS} == {"record", "run", "study", "forecast", "sweep", "explain"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_keeps(notebooks: ModuleType, tmp_path: Path, path: Path) -> None:
    """`make notebooks` accepts a change."""
    begun = time.monotonic()
    anew = notebooks.executed(path, tmp_path)
    assert time.monotonic() - begun < SECONDS_MAX
    kept = notebooks.nbformat.read(path, as_version=4)
    compared = 0
    for cell, again in zip(kept.cells, anew.cells, strict=True):
        if cell.cell_type != "code":
            continue
        assert cell.outputs, cell.source
        assert any(map(notebooks.pictured, cell.outputs)) == any(map(notebooks.pictured, again.outputs))
        if not notebooks.varies(cell):
            assert notebooks.printed(again) == notebooks.printed(cell), cell.source
            compared += 1
    assert compared >= 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_names_no_path_of_a_computer(path: Path) -> None:
    text = path.read_text("utf-8")
    assert OWN_PATH.findall(text) == []
    assert str(CHECKOUT) not in text
    assert OWN_PATH.findall("/home/me/a.mmt") == ["/home/"]


def test_a_cell_that_prints_something_else_is_found(notebooks: ModuleType, tmp_path: Path) -> None:
    """And one that fails ends the execution."""
    book = notebooks.nbformat.v4.new_notebook(cells=[notebooks.nbformat.v4.new_code_cell("print(2 * 3)\n'x'")])
    notebooks.nbformat.write(book, tmp_path / "a.ipynb")
    done = notebooks.executed(tmp_path / "a.ipynb", tmp_path)
    assert notebooks.printed(done.cells[0]) == "6\n'x'\n"
    book.cells[0].source = "1 / 0"
    notebooks.nbformat.write(book, tmp_path / "a.ipynb")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        notebooks.executed(tmp_path / "a.ipynb", tmp_path)
