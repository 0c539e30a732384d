"""Claims about systems beside each other (paper 3, section VII), by their numbers.

A small program runs on fresh memory, and on memory of whose free part 99 % is of no use to pages of 2M.
"""

import pytest
from claims import claim

from mmulab import engine
from mmulab.reproduce.elastic import systems
from mmulab.reproduce.elastic.programs import QUICK
from mmulab.reproduce.shared.cells import Store

GUPS = QUICK[1]
Rows = dict[tuple[int, str], systems.Row]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Random updates of 256 MB, by level of fragmentation and system; what fragments memory is pinned."""
    store = Store(fresh=True)
    store.directory = tmp_path_factory.mktemp("kept")
    compared = tuple(systems.NAMES[name] for name in ("THP", "mTHP", "HawkEye", "CoalaPaging"))
    options = engine.Options(max_instructions=200_000)
    plan = systems.Plan(programs=(GUPS,), systems=compared, fragmented=(0, 99), pinned=True, options=options)
    outcome = systems.run(plan, store)
    assert outcome.complete
    return {(row.fragmented, row.system): row for row in outcome.rows}


@claim("S2-045", "VII-A", "THP and mTHP have the same TLB misses on fresh memory", "direction: here they are equal")
@claim(
    "S2-046", "VII-A", "HawkEye equals (m)THP on fresh memory: it always faults 2M, and clearing ahead is negligible"
)
def test_thp_mthp_and_hawkeye_are_alike_on_fresh_memory(rows: Rows) -> None:
    thp = rows[0, "THP"]
    assert thp.sizes["2M"] > 0
    for name in ("mTHP", "HawkEye"):
        assert rows[0, name].sizes == thp.sizes
        assert rows[0, name].misses == thp.misses
        assert rows[0, name].speedups == pytest.approx(thp.speedups, abs=0.005)


@claim("S2-043", "VII-A", "Elastic Translations map 32M, with fewer TLB misses than (m)THP and little more speed")
def test_elastic_translations_map_32m_on_fresh_memory(rows: Rows) -> None:
    thp, elastic = rows[0, "THP"], rows[0, "CoalaPaging"]
    assert elastic.sizes["32M"] > 0.9 * thp.sizes["2M"]
    assert elastic.misses < 0.84 * thp.misses
    assert 0 <= elastic.speedups[0] - thp.speedups[0] < 0.04


@claim(
    "S2-061",
    "VII-D",
    "CoalaPaging maps a hot spot with 64K where 2M is scarce",
    "in part: of all memory, which lies in chunks of 512K",
)
def test_64k_is_left_where_2m_is_scarce(rows: Rows) -> None:
    thp, elastic = rows[99, "THP"], rows[99, "CoalaPaging"]
    assert thp.sizes.get("2M", 0) < 0.1 * thp.sizes["4K"]
    assert elastic.sizes["64K"] > 0.9 * sum(elastic.sizes.values())
    assert elastic.misses < 0.8 * thp.misses
