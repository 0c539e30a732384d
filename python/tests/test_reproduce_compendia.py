"""`mmulab reproduce compendia-...`: what is kept, what is run again, and what pages are given."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli

from mmulab import UserError, engine
from mmulab.reproduce.compendia import figure_15, speedup, thresholds, workloads
from mmulab.reproduce.compendia.closed_form import MIB
from mmulab.reproduce.shared.cells import Cell, Stopped, Store
from mmulab.reproduce.shared.pages import fill, marks

SMALL = figure_15.Plan((16 * MIB, 64 * MIB), 500, figure_15.WAYS[:2])


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["compendia-figure-15", "compendia-thresholds", "compendia-speedup"])
def test_each_writes_what_it_says(cli: Cli, tmp_path: Path, name: str) -> None:
    ran = cli("reproduce", name, "--quick", "--out", "out")
    assert ran.code == 0, ran.err
    out = tmp_path / "out"
    told = json.loads((out / f"{name}.json").read_text())
    assert told["experiment"] == name
    assert told["complete"]
    assert told["rows"]
    assert (out / f"{name}.svg").read_text().startswith("<?xml")
    text = (out / f"{name}.md").read_text()
    assert all(line in text for line in ran.out.splitlines() if line.startswith("|"))
    again = cli("reproduce", name, "--quick", "--json")
    assert again.json() == told
    assert "entries a walk" not in again.err, "all was kept"


def test_a_stopped_run_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real = engine.run

    def stop(*given: Any) -> engine.Ran:
        ran = real(*given)
        if len(done) == 3:
            ran.results[0].data.update(complete=False, ended={"reason": "interrupted"})
        return ran

    monkeypatch.setattr(engine, "run", stop)
    first = figure_15.run(SMALL, Store(lambda _done, _of, name, _figures: done.append(name)))
    assert not first.complete
    assert len(first.found) == len(done) == 3
    monkeypatch.setattr(engine, "run", real)
    more: list[tuple[int, int]] = []
    second = figure_15.run(SMALL, Store(lambda done, of, _name, _figures: more.append((done, of))))
    assert second.complete
    assert more == [(4, 4)]
    assert {key: figures.data for key, figures in first.found.items()}.items() <= {
        key: figures.data for key, figures in second.found.items()
    }.items()


def test_results_are_known_by_what_they_depend_on() -> None:
    job = engine.Job("compendia-baseline", "linux-4k")
    cells = [
        Cell("a", "gen:gups?footprint=1M", job),
        Cell("a", "gen:gups?footprint=2M", job),
        Cell("a", "gen:gups?footprint=1M", engine.Job("compendia-baseline", "linux-thp")),
        Cell("a", "gen:gups?footprint=1M", engine.Job("compendia-baseline", "linux-4k", ("memory.size=1G",))),
        Cell("a", "gen:gups?footprint=1M", job, engine.Options(max_instructions=5)),
        Cell("a", "gen:gups?footprint=1M", job, engine.Options(reshape={"populate": True})),
    ]
    assert len({cell.key for cell in cells}) == len(cells)
    assert Cell("b", "gen:gups?footprint=1M", job).key == cells[0].key


def test_misses_walked_again_give_what_whole_runs_give() -> None:
    programs = tuple(
        workloads.Workload(w.name, w.quick, populated=w.populated) for w in workloads.only("hash join", "B-tree")
    )
    by_misses, whole = (
        thresholds.run(thresholds.Plan(programs, 200_000, by_misses), Store()) for by_misses in (True, False)
    )
    assert by_misses.found.keys() == whole.found.keys()
    for key, figures in by_misses.found.items():
        assert (figures.walks, figures.accesses) == (whole.found[key].walks, whole.found[key].accesses), key
        assert figures.tables == whole.found[key].tables, key


def test_the_projection_is_the_papers() -> None:
    # Graph500: 70 % of the time in walks (section 6.1); from two entries to one, all savable, 1.54 times as fast.
    assert speedup.projected(0.7, 2.0, 1.0) == pytest.approx(1 / 0.65 - 1)
    assert speedup.projected(0.7, 1.0, 1.0) == 0
    assert speedup.projected(0.0, 2.0, 1.0) == 0


def test_pages_are_filled_between_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = marks("x", "one")
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    assert fill(page, "x", {"one": "| new |", "two": "| no place |"}) == 1
    assert page.read_text() == f"before\n{begin}\n| new |\n{end}\nafter\n"
    with pytest.raises(UserError, match="no place for a table of y"):
        fill(page, "y", {"one": ""})
    page.write_text(begin)
    with pytest.raises(UserError, match="has no"):
        fill(page, "x", {"one": ""})
    with pytest.raises(UserError, match="No such file"):
        fill(tmp_path / "none.md", "x", {"one": ""})


def test_stopped_while_misses_are_taken_leaves_no_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = engine.misses

    def stop(*given: Any) -> Any:
        result, written = real(*given)
        result.data.update(complete=False, ended={"reason": "interrupted"})
        return result, written

    monkeypatch.setattr(engine, "misses", stop)
    cell = Cell("a", "gen:gups?footprint=1M&updates=100", engine.Job("compendia-baseline", "linux-4k"))
    with pytest.raises(Stopped):
        Store().misses(cell)
    assert not list((tmp_path / "cache").rglob("*.mmt"))
