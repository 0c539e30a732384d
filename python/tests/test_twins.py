"""Generators against recordings of the same algorithms as programs of their own."""

import platform
import shutil
from pathlib import Path

import pytest

from mmulab import engine
from mmulab.workloads import twins

needs_qemu = pytest.mark.skipif(shutil.which(f"qemu-{platform.machine()}") is None, reason="needs QEMU to record")

# Small, and yet each reaches all of its code.
SMALL = {
    "gups": "footprint=1M&updates=5000",
    "sequential": "footprint=64K&references=5000",
    "stride": "footprint=256K&references=5000",
    "first-touch": "footprint=20M&touches=5000",
    "zipf": "footprint=256K&references=5000",
    "pointer-chase": "footprint=1000K&references=5000",
    "sparse": "footprint=256K&references=5000",
    "btree": "elements=20000&lookups=500",
    "hashjoin": "inner=4096&outer=3000",
    "xsbench": "gridpoints=20&particles=20&lookups=7",
    "ycsb": "workload=D&records=500&operations=1000",
    "tpcc": "transactions=100",
    "code-chain": "functions=9&rounds=500",
    "bfs": "scale=9&searches=2",
    "friendster": "scale=9&neighbours=6&most=60&searches=2",
    "pagerank": "scale=8",
    "graphchi": "scale=8&shards=3",
    "svm": "instances=300&features=1000",
    "canneal": "elements=1024&swaps=100",
    "streamcluster": "points=200&dimensions=16",
    "freqmine": "transactions=200&items=100",
    "astar": "width=32",
    "events": "modules=100&messages=100&events=1000",
    "mcf": "nodes=300&arcs=3000&pivots=50",
}

# What programs do first, and what they have several threads for.
MANNERS = {
    "gups": ["init=true", "threads=3&quantum=5", "init=true&threads=2"],
    "btree": ["init=true"],
    "hashjoin": ["init=true&build=0", "threads=3"],
    "xsbench": ["init=true", "threads=4&quantum=1"],
    "ycsb": ["init=true", "threads=3&quantum=5"],
    "canneal": ["init=true", "threads=3&quantum=5"],
    "bfs": ["threads=3&quantum=5"],
    "friendster": ["threads=3&quantum=5"],
    "pagerank": ["init=true&threads=3"],
    "streamcluster": ["init=true", "threads=3"],
}


def test_every_generator_has_a_twin() -> None:
    """None is forgotten below."""
    # Those of GPUs have no program for processors.
    assert sorted(SMALL) == sorted(name for name in engine.generators() if not name.startswith("gpu-"))


def alike(generator: str, tmp_path: Path) -> None:
    """All loads and stores of its arrays are alike, of each thread; what else there is, is little and is told."""
    found = twins.check(generator, tmp_path)
    print(found.summary())
    assert found.difference is None
    assert found.same_addresses
    assert found.recorded.arrays == found.generated.arrays > 0
    assert found.generated.elsewhere == 0


@needs_qemu
@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_recording_of_the_algorithm_is_what_its_generator_tells(name: str, tmp_path: Path) -> None:
    """From where its data are ready."""
    alike(f"gen:{name}?{SMALL[name]}", tmp_path)


@needs_qemu
@pytest.mark.parametrize(("name", "manner"), [(name, manner) for name, all in MANNERS.items() for manner in all])
def test_beginnings_and_threads_are_what_the_generator_tells(name: str, manner: str, tmp_path: Path) -> None:
    """The arrays' filling, and each thread by itself."""
    alike(f"gen:{name}?{SMALL[name]}&{manner}", tmp_path)
