"""`mmulab reproduce instruction`: the four experiments of paper 2 in one command."""

import json
from pathlib import Path

import pytest
from code_programs import CODE, PAGE, Server
from conftest import CHECKOUT

from mmulab import engine, stopwatch
from mmulab.probe import walks
from mmulab.reproduce.instruction import chain, everything, native_chain, promotion
from mmulab.reproduce.instruction.experiments import EVERYTHING, PARTS, SERVERS
from mmulab.reproduce.instruction.setting import REAL
from mmulab.reproduce.instruction.subjects import Shared
from mmulab.reproduce.shared import in_turn
from mmulab.reproduce.shared.cells import Store
from mmulab.reproduce.shared.experiment import Session

KNOWN = {setting.name: setting for setting in stopwatch.SETTINGS}


def test_one_command_has_the_tables_of_all_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them as its own command makes them, and the files of all."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # A trace of text has no program headers to lay its files out anew by.
    monkeypatch.setattr(Shared, "options", lambda *_: engine.Options(code_residency=True))
    source = tmp_path / "server.mmtx"
    source.write_text(Server(2, turns=1, calls=40).text())
    plan = everything.Plan(traces=(str(source),), timing=False, rounds=20, cores=(1,), machines=(REAL,))
    found = EVERYTHING.run(plan, Session())
    assert {f"{part.name}.md" for part in PARTS} <= set(found.files)
    assert [part["experiment"] for part in found.data] == [part.name for part in PARTS]
    alone = SERVERS.run(in_turn.Step(SERVERS).plan(plan), Session())
    assert {name: found.tables[name] for name in alone.tables} == dict(alone.tables)
    assert {"chain", "residency", "sweep", "parallel"} <= set(found.tables)


def test_the_table_of_padding_tells_which_programs_execute_their_residual_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two superpages of code and 500 pages behind them, with 12 pages of data for the kernel to fill up with."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Shared, "options", lambda *_: engine.Options(code_residency=True))
    mapped = (
        f"mmap {CODE:#x} {1524 * 4}K rx file:/bin/prog+0\nmmap {0xBF4000:#x} 48K rw file:/bin/prog+{1524 * PAGE:#x}\n"
    )
    paths = []
    for name, of in (("whole", lambda n: n % 1024), ("residual", lambda n: 1024 + n % 500)):
        paths.append(tmp_path / f"{name}.mmtx")
        fetches = (f"f {CODE + page * PAGE:#x} x20\n" for n in range(4000) for page in (n * 25 % 1000, of(n)))
        paths[-1].write_text(mapped + "".join(fetches))
    outcome = promotion.run(promotion.Plan(traces=tuple(map(str, paths)), timing=False), Store(), Session())
    whole, residual = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in outcome.tables()["padding"].splitlines()
        if line.startswith(("| whole", "| residual"))
    )
    assert whole == ["whole", "500", "0", "0", "+0", "100.0%", "100.00%"]
    assert residual[:4] == ["residual", "500", "500", "1"]
    assert float(residual[5].rstrip("%")) < 50
    assert float(residual[6].rstrip("%")) < 95


@pytest.mark.parametrize(
    "about", [{64, 65}, pytest.param({48, 64, 65, 80}, marks=pytest.mark.long)], ids=["few", "all"]
)
def test_the_chain_is_timed_on_this_computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, about: set[int]) -> None:
    """Base pages and pages of 2 MB take turns; what is modelled runs on the description that the probe makes."""
    if any(KNOWN[name].missing() for name in native_chain.SETTINGS):
        pytest.skip("no huge pages here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native_chain, "CALLS", 20_000)
    monkeypatch.setattr(native_chain, "RUNS", 3)
    # More numbers about the ITLB's end, and the search for walks that fit, take most of the time.
    all_about = native_chain.about
    monkeypatch.setattr(native_chain, "about", lambda arrays: all_about(arrays) & about)
    monkeypatch.setattr(walks, "find", lambda _timed, _write: walks.Walks())
    figures = json.loads((CHECKOUT / "tests/data/probe-zen4-guest.json").read_text())
    found = native_chain.run(figures, (8, 9), 20, Store())
    # The described ITLB has 64 entries.
    counts = [8, 9, *sorted(about)]
    assert [(row.superpages, row.setting) for row in found] == [(n, name) for n in counts for name in ("4k", "thp")]
    assert all((row.misses > 0.5) == (row.superpages > 64) for row in found if row.setting == "thp")
    assert all(0 < row.timed < 10_000 and 0 < row.modelled < 10_000 for row in found)
    assert all(row.fastest <= row.timed <= row.slowest for row in found)
    table = chain.Outcome([], found).tables()["here"]
    first = found[0]
    assert f"| 8 | {first.timed:.1f} ({first.fastest:.1f} to {first.slowest:.1f}) |" in table
    assert "| 9 |" in table
    assert "thp: timed here" in table
