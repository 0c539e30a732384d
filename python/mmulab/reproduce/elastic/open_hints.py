"""Hints that paper 3 leaves open (section V-A): of 1G, and of base pages where memory is cold."""

from dataclasses import dataclass, replace
from typing import Any

from mmulab import engine
from mmulab.leshy.profile import Profile, ask, profiled, sampling, select
from mmulab.reproduce.elastic.systems import PERIOD, SLACK, TARGET
from mmulab.result import address

HUGE = 2 << 20
SIZES = ["4K", "64K", "2M", "32M"]


@dataclass(frozen=True)
class Hints:
    """Files of hints from one profile, by what they may say."""

    # Up to 32M; up to 1G; and up to 32M after hints of a base page in each 2M without a sample.
    plain: dict[str, Any]
    giant: dict[str, Any]
    demoting: dict[str, Any]


def hints_of(trace: str, job: engine.Job, options: engine.Options) -> Hints:
    """The sizes that Leshy selects of the misses under `job`, by the artifact's heuristic."""
    options = replace(options, timing=False, sampling=sampling(PERIOD))
    with profiled(trace, job, options) as profile:
        plain, giant = (
            dict(select(profile.misses, ask(target=TARGET, slack=SLACK, method="artifact", sizes=sizes)).data["file"])
            for sizes in (SIZES, [*SIZES, "1G"])
        )
        cold = _cold(profile)
    return Hints(plain, giant, {**plain, "hints": cold + plain["hints"]})


def _cold(profile: Profile) -> list[dict[str, Any]]:
    """A hint of a base page at the beginning of each 2M without a sample: it takes apart the larger page there."""
    hot = {address(row["start"]) for row in engine.leshy_heat(str(profile.misses), "2M")}
    found = []
    for mapping in profile.head()["mappings"]:
        start, end, first = (address(mapping[key]) for key in ("start", "end", "first"))
        for at in range(-(-start // HUGE) * HUGE, end // HUGE * HUGE, HUGE):
            if at not in hot:
                named = {"size": "4K", "mapping": mapping["mapping"], "offset": at - first}
                found.append({**named, "pid": 1, "start": at, "misses": 0, "cycles": 0})
    return found
