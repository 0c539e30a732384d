"""Claims about programs that run beside each other (papers 2 and 3), by their numbers."""

import json
from pathlib import Path
from typing import Any

from claims import claim
from conftest import CHECKOUT

from mmulab import engine
from mmulab.workloads.recipe import Recipe

CC1 = CHECKOUT / "tests" / "data" / "cc1-small.mmt"


@claim(
    "S1-060",
    "IV",
    "Clang's overhead of instruction address translation: 4.6 % of cycles on one hyperthread, 5.5 % on both of a core",
    "direction, with gcc; both hyperthreads against one",
)
def test_hyperthreads_take_tlb_entries_from_each_other(tmp_path: Path) -> None:
    def share(instances: int) -> float:
        members = f'[mix]\nquantum = "50"\ncores = 2\n[[mix.member]]\ntrace = "{CC1}"\ncount = {instances}\n'
        members += 'stagger = "1M"\ninstructions = "3M"\n'
        job = engine.Job("skylake-e3-1240v5", "linux-4k", ("core.count=1", "core.threads=2"))
        path = tmp_path / "m.toml"
        path.write_text('name = "m"\ntitle = "M"\nstanding = "own"\nwhy = "a test"\n' + members, encoding="utf-8")
        found = engine.run(str(path), [job]).results[0].data
        walk = found["counts"]["walks"]["instruction"]["cycles"]
        return float(walk) / found["counts"]["instructions"]

    assert share(2) > share(1)


def test_workloads_of_a_mix_keep_what_they_gain() -> None:
    """S2-063 for pages of 2 MiB, and three other programs: each gains at least 0.9 of what it gains alone."""
    members = Recipe.load("mix-large").mixed()
    for each in members["members"]:
        each["instructions"] = 2_000_000

    def cycles(chosen: list[dict[str, Any]]) -> dict[str, list[int]]:
        trace = "mix:" + json.dumps({**members, "members": chosen})
        jobs = [engine.Job("neoverse-n1", policy) for policy in ("linux-4k", "linux-thp")]
        ran = [result.members for result in engine.run(trace, jobs).results]
        return {
            a["name"]: [m["cycles"]["total"] - m["cycles"]["kernel"] for m in (a, b)] for a, b in zip(*ran, strict=True)
        }

    together = cycles(members["members"])
    for each in members["members"]:
        base, huge = cycles([each])[each["name"]]
        mixed_base, mixed_huge = together[each["name"]]
        assert base > 1.02 * huge, "alone, it gains"
        assert mixed_base / mixed_huge > 0.9 * base / huge
