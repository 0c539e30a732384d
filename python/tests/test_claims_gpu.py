"""Claims of paper 4 about shader cores, by their numbers."""

import pytest
from bench import described
from claims import claim

from mmulab import contiguity, engine
from mmulab.reproduce.mix import gpu as gpu_tlbs
from mmulab.reproduce.mix.gpu import MIX, SPLIT, Outcome, Plan, Row


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """Two of Rodinia's programs: one with three arrays, and one with six."""
    programs = tuple(p for p in gpu_tlbs.PROGRAMS if p.name in ("hotspot", "srad"))
    return gpu_tlbs.run(Plan(programs, (MIX,), gpu_tlbs.QUICK_INSTRUCTIONS))


def of(outcome: Outcome, program: str, regime: str) -> Row:
    """A program under a regime."""
    return next(row for row in outcome.under(regime) if row.program.name == program)


@claim("S3-044", "6.3", "GPU: 128 entries in 4 ways for 4 KB, 32 in 4 for 2 MB, 4 for 1 GB, in each shader core")
def test_the_tlbs_of_a_shader_core() -> None:
    arrays = [(a["entries"], a["ways"], a["sizes"]) for a in described("gpu-mix-baseline")["tlb"]]
    assert arrays == [(128, 4, ["4K"]), (32, 4, ["2M"]), (4, "full", ["1G"])]


@claim(
    "S3-053, GPU",
    "7.2, Figure 14",
    "With 4 KB pages only, shader cores gain more than 8 % by MIX",
    "in part: hotspot does, others' pages are far too many for either ([page](gpu-tlbs.md))",
)
def test_small_pages_use_all_entries(outcome: Outcome) -> None:
    assert of(outcome, "hotspot", "4 KB").gain(MIX) > 0.08
    assert of(outcome, "srad", "4 KB").gain(MIX) > -0.01


@claim(
    "S3-056, GPU",
    "7.2, Figure 15",
    "On GPUs MIX outperforms split TLBs by 20 % and more beside memhog, less the more it holds",
    "differs: an array of 5 ways holds 5 bundles; in 20 ways as many entries lose nothing ([page](gpu-tlbs.md))",
)
def test_more_streams_than_ways_thrash(outcome: Outcome) -> None:
    for regime in ("2 MB", "THP, memhog 20 %"):
        row = of(outcome, "srad", regime)
        assert row.gain(MIX) < -0.2
        assert row.misses(MIX) > 5 * row.misses(SPLIT)
        assert row.gain(f"{MIX}, 20 ways") > -0.02


@claim(
    "S3-059, GPU",
    "7.2, Figure 17",
    "On GPUs most dynamic energy goes to lookups and walks, little to fills",
    "in part: with superpages that thrash, mirrors take half of what lookups do",
)
def test_fills_take_little_energy(outcome: Outcome) -> None:
    for program in ("hotspot", "srad"):
        spent = of(outcome, program, "4 KB").of[MIX]["dynamic_nj"]
        assert spent["fill"] < 0.1 * (spent["lookup"] + spent["walk"])
    thrashing = of(outcome, "srad", "2 MB").of[MIX]["dynamic_nj"]
    assert 0.3 < thrashing["fill"] / thrashing["lookup"] < 0.8


@claim(
    "S3-046, GPU", "7.1, Figure 9", "With memhog at 40 % more than 80 % of a GPU's footprint is superpages", "direction"
)
def test_superpages_of_gpus_beside_memhog() -> None:
    srad = next(p for p in gpu_tlbs.PROGRAMS if p.name == "srad")
    jobs = [
        engine.Job(gpu_tlbs.MACHINE, "linux-thp", (gpu_tlbs.MEMORY, *contiguity.memhog(percent)))
        for percent in (0, 40, 60)
    ]
    ran = engine.run(srad.trace, jobs, engine.Options(max_instructions=10_000)).results
    shares = [gpu_tlbs.Cell.of(result).superpages for result in ran]
    assert shares[1] > 0.8
    assert shares == sorted(shares, reverse=True)
    assert 0.2 < shares[2] < 0.95
