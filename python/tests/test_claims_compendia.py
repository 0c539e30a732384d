"""Claims about denser page tables (paper 5), by their numbers."""

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from bench import Bench, G, M, described
from claims import claim, sized


@pytest.fixture(scope="module")
def accesses() -> Callable[..., float]:
    """Memory accesses per TLB miss of random updates."""
    path = Path(__file__).parents[2] / "scripts" / "gups_curve.py"
    spec = importlib.util.spec_from_file_location("gups_curve", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    measure: Callable[..., float] = module.measure
    return measure


@claim(
    "S4-034",
    "5",
    "Simulator: 64-entry L1, 1024-entry L2, a 64-entry 8-way cache for PGD, PUD and PMD entries, virtualised another "
    "for gPA to hPA; hits cost nothing",
    "exactly; the other holds upper entries, for two accesses are called ideal",
)
def test_the_simulated_machine_of_paper_5() -> None:
    for name in ("compendia-baseline", "compendia-nested"):
        machine = described(name)
        assert sized(machine, 1, "data", "4K") == 64
        assert sized(machine, 2, "data", "4K") == 1024
        for cache in machine["walker"]["cache"] + machine.get("virtual", {"cache": []})["cache"]:
            assert (cache["entries"], cache["ways"], sorted(cache["levels"]), cache["hit_cycles"]) == (
                64,
                8,
                [2, 3, 4],
                0,
            )


@claim(
    "S4-047",
    "6.2, Figure 15",
    "RandomAccess: one access per miss until 128 MiB, more beyond",
    "within 2 %, see [the curve](gups-curve.md)",
)
def test_accesses_per_miss_rise_beyond_128_mib(accesses: Callable[..., float]) -> None:
    for size in (16 * M, 32 * M, 64 * M, 128 * M):
        assert accesses(size, updates=60_000) == pytest.approx(1, abs=0.02)
    assert accesses(256 * M, updates=60_000) > 1.4


@claim(
    "S4-051",
    "6.2",
    "A larger walk cache moves that point linearly; 2 MiB pages move it 512 times",
    "in part: no Compendia",
)
def test_what_moves_the_point(accesses: Callable[..., float]) -> None:
    for entries, limit in ((32, 64 * M), (128, 256 * M)):
        sets = (f"walker.cache.PWC.entries={entries}",)
        assert accesses(limit, 60_000, sets=sets) == pytest.approx(1, abs=0.05)
        assert accesses(2 * limit, 60_000, sets=sets) > 1.4
    assert accesses(32 * G, 60_000, policy="linux-thp") == pytest.approx(1, abs=0.02)


@claim(
    "S4-050", "6.2", "Up to 8 GiB huge pages also mean fewer walks: their entries reach 512 times further", "direction"
)
def test_huge_pages_mean_fewer_walks(bench: Bench) -> None:
    def misses(policy: str) -> int:
        counted: int = bench.run("compendia-baseline", "gen:gups?footprint=1G&updates=30000", policy)["counts"]["tlb"][
            "l2d"
        ]["misses"]
        return counted

    assert misses("linux-thp") < 0.1 * misses("linux-4k")


@claim(
    "S4-059",
    "5",
    "The gain is walk cycles times a savable share: the cycles that would be saved were walks gone",
    "exactly, the share",
)
def test_the_savable_share(bench: Bench) -> None:
    for share in (0.0, 0.4, 1.0):
        model = bench.run("compendia-baseline", "gen:gups?footprint=64M&updates=3000", savable=share)["model"]
        assert model["method"] == "savable"
        assert model["cycles"]["walk"] == math.floor(model["walk_pending"] * share + 0.5)
