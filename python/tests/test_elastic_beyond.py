"""What paper 3 leaves open (`mmulab reproduce elastic-beyond`): what each question shows, on small runs."""

from collections.abc import Iterator

import pytest

from mmulab import engine
from mmulab.reproduce.elastic import beyond
from mmulab.reproduce.shared.cells import Store

QUESTIONS = {question.name: question for question in beyond.QUESTIONS}
Rows = dict[str, beyond.Row]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Runs of these tests alone, with one bound of dependence."""
    made = Store(fresh=True)
    made.directory = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beyond, "BOUNDS", beyond.BOUNDS[:1])
        yield made


def answer(store: Store, question: str, program: int = 0, instructions: int = 500_000) -> Rows:
    """The runs of one program, by their names."""
    asked = QUESTIONS[question]
    plan = beyond.Plan(questions=(asked,), options=engine.Options(max_instructions=instructions))
    rows = beyond.answer(plan, asked, asked.programs[program], store)
    assert [row.way for row in rows] == [way.name for way in asked.ways[1:]]
    return {row.way: row for row in rows}


def test_hints_of_1g_map_1g(store: Store) -> None:
    rows = answer(store, "giant")
    giant, plain = rows["hints up to 1G"], rows["hints up to 32M"]
    assert "1G" not in plain.sizes
    assert giant.sizes["1G"] % (1 << 30) == 0
    assert giant.misses < 0.5 * plain.misses
    # Its GiB is copied.
    assert giant.kernel > plain.kernel


def test_cold_memory_that_is_demoted_gives_its_blocks_to_hot_memory(store: Store) -> None:
    rows = answer(store, "demotion", instructions=1_000_000)
    plain, demoted = rows["hints"], rows["hints, and cold memory demoted"]
    assert demoted.of[0].events["hint_demotions"] > 100
    assert "hint_demotions" not in plain.of[0].events
    assert demoted.sizes["2M"] < 0.1 * plain.sizes["2M"]
    assert demoted.misses < 0.8 * plain.misses


def test_a_guest_hints_spare_its_host_work(store: Store) -> None:
    rows = answer(store, "guest-hints", instructions=1_000_000)
    scanned, none, told = (rows[name] for name in ("host scans", "host without hints", "guest's hints"))
    assert told.misses < 0.1 < 0.5 < none.misses
    assert told.misses == pytest.approx(scanned.misses, abs=0.02)
    assert told.kernel < 0.8 * scanned.kernel


def test_a_guest_hands_on_hints_of_32m_that_faults_of_2m_follow(store: Store) -> None:
    rows = answer(store, "guest-hints", program=1)
    none, told = rows["host without hints"], rows["guest's hints"]
    assert told.misses < 0.05 < 0.9 < none.misses
    assert told.speedups[0] > none.speedups[0] + 1


def test_coalescing_tlbs_gain_by_placement_and_others_do_not(store: Store) -> None:
    rows = answer(store, "coalescing-zen3", instructions=1_000_000)
    assert rows["CoalaPaging, 64K"].misses < 0.5
    assert rows["CoalaPaging, TLBs do not coalesce"].misses == 1


def test_svnapot_is_the_contiguous_bit_for_64k_alone(store: Store) -> None:
    small, large = answer(store, "svnapot-64k"), answer(store, "svnapot-32m")
    arm, riscv = "CoalaPaging, Armv8", "CoalaPaging, Svnapot"
    assert small[riscv].misses == small[arm].misses < 1
    assert small[riscv].sizes == small[arm].sizes
    assert large[arm].sizes["32M"] == large[riscv].sizes["2M"] == 1 << 30


def test_the_tables_have_a_row_for_each_run(store: Store) -> None:
    asked = (QUESTIONS["coalescing-zen3"], QUESTIONS["svnapot-64k"])
    outcome = beyond.run(beyond.Plan(questions=asked, quick=True), store)
    assert outcome.complete
    assert {name: len(table.splitlines()) - 2 for name, table in outcome.tables().items()} == {
        "coalescing-zen3": 2,
        "svnapot-64k": 2,
    }
    assert all(row["kernel_cycles"] > 0 for row in outcome.data()["rows"])
