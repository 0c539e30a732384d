"""What the authors of paper 3 published, beside what was found here: the programs, the data, and the tables made of
them.
"""

import pytest

from mmulab import engine
from mmulab.reproduce.elastic import measured
from mmulab.reproduce.elastic.programs import CLEARING, PROGRAMS
from mmulab.reproduce.elastic.systems import NAMES


def test_every_program_is_there_in_every_figure() -> None:
    names = {program.name for program in PROGRAMS}
    runs = measured.runs()
    assert {program for program, _ in runs["8"]} == {program for program, _ in runs["10"]} == names
    assert set(measured.sizes()) == names
    large = {"bfs", "canneal", "xsbench", "btree", "svm", "hashjoin"}
    assert set(runs["11"]) == {(program, level) for program in large for level in (50, 99)}
    assert set(measured.SYSTEMS.values()) <= set(NAMES)


def test_the_published_numbers_are_what_the_paper_says_of_them() -> None:
    """Its text has up to 39 % over THP natively, 150 % in virtual machines, and 93 % of XSBench at 4K. The published
    runs are near: they are not those that it prints."""
    native, virtual = measured.runs()["8"], measured.runs()["10"]
    over_thp = {
        place: systems["THP"].cycles / systems["online"].cycles - 1
        for of in (native, virtual)
        for place, systems in of.items()
    }
    assert max(systems["THP"].cycles / systems["online"].cycles for systems in native.values()) < 1.39
    assert over_thp["hashjoin", 0] == pytest.approx(1315354082065 / 656991439801 - 1)
    assert measured.sizes()["xsbench"]["offline"]["4K"] == pytest.approx(92.6, abs=0.1)


def test_tables_have_theirs_and_ours() -> None:
    here = {
        ("gups", 0, "THP"): measured.Here((0.7, 0.8), 0.5, {"2M": 100.0, "4K": 0.1}),
        ("xsbench", 99, "+Leshy, online"): measured.Here((0.01, 0.01), 0.25, {"64K": 100.0}),
    }
    tables = measured.tables(here, virtual=False)
    assert tables["paper-time"].splitlines()[2:] == [
        "| gups | 0 % | +108.9% / +70.0% to +80.0% | +132.0% / – | +131.4% / – |",
        "| xsbench | 99 % | -1.2% / – | +16.2% / +1.0% | +27.8% / – |",
    ]
    assert tables["paper-misses"].splitlines()[2].startswith("| gups | 0 % | 92.7% / 50.0% |")
    assert tables["paper-sizes"].splitlines()[2:] == [
        "| gups | 0 % | 2M 100 / 2M 100 | 32M 100 / – | 2M 2, 32M 98 / – |",
    ]
    assert set(measured.tables({}, virtual=True)) == {"paper-time", "paper-misses"}


@pytest.mark.parametrize("graph", ["bfs?scale=10", "friendster?scale=10&neighbours=8&most=60"])
def test_what_is_skipped_of_a_search_is_what_comes_before_its_source(graph: str) -> None:
    vertices = 1 << 10

    def references(instructions: int) -> int:
        job, options = engine.Job("zen3-5900x", "linux-4k"), engine.Options(max_instructions=instructions)
        return int(engine.run(f"gen:{graph}", [job], options).results[0].counts["references"])

    # Each vertex: a fetch, where its neighbours begin and end, and its parent. Then the source's parent and the queue.
    assert references(CLEARING * vertices) == 4 * vertices
    assert references(CLEARING * vertices + 30) == 4 * vertices + 3
