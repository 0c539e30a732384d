"""Pareto fronts of sweeps: against their definition over random tables, in the command, and in the picture of pairs."""

import itertools
from pathlib import Path

import pytest
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as some
from sweeps import SMALL, written

from mmulab import UserError, sweep
from mmulab.sweep.front import Row, front
from mmulab.sweep.pairs import COLUMNS_MAX, pairs

NAMES = ("a", "b", "c", "d", "e")


@some.composite
def tables(draw: some.DrawFn) -> tuple[list[Row], list[str], list[str]]:
    """Rows of few different values, so that many are equal; their columns, and those in which more is better."""
    columns = list(NAMES[: draw(some.integers(1, len(NAMES)))])
    value = some.one_of(some.none(), some.integers(-2, 2), some.sampled_from([-0.5, 0.25, 1e300]))
    rows = draw(some.lists(some.fixed_dictionaries(dict.fromkeys(columns, value)), max_size=25))
    numbered = [{**row, "job": number} for number, row in enumerate(rows)]
    return numbered, columns, draw(some.lists(some.sampled_from(columns), unique=True))


@given(tables())
def test_the_front_holds_what_nothing_beats(table: tuple[list[Row], list[str], list[str]]) -> None:
    """Against the definition: each row compared with each other one."""
    rows, columns, most = table

    def beats(one: Row, other: Row) -> bool:
        better = worse = False
        for name in columns:
            if one[name] != other[name]:
                is_less = one[name] < other[name]
                better |= is_less != (name in most)
                worse |= is_less == (name in most)
        return better and not worse

    valued = [row for row in rows if None not in row.values()]
    expected = [row["job"] for row in valued if not any(beats(other, row) for other in valued)]
    found = front(rows, columns, most)
    assert sorted(row["job"] for row in found) == expected
    # The best in the first column comes first.
    firsts = [row[columns[0]] for row in found]
    assert firsts == sorted(firsts, reverse=columns[0] in most)


def test_two_rows_of_which_each_is_better_somewhere_are_both_in_a_front_of_three() -> None:
    """And a third one that is worse in one column only is not."""
    rows: list[Row] = [
        {"time": 1, "area": 2, "energy": 3},
        {"time": 2, "area": 1, "energy": 3},
        {"time": 1, "area": 2, "energy": 4},
    ]
    assert front(rows, ("time", "area", "energy")) == rows[:2]
    assert front(rows, ("time", "area", "energy"), ["energy"]) == rows[:0:-1]
    assert front(rows, ("time", "area")) == [rows[0], rows[2], rows[1]]


@pytest.fixture
def swept(tmp_path: Path) -> sweep.Results:
    """The results of the small sweep, in `out`."""
    sweep.run(sweep.plan(sweep.read(written(tmp_path, SMALL))), tmp_path / "out", workers=1)
    return sweep.Results(tmp_path / "out")


def test_the_command_lists_the_front_of_time_area_and_energy(cli: Cli, swept: sweep.Results) -> None:
    columns = ("cycles", "tlb_area", "energy_nj")
    where = "trace LIKE 'gen:gups%'"
    asked = [word for name in columns for word in ("--least", name)]
    listed = cli("results", "front", "out", *asked, "--where", where, "--format", "json")
    assert listed.code == 0, listed.err
    rows = swept.values(["job", *columns], where)
    beaten = {
        row["job"]
        for row, other in itertools.product(rows, rows)
        if all(other[n] <= row[n] for n in columns) and any(other[n] < row[n] for n in columns)
    }
    assert {row["job"] for row in listed.json()} == {row["job"] for row in rows} - beaten
    assert beaten
    assert len(listed.json()) > 1
    # More area cannot be better than less: with its direction turned, the front is another one.
    turned = cli("results", "front", "out", "--least", "cycles", "--most", "tlb_area", "--format", "json").json()
    most_area = max(row["tlb_area"] for row in turned)
    assert most_area == max(row["tlb_area"] for row in swept.values(["tlb_area"]))


def test_the_picture_has_a_panel_for_each_pair(cli: Cli, tmp_path: Path, swept: sweep.Results) -> None:
    columns = ["cycles", "tlb_area", "energy_nj", "walks"]
    asked = [word for name in columns for word in ("--least", name)]
    texts = []
    for name in ("a.svg", "b.svg"):
        drawn = cli("results", "front", "out", *asked, "--plot", name)
        assert drawn.code == 0, drawn.err
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]
    assert texts[0].count(">Pareto front<") == 4 * 3 // 2
    for label in ("cycles", "tlb_area (cells of static memory)", "energy_nj (nanojoules)"):
        assert texts[0].count(f">{label}<") == 3, label
    with pytest.raises(UserError, match=f"needs 2 to {COLUMNS_MAX} columns, not 7"):
        pairs([], [str(number) for number in range(7)], [])
    with pytest.raises(UserError, match="no job has values of a, b"):
        pairs([{"a": 1, "b": None}], ["a", "b"], [])
