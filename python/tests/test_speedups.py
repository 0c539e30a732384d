"""Published speed-ups beside modelled ones: the data, their direction on small inputs, and what is refused."""

import json

import pytest
from conftest import Cli

from mmulab import engine
from mmulab.reproduce.shared.bounds import between
from mmulab.reproduce.shared.pages import marks
from mmulab.reproduce.speedups import ratios as speedups


def test_every_published_ratio_can_be_modelled() -> None:
    rows = speedups.published()
    assert len(rows) > 30
    for row in rows:
        assert row.program in speedups.PROGRAMS
        assert {row.base, row.other} <= speedups.SIZES.keys()
        assert 0.9 < row.ratio < 1.6
    for machine in {row.machine for row in rows}:
        assert engine.resolve(engine.Job(machine, "linux-4k"))["machine"]["core"]["timing"] is not None


def test_larger_pages_are_faster_where_they_were_on_hardware(cli: Cli) -> None:
    page = cli.cwd / "page.md"
    page.write_text(
        "".join(f"{begin}\n{end}\n" for begin, end in (marks("speedups", n) for n in ("speedups", "inputs")))
    )
    ran = cli("reproduce", "speedups", "--quick", "--programs", "gups,btree", "--page", page, "--json")
    assert ran.code == 0, ran.err
    rows = {row["program"]: row for row in ran.json()["rows"]}
    assert rows["gups"]["agrees"]
    # Both say which of their loads wait for which, so that both times are one.
    low, high = rows["gups"]["modelled"]
    assert low == high > 1.1
    low, high = rows["btree"]["modelled"]
    assert 1 < low == high
    text = page.read_text(encoding="utf-8")
    assert "| neoverse-n1 | gups | 4K to THP | 1.33 |" in text
    assert "same direction" in text
    assert json.loads(ran.out)["quick"]


def test_a_program_that_was_stopped_makes_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    real = engine.run
    asked: list[int | None] = []

    def stop(name: str, jobs: object, options: engine.Options, *more: object) -> engine.Ran:
        asked.append(options.skip)
        ran = real(name, jobs, options, *more)  # type: ignore[arg-type]
        if "gups" in name:
            ran.results[0].data.update(complete=False, ended={"reason": "interrupted"})
        return ran

    monkeypatch.setattr(engine, "run", stop)
    plan = speedups.Plan(("gups", "btree"), quick=True, options=engine.Options(skip=1000, max_instructions=20_000))
    outcome = speedups.run(plan, lambda _share: None)
    assert not outcome.complete
    assert {row.published.program for row in outcome.rows} == {"btree"}
    assert set(asked) == {1000}


def test_a_program_that_nobody_published_is_refused_by_name(cli: Cli) -> None:
    ran = cli("reproduce", "speedups", "--programs", "gups,doom")
    assert ran.code == 2
    assert "--programs: there is no 'doom'" in ran.err
    assert "btree" in ran.err


def test_a_range_is_written_once_where_both_ends_look_alike() -> None:
    assert between((0.1, 0.0999)) == "+10.0%"
    assert between((0.3, 0.1)) == "+10.0% to +30.0%"
    assert between((1.002, 1.3), ".2f") == "1.00 to 1.30"


@pytest.mark.parametrize(
    ("ratio", "low", "high", "agrees"),
    [
        (1.3, 1.1, 1.2, True),
        (1.3, 0.9, 1.2, False),
        (0.96, 0.9, 0.95, True),
        (1.01, 1.2, 1.3, False),
        (1.01, 0.9, 1.3, True),
    ],
)
def test_directions_agree_if_both_bounds_do(ratio: float, low: float, high: float, agrees: bool) -> None:
    published = speedups.Published("s", "m", "p", "4K", "2M", ratio)
    assert speedups.Row(published, low, high).agrees is agrees
