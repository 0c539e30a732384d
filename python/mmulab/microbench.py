"""The microbenchmark of paper 1: short programs over every group of pages of a region, and what the TLBs counted."""

import json
from dataclasses import dataclass, field
from typing import Any, cast

from mmulab import _core, paths
from mmulab.engine import Job, Options

Json = dict[str, Any]
LIVE = "live"
# The memory manager paper 1 used (section 3.1): a region out of reservations, and no promotion.
POLICY = "freebsd-reserv"
COUNTERS = ("l2_miss_4k", "l2_hit_4k", "l2_miss_coalesced", "l2_hit_coalesced")


@dataclass(frozen=True)
class Plan:
    """The region and what is repeated; 0 pages take the machine's own group."""

    region: int = 8 << 20
    group: int = 0
    write_protect: bool = False
    operation_repeats: int = 1
    local_repeats: int = 1
    global_repeats: int = 1
    trace_repeats: int = 1


@dataclass(frozen=True)
class Measured:
    """What a run found: `samples` by word, in the order of execution; `pages` where asked for."""

    plan: Json
    groups: int
    note: str | None
    samples: list[Json] = field(default_factory=list)
    pages: list[Json] | None = None


def run(
    program: str,
    job: Job | None,
    plan: Plan | None = None,
    pages: bool = False,
    options: Options | None = None,
) -> Measured:
    """Runs a program on a simulated machine; on this one if `job` is None."""
    spec = {
        "program": program,
        "job": job.spec() if job else None,
        "search": paths.search(),
        "plan": vars(plan or Plan()),
        "options": (options or Options()).spec(),
        "pages": pages,
    }
    return Measured(**cast(Json, json.loads(_core.microbench(json.dumps(spec)))))
