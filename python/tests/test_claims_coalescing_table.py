"""Claims of paper 1's evaluation, on the shipped recording of a compiler: a part of gcc's run for the paper's Clang."""

import io
from collections.abc import Callable
from random import Random

import pytest
from bench import BASE, Bench, M
from claims import claim
from conftest import CHECKOUT
from rich.console import Console

from mmulab import engine
from mmulab.cli.console import PIPE_WIDTH
from mmulab.reproduce.pte_coalescing import counters, group_size, published, render, render_sizes, sparsity
from mmulab.reproduce.pte_coalescing.columns import BASELINE, COLUMNS
from mmulab.reproduce.pte_coalescing.counters import CYCLES, ROWS
from mmulab.reproduce.pte_coalescing.table import Plan, Table, run

RECORDING = "tests/data/cc1-small.mmt"
PAGE = CHECKOUT / "docs" / "results" / "pte-coalescing.md"


def printed(show: Callable[[Console], None]) -> str:
    """What a command prints when its output goes to a file."""
    out = Console(file=io.StringIO(), width=PIPE_WIDTH, highlight=False, no_color=True)
    show(out)
    assert isinstance(out.file, io.StringIO)
    return "\n".join(line.rstrip() for line in out.file.getvalue().rstrip("\n").splitlines())


@pytest.fixture(scope="module")
def table() -> Table:
    """All thirteen columns of the recording."""
    return run(Plan(str(CHECKOUT / RECORDING)))


def test_the_page_is_what_is_printed(table: Table) -> None:
    """To accept a change, put what `mmulab reproduce` prints in its place."""
    assert printed(lambda out: render.show(out, table, "clang")) in PAGE.read_text(encoding="utf-8")


def cell(table: Table, column: str, row: str) -> float:
    """A figure that is there."""
    value = table.values[column][row]
    assert value is not None
    return value


def test_the_tables_add_up(table: Table) -> None:
    """S0-029, as printed: our tables and the paper's."""
    for result in table.results.values():
        counters.check(result)
    for column in table.values.values():
        assert all(abs(miss) < 1e-9 for miss in counters.residuals(column).values())
    # The paper's own, which are rounded: each of four figures by half a thousandth.
    for workload in published.WORKLOADS:
        for printed in published.table(workload).values():
            misses = counters.residuals(dict(printed))
            assert all(abs(miss) <= 5 * published.ROUNDING for miss in misses.values()), misses


def test_rates_are_per_thousand_instructions(table: Table) -> None:
    for key, result in table.results.items():
        assert cell(table, key, "L1 DTLB misses") == 1000 * result.tlb("l1d")["misses"] / result.instructions
        for event in result.perf:
            assert event["per_kilo_instruction"] == pytest.approx(
                1000 * event["value"] / result.instructions, rel=1e-12
            )


@claim("S0-121", "5", "Cycles are normalised to the FreeBSD binary on the 5900X with superpages: 1.000")
def test_cycles_are_shares_of_the_baseline(table: Table) -> None:
    assert cell(table, BASELINE, CYCLES) == published.table("clang")[BASELINE][CYCLES] == 1.0
    base = table.results[BASELINE].user_cycles
    for key, result in table.results.items():
        assert cell(table, key, CYCLES) == result.user_cycles / base


@claim("S0-094", "5.2.1", "Clang: reservations cut L1 ITLB misses by over 50%, 3.279 to 1.578", "direction, by half")
def test_reservations_halve_instruction_misses(table: Table) -> None:
    assert cell(table, "F5:reserv", "L1 ITLB misses") < 0.5 * cell(table, "F5:noresv", "L1 ITLB misses")


@claim("S0-058", "5.2.1", "Clang: reservations with coalescing all but eliminate L2 ITLB misses", "direction")
def test_reservations_save_second_level_instruction_misses(table: Table) -> None:
    # Of the rest here, first touches are most: a short part of a run.
    assert cell(table, "F5:reserv", "L2 ITLB misses") < cell(table, "F5:noresv", "L2 ITLB misses")


@claim(
    "S0-095",
    "5.2.1",
    "Clang: superpages have little impact on the ITLB beyond coalescing",
    "in part: so short a part of a run fills no superpage of code, and coalescing alone saves the misses",
)
def test_superpages_add_little_to_instructions(table: Table) -> None:
    none, reserved, promoted = (
        cell(table, f"F5:{config}", "L1 ITLB misses") for config in ("noresv", "reserv", "super")
    )
    assert promoted == pytest.approx(reserved, rel=0.03)
    assert max(reserved, promoted) < 0.5 * none
    # A threshold of 16 pages makes superpages, all of data: the ITLB's counts stay.
    jobs = [
        engine.Job("zen3-5900x", "freebsd-super", (f"policy.freebsd.promotion_threshold={pages}",))
        for pages in (512, 16)
    ]
    late, early = engine.run(str(CHECKOUT / RECORDING), jobs).results
    assert late.counts["kernel"]["events"]["promotions"] == 0
    assert early.counts["kernel"]["events"]["promotions"] > 0
    assert early.tlb("l1i") == late.tlb("l1i")
    assert early.tlb("l1d")["misses"] < 0.5 * late.tlb("l1d")["misses"]


@claim("S0-061", "5.1.1", "Clang: L2 DTLB hits fall with L1 misses when reservations are turned on", "direction")
def test_reservations_save_data_misses(table: Table) -> None:
    falls = [
        cell(table, "F5:noresv", row) - cell(table, "F5:reserv", row) for row in ("L1 DTLB misses", "L2 DTLB hits")
    ]
    assert falls[0] > 0
    assert falls[1] == pytest.approx(falls[0], rel=0.1)


@claim("S0-062", "5.1.1", "Clang: without reservations L2 hits are of 4 KB pages, with them coalesced", "direction")
def test_reservations_make_hits_coalesced(table: Table) -> None:
    row = "L2 DTLB coalesced hits (%)"
    assert cell(table, "F5:noresv", row) < 0.1
    assert cell(table, "F5:reserv", row) > 5
    assert cell(table, "F5:noresv", row) < cell(table, "LL:nothp", row) < cell(table, "LF:reserv", row)


@claim("S0-101", "5.3.1", "Clang: reservations save 1.5% of unhalted cycles", "direction")
@claim(
    "S0-102",
    "5.3.1",
    "Clang: with superpages and without MADV_FREE 2.1% of cycles are saved",
    "in part: by reservations; so short a part of a run fills no superpage",
)
@claim("S0-103", "5.3.1", "Clang: FreeBSD with reservations takes fewer cycles than Linux without THP", "direction")
def test_reservations_save_cycles(table: Table) -> None:
    for before, after in (("F5:noresv", "F5:reserv"), ("F5:noresv", "F5:nomdv"), ("LL:nothp", "LF:reserv")):
        assert cell(table, after, CYCLES) < cell(table, before, CYCLES)


@claim(
    "S0-066",
    "5.1.1",
    "FreeBSD's promotion saves far more L1 misses than THP where the heap grows in small steps",
    "direction, of a heap that grows by 128 KB",
)
def test_promotion_serves_a_growing_heap(bench: Bench) -> None:
    rng = Random(1)
    step, size = 128 << 10, 4 * M
    lines = []
    for end in range(step, size + 1, step):
        lines.append(f"brk {BASE:#x} {BASE + end:#x}")
        lines += [f"w {BASE + at:#x}" for at in range(end - step, end, 4096)]
    lines += [f"r {BASE + 4096 * rng.randrange(size // 4096):#x}" for _ in range(20_000)]
    misses = {
        policy: bench.run("zen3-5900x", "\n".join(lines) + "\n", policy)["counts"]["tlb"]["l1d"]["misses"]
        for policy in ("linux-thp-khugepaged", "freebsd-super")
    }
    # Two superpages need two entries; 1,024 base pages do not fit in 64.
    assert misses["freebsd-super"] < 0.1 * misses["linux-thp-khugepaged"]


@claim(
    "S0-127",
    "5.4",
    "Regions of which a part is touched favour groups of 16 KB, fully touched ones groups of 32 KB",
    "direction; the crossover within 0.02 of a closed form",
)
def test_group_sizes_cross_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    outcome = group_size.run(group_size.Plan(RECORDING))
    assert printed(lambda out: render_sizes.show(out, outcome)) in PAGE.read_text(encoding="utf-8")
    points = {p.share: p for p in outcome.sweep}
    for share in (0.6, 0.7, 0.8):
        assert points[share].counted[4] < points[share].counted[8]
    for share in (0.9, 0.95, 1.0):
        assert points[share].counted[8] < points[share].counted[4]
    for point in outcome.sweep:
        for group, counted in point.counted.items():
            # First touches, and pages walked for before their group was complete, are some 2% of all references.
            assert counted == pytest.approx(point.expected[group], abs=0.025), point
    found = outcome.crossovers()
    assert found["counted"] == pytest.approx(found["expected"], abs=0.02)
    # 3 p^4 = 7 p^8, and 3/4 p^4 = 7/8 p^8.
    assert found["small_tlb"] == pytest.approx((3 / 7) ** 0.25)
    assert found["entries"] == pytest.approx((6 / 7) ** 0.25)
    code, _, *dense = outcome.cases
    assert code.saved(4, 1) > code.saved(8, 1) > 0
    for case in dense:
        assert case.saved(8, 1) > case.saved(4, 1) > 0


def test_closed_forms_agree_with_each_other() -> None:
    """Without coalescing all pages are alike: an array of c entries holds the share c / pages of them."""
    assert sparsity.misses(0.5, 1, 1 << 14, 1 << 10) == pytest.approx(1 - 1024 / 8192)
    for group in (4, 8):
        assert sparsity.entries(1.0, group) == pytest.approx(1 / group)
        assert sparsity.misses(1.0, group, 1 << 14, (1 << 14) // group) == 0
        # A thousandth of the region: nearly the limit that crossover_of_hits takes.
        p = sparsity.crossover_of_hits()
        hits = [1 - sparsity.misses(p, g, 1 << 24, 1 << 10) for g in (4, 8)]
        assert hits[0] == pytest.approx(hits[1], rel=0.01)


def test_the_published_table_has_all_cells() -> None:
    for workload in published.WORKLOADS:
        paper = published.table(workload)
        assert list(paper) == [column.key for column in COLUMNS]
        assert all(list(column) == list(ROWS) for column in paper.values())
    assert len(COLUMNS) == 13
    assert len(ROWS) == 23
