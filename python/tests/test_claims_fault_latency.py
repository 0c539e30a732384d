"""Claims about the time of page faults and memory bloat under Elastic Translations (paper 3), by their numbers."""

from pathlib import Path
from typing import Any

import pytest
from bench import BASE, Bench, K, M, huge_bytes
from claims import claim

from mmulab.reproduce.elastic import fault_latency
from mmulab.reproduce.shared.cells import Store


@pytest.fixture(scope="module")
def latency(tmp_path_factory: pytest.TempPathFactory) -> fault_latency.Outcome:
    """Figure 15 on a mapping of 1 GiB: 2,000 base pages, 512 huge pages, 32 pages of 32M."""
    store = Store(fresh=True)
    store.directory = Path(tmp_path_factory.mktemp("kept"))
    return fault_latency.run(fault_latency.Plan(gib=1, touches=2000), store)


@claim(
    "S2-064",
    "VII-F, Figure 15",
    "Fault latency: 4K < 64K of ET < 64K of mTHP; 32M of ET as THP; both an order of magnitude below synchronous 32M",
    "direction: every fault is priced by what the kernel did in it; 32M of ET within 5 % of THP",
)
def test_the_order_of_fault_latencies(latency: fault_latency.Outcome) -> None:
    mean = {row.way.name: row.mean_us for row in latency.rows}
    assert mean["4K"] < mean["64K, Elastic Translations"] < mean["64K, mTHP"] < mean["2M, THP"]
    assert mean["32M, Elastic Translations"] == pytest.approx(mean["2M, THP"], rel=0.05)
    assert mean["32M, synchronous"] > 10 * max(mean["32M, Elastic Translations"], mean["2M, THP"])


@claim("S2-065", "VII-F", "A synchronous fault of 32M zeroes 16 times the bytes of a fault of Elastic Translations")
def test_the_bytes_that_faults_of_32m_zero(latency: fault_latency.Outcome) -> None:
    rows = [latency.of(name) for name in ("32M, Elastic Translations", "32M, synchronous")]
    # The rest is the page of code, which is read.
    each = [row.zeroed // row.found["faults"] for row in rows]
    assert each == [2 * M, 32 * M]
    assert each[1] == 16 * each[0]


@claim("S2-067", "V-A", "Eager 64K keeps fault latency bounded, eager 32M inflates it", "direction: a factor of 100")
def test_eager_64k_is_bounded_and_eager_32m_is_not(latency: fault_latency.Outcome) -> None:
    small, large = latency.of("64K, mTHP"), latency.of("32M, synchronous")
    assert small.quantile("max") < latency.of("2M, THP").mean_us / 10
    assert large.mean_us > 100 * small.mean_us


@claim("S2-042", "VII-A", "mTHP does not fault 64K where 2M always succeeds")
def test_mthp_faults_no_64k_where_2m_succeed(bench: Bench) -> None:
    touch = "".join(f"w {va:#x}\n" for va in range(BASE, BASE + 64 * M, 64 * K))
    result = bench.run("neoverse-n1", f"mmap {BASE:#x} 64M rw anon\n{touch}", "linux-mthp")
    assert result["counts"]["kernel"]["events"]["mthp_faults"] == 0
    assert huge_bytes(result) == 64 * M


@claim(
    "S2-066",
    "VII-F",
    "32M of ET adds no bloat over THP; 64K in place of 2M reduces it; THP exceeds the footprint",
    "in part: one page of each 2M touched, for canneal and streamcluster",
)
def test_elastic_translations_add_no_bloat(bench: Bench) -> None:
    def resident(policy: str, *sets: str) -> int:
        # A page in each 128K: pages of 2M are touched in sixteen places.
        touch = "".join(f"w {va:#x}\n" for va in range(BASE, BASE + 64 * M, 128 * K))
        trace = f"mmap {BASE:#x} 64M rw anon\n{touch}"
        counts: dict[str, Any] = bench.run("neoverse-n1", trace, policy, *sets)["counts"]
        return int(counts["memory"]["private_bytes_peak"])

    thp = resident("linux-thp")
    assert resident("coalapaging", "memory.max_order=13") == thp
    assert resident("coalapaging", "policy.fault.sizes=[]") < thp
    assert resident("linux-4k") < thp
