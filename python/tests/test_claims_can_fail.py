"""Tests of claims notice when what they claim is no longer so (CHANGELOG number 21)."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import test_claims_code as code
import test_claims_compendia as compendia
import test_claims_hardware as hardware
import test_claims_memory_managers as memory
import test_claims_nested as nested
import test_claims_sizes as sizes
from bench import Bench

from mmulab import engine

# Each test with assignments that make its claim wrong.
WRONG: list[tuple[Callable[..., None], tuple[str, ...]]] = [
    (code.test_the_residual_region_in_the_second_level, ("tlb.STLB.entries=768",)),
    (code.test_a_second_level_hit_of_skylake, ("tlb.STLB.hit_cycles=8",)),
    (code.test_the_capacities_of_skylake, ("tlb.STLB.entries=1024", "tlb.STLB.ways=8")),
    (compendia.test_what_a_merge_costs, ("costs.table_merge=140000",)),
    (compendia.test_the_worst_overhead, ("table.compendia.merge=256/512",)),
    (compendia.test_one_threshold_for_all_levels, ("table.compendia.merge=32/512", "table.compendia.unmerge=1/512")),
    (compendia.test_merged_at_an_eighth, ("table.compendia.merge=32/512", "table.compendia.unmerge=1/512")),
    (compendia.test_a_single_page, ("table.compendia.merge=32/512",)),
    (compendia.test_the_simulated_machine_of_paper_5, ("walker.cache.PWC.entries=128",)),
    (hardware.test_the_steady_state_of_reads, ("tlb_rules.coalescing=none",)),
    (memory.test_reservations_have_several_sizes, ('policy.freebsd.levels=["2M"]',)),
    (memory.test_the_first_fault_reserves, ('policy.freebsd.levels=["64K"]',)),
    (nested.test_cold_walks_of_four_levels, ("table.levels=5",)),
    (nested.test_cold_walks_of_merged_tables, ("table.compendia.merge=32/512",)),
    (sizes.test_bundles_grow, ("tlb.MIX.group=8",)),
    (sizes.test_superpage_index_bits, ("tlb.MIX.mix.index=4K",)),
    (sizes.test_duplicates_arise_and_go, ("tlb.MIX.mix.mirrors=merged",)),
    (sizes.test_alignment_and_holes, ("tlb.MIX.mix.bundle=length",)),
    (sizes.test_a_bundle_is_in_every_set, ("tlb.MIX.group=1",)),
    (sizes.test_hash_rehash_probes_in_turn, ("tlb.L2.probe=parallel",)),
    (sizes.test_dirty_bits_are_written_once, ("core.count=2", "policy.linux.zero_page=true")),
]


@pytest.mark.parametrize(("test", "sets"), WRONG, ids=lambda value: getattr(value, "__name__", None) or " ".join(value))
def test_a_wrong_option_is_noticed(
    test: Callable[..., None], sets: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every machine and policy of the test gets the assignments last."""
    spec, resolve = engine.Job.spec, engine.resolve

    def changed(job: engine.Job) -> dict[str, Any]:
        plain = spec(job)
        return {**plain, "set": [*plain["set"], *sets]}

    monkeypatch.setattr(engine.Job, "spec", changed)
    monkeypatch.setattr(engine, "resolve", lambda job: resolve(replace(job, sets=(*job.sets, *sets))))
    given = {"bench": Bench(tmp_path)} if "bench" in inspect.signature(test).parameters else {}
    with pytest.raises(AssertionError):
        test(**given)
