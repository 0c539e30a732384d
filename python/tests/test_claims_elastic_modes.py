"""Claims of paper 3, on small programs.

They are about page sizes forced (section III), virtual machines (VII-B), where hints are made (V-A) and programs that
run at once (VII-E).
"""

from pathlib import Path

import pytest
from claims import claim

from mmulab import UserError, engine
from mmulab.reproduce.elastic import mixes, samplers, sizes, systems
from mmulab.reproduce.elastic.programs import QUICK, Program
from mmulab.reproduce.shared.cells import Store

GUPS = QUICK[1]
# A program that 64K pages reach: 32 MB of random updates.
SMALL = Program("small", "gen:gups?footprint=32M&updates=50k", "", "32 MB")
OPTIONS = engine.Options(max_instructions=200_000)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Runs of this test alone."""
    made = Store(fresh=True)
    made.directory = tmp_path
    return made


@claim(
    "S2-036",
    "III-A, Figure 2",
    "64K pages from a pool speed small programs up, natively and virtualised, almost as 2M do",
    "in part: on random updates of 32 MB they are faster than 4K, by half of what 2M gain",
)
@claim("S2-037", "III-A, Figure 2", "32M pages from a pool are no slower than 2M, and close to 1G")
def test_page_sizes_from_pools(store: Store) -> None:
    large = Program("large", "gen:gups?footprint=4G&updates=50k", "", "4 GB")
    outcome = sizes.run(sizes.Plan(programs=(SMALL, large), options=OPTIONS), store)
    assert outcome.complete
    rows = {(row.program, row.virtual, row.size): row for row in outcome.rows}
    for virtual in (False, True):
        small, huge = (rows["small", virtual, size] for size in ("64K", "2M"))
        assert small.misses < 0.2
        assert 0.05 < small.speedups[0] < huge.speedups[0]
        of = {size: rows["large", virtual, size] for size in ("2M", "32M", "1G")}
        assert of["32M"].misses < of["2M"].misses
        assert of["32M"].speedups[0] > of["2M"].speedups[0]
        assert of["1G"].speedups[0] == pytest.approx(of["32M"].speedups[0], rel=0.15)
    # Walks of two dimensions cost more, so large pages save more.
    assert rows["large", True, "32M"].speedups[0] > rows["large", False, "32M"].speedups[0]


@claim(
    "S2-050",
    "VII-B",
    "Virtualised, larger sizes are needed: some 2M in place of 64K, 32M in place of 2M",
    "in part: 32M in place of 2M save a larger share of the time, but not of the TLB misses, which are equal",
)
@claim(
    "S2-051",
    "VII-B",
    "HawkEye is slightly slower than THP in virtual machines",
    "in part: user time is equal; its daemons take kernel time, which the comparison leaves out",
)
def test_virtualised_systems(store: Store) -> None:
    """Guest and host place pages by themselves, and both dimensions are contiguous (S2-018).

    Both also gain more over 4K than natively, as S2-049 has it.
    """
    compared = tuple(systems.NAMES[name] for name in ("THP", "HawkEye", "CoalaPaging"))
    rows = {}
    for virtualised in (False, True):
        plan = systems.Plan(programs=(GUPS,), systems=compared, virtualised=virtualised, options=OPTIONS)
        outcome = systems.run(plan, store)
        assert outcome.complete
        assert bool(outcome.prefix) == virtualised
        rows |= {(virtualised, row.system): row for row in outcome.rows}
    for name in ("THP", "CoalaPaging"):
        assert rows[True, name].speedups[0] > rows[False, name].speedups[0]
    assert rows[True, "CoalaPaging"].sizes["32M"] > 0.9 * rows[True, "THP"].sizes["2M"]
    assert rows[True, "CoalaPaging"].misses < rows[True, "THP"].misses
    # What 32M save over 2M: time under THP over time under CoalaPaging.
    native, virtual = (
        (1 + rows[virtualised, "CoalaPaging"].speedups[0]) / (1 + rows[virtualised, "THP"].speedups[0])
        for virtualised in (False, True)
    )
    assert virtual > native > 1
    assert rows[True, "THP"].misses == pytest.approx(rows[False, "THP"].misses, rel=0.02)
    thp, hawkeye = rows[True, "THP"], rows[True, "HawkEye"]
    assert hawkeye.speedups == pytest.approx(thp.speedups, abs=0.005)
    assert hawkeye.of[0].cycles["kernel"] >= thp.of[0].cycles["kernel"]


@claim(
    "S2-029",
    "V-A",
    "Hints of TLB misses are for guests only: the host has none",
    "its daemon scans linearly, as the published artifact's host does; the paper's text names access bits",
)
def test_the_host_has_no_hints() -> None:
    host = systems.NAMES["+Leshy, online"]
    assert "host_policy.hints.from=none" in host.host_sets
    job = engine.Job("neoverse-n1", "linux-4k", systems.GUEST, "elastic-online")
    with pytest.raises(UserError, match=r"host_policy: hints\.from"):
        engine.run(GUPS.trace, [job], engine.Options(max_instructions=1000))


def test_mixes_keep_the_benefit() -> None:
    """S2-063 with the programs of the paper's first mix, in time: none gains less than under THP."""
    outcome = mixes.run(mixes.Plan(mixes=("mix 1",), quick=True, options=OPTIONS), Store(fresh=True))
    rows = {(row.program, row.system): row for row in outcome.rows}
    for program in mixes.MIXES["mix 1"]:
        thp, elastic = rows[program, "THP"], rows[program, "CoalaPaging"]
        assert elastic.walks <= thp.walks < 1
        assert elastic.speedups[0] >= thp.speedups[0] - 0.01 > 0
    assert rows["xsbench", "CoalaPaging"].sizes.get("32M", 0) > 0


def test_sampled_misses_are_no_worse_a_guide_than_accessed_bits(store: Store) -> None:
    """S2-039 with hints applied, on memory that is half fragmented: random updates of 256 MB."""
    outcome = samplers.run(samplers.Plan(programs=(GUPS,), options=OPTIONS), store)
    rows = {row.way: row for row in outcome.rows}
    assert rows[samplers.MISSES].misses <= rows[samplers.ACCESSED].misses
    assert rows[samplers.ONLINE].hinted is None
