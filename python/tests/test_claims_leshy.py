"""Claims about Leshy, the profiler that selects translation sizes (paper 3, sections III-B and IV-D), by their
numbers. Brute force over small profiles is in test_leshy.py and crates/leshy/tests."""

import json
from pathlib import Path
from typing import Any

import pytest
from claims import claim

from mmulab import engine
from mmulab.engine import Job, Options
from mmulab.leshy.optimum import optimum
from mmulab.leshy.profile import MACHINE, POLICY, Profile, profiled, sampling, select

N1 = Job(MACHINE, POLICY)
DEFAULTS = {"target": 99_990, "slack": 100}
# Records of which few are asked for often.
SKEWED = "gen:ycsb?records=400k&operations=60k"
SIZES = {"64K": 64 << 10, "2M": 2 << 20, "32M": 32 << 20}


def head(entries: int, walked: int) -> str:
    """The first line of a profile on a TLB of `entries` entries."""
    tlb = [{"sizes": ["4K", *SIZES], "entries": entries}]
    of = {"trace": "t", "machine": "m", "policy": "p", "sampler": "misses", "period": 1}
    first = {"format": "mmulab-misses", "version": 1, **of, "walked": walked, "samples": walked}
    return json.dumps({**first, "tlb": tlb, "mappings": []}, separators=(",", ":"))


def profile(path: Path, entries: int, misses: dict[int, int]) -> Path:
    """A profile of misses by page."""
    lines = [f"1 0 {page << 12:x} {count} {count}" for page, count in misses.items()]
    path.write_text("\n".join([head(entries, sum(misses.values())), *lines]) + "\n")
    return path


@claim("S2-023", "IV-D", "N = TLB size in entries (1280 on N1); the target is 99.99 % of the sampled misses")
@pytest.mark.parametrize("method", ["artifact", "paper"])
def test_a_selection_covers_its_target_with_the_tlbs_entries(method: str) -> None:
    with profiled(SKEWED, N1, Options(sampling=sampling(1))) as found:
        assert found.head()["tlb"][0]["entries"] == 1280
        made = select(found.misses, {**DEFAULTS, "method": method})
    assert made.data["raised"] is None
    assert made.covered >= 0.9999
    assert sum(made.by_size.values()) <= 1280


@claim("S2-024", "IV-D, Eq. 1", "Least sum of sizes, subject to coverage, at most N entries, and disjoint addresses")
def test_no_selection_is_smaller_than_the_optimum(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    # Two pages of 2 MiB with twenty hot pages each, and a cold page: one entry short of mapping a 2 MiB page by parts.
    misses = {first + 16 * n: 50 for first in (0, 512) for n in range(20)} | {4096: 1}
    path = profile(tmp_path / "p", 21, misses)
    made = optimum(path, {"target": 100_000, "slack": 100}, 60.0)
    assert made.by_size == {"4K": 1, "2M": 2}
    assert made.bytes == made.bound == (4 << 20) + 4096
    # With one entry more, twenty pages of 4 KiB take the place of one of 2 MiB.
    path = profile(tmp_path / "p", 22, misses)
    made = optimum(path, {"target": 100_000, "slack": 100}, 60.0)
    assert made.by_size == {"4K": 21, "2M": 1}
    for method in ("artifact", "paper"):
        assert select(path, {"target": 100_000, "slack": 100, "method": method}).bytes >= made.bytes


@claim("S2-025", "IV-D, Alg. 1", "The initial size is the smallest that covers the target with N entries or fewer")
@pytest.mark.parametrize(("apart", "initial"), [(0, "4K"), (1, "64K"), (16, "2M"), (512, "32M")])
def test_the_initial_size(apart: int, initial: str, tmp_path: Path) -> None:
    # Four pairs of pages, so far apart that only a page of the initial size holds a pair.
    misses = {place: 5 for n in range(4) for place in (n << 18, (n << 18) + apart)}
    path = profile(tmp_path / "p", 4, misses)
    for method in ("artifact", "paper"):
        made = select(path, {"target": 100_000, "slack": 100, "method": method})
        assert (made.data["initial"], made.by_size) == (initial, {initial: 4})


@claim("S2-026", "IV-D, Alg. 1", "The coldest entries are replaced by smaller ones: total size shrinks, coverage stays")
def test_more_entries_never_cost_bytes(tmp_path: Path) -> None:
    misses = {512 * n + 16 * k: 100 - n for n in range(8) for k in range(1 + n % 4 * 4)}
    bytes_by_entries = []
    for entries in range(8, 60):
        path = profile(tmp_path / "p", entries, misses)
        made = select(path, {"target": 100_000, "slack": 100, "method": "paper"})
        assert made.covered == 1
        assert sum(made.by_size.values()) <= entries
        # Where no entry is replaced, all have the initial size.
        assert made.bytes <= entries * {"4K": 4096, **SIZES}[made.data["initial"]]
        bytes_by_entries.append(made.bytes)
    # The misses of two are in a single page each.
    assert bytes_by_entries[0] == 6 * (2 << 20) + 2 * 4096
    assert bytes_by_entries[-1] == 4096 * len(misses)
    assert bytes_by_entries == sorted(bytes_by_entries, reverse=True)


@claim("S2-038", "III-B, Fig. 3a", "Misses are skewed: one 2 MiB region has 5 % of a program's misses", "direction")
def test_some_regions_have_most_of_the_misses() -> None:
    with profiled(SKEWED, N1, Options(sampling=sampling(1))) as found:
        heat = engine.leshy_heat(str(found.misses), "2M")
    misses = sorted((row["misses"] for row in heat), reverse=True)
    assert misses[0] >= 0.05 * sum(misses)
    assert misses[0] > 10 * sum(misses) / len(misses)


def covered_by(hints: list[dict[str, Any]], truth: Profile) -> float:
    """The share of all misses that lie in hinted memory."""
    blocks = {size: {int(str(h["start"]), 0) for h in hints if h["size"] == size} for size in SIZES}
    inside = total = 0
    for line in truth.misses.read_text().splitlines()[1:]:
        _, _, address, misses, _ = line.split()
        at = int(address, 16)
        total += int(misses)
        if any(at & -length in blocks[size] for size, length in SIZES.items()):
            inside += int(misses)
    return inside / total


@claim("S2-039", "III-B, VII-D", "Sampled misses find hotspots better than accessed bits do", "direction")
def test_hints_by_misses_cover_more_than_hints_by_accessed_bits() -> None:
    # Few entries: what is hinted must be the right memory.
    asked = {"target": 60_000, "slack": 100, "method": "paper", "sizes": ["64K", "2M", "32M"]}
    asked["budgets"] = [{"sizes": asked["sizes"], "entries": 16}]
    with profiled(SKEWED, N1, Options(sampling=sampling(1, accessed_ms=1.0))) as truth:
        assert truth.accessed is not None
        by_misses, by_bits = select(truth.misses, asked), select(truth.accessed, asked)
        bytes_of = [sum(SIZES[h["size"]] for h in made.hints) for made in (by_misses, by_bits)]
        covers = [covered_by(made.hints, truth) for made in (by_misses, by_bits)]
    # The same share of the misses with less memory, or more of them with as much.
    assert covers[0] / bytes_of[0] > covers[1] / bytes_of[1]
