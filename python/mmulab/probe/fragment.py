"""Memory of a description that hands out frames as scattered as those that were seen."""

from typing import Any

from mmulab.probe.frames import GROUP, Frames
from mmulab.units import parse_bytes, toml_value

Json = dict[str, Any]
# Scattered pages up to this share are as good as none.
SCATTERED = 0.01
# Bytes of a base page.
BASE = 4096
# Most of memory that others may have in a description.
MOST_PERCENT = 95
# Megabytes that an entry of a page directory stands for.
REGION = 2
# Of memory, regions that hold scattered frames take this part at most: the program's other frames need room.
MOST_REGIONS = 0.5


def fragment(frames: Frames, gigabytes: int) -> Json | None:
    """The `fragment` of memory that hands out frames as scattered as these; None where next to none are."""
    if frames.scattered <= SCATTERED * frames.pages:
        return None
    percent = min(MOST_PERCENT, max(1, round(100 * (1 - _free(frames.density)))))
    free = 1 - percent / 100
    # So much memory has as many free frames in groups that have some of theirs, and not all.
    within = min(gigabytes << 9, max(1, round(frames.scattered * BASE / (free - free**GROUP)) >> 20))
    wanted: Json = {"kind": "memhog", "percent": percent, "chunk": "4K", "within": f"{within}M"}
    return {**wanted, **_regions(frames, within, gigabytes << 10)} if frames.regions else wanted


def _regions(frames: Frames, within: int, memory: int) -> Json:
    """How many regions of 2 MB these frames lie in, and over how much memory; both amounts are in MB."""
    regions = max(-(-within // REGION), min(frames.regions, int(memory * MOST_REGIONS) // REGION))
    over = min(memory - REGION, max(regions, frames.region_lines * GROUP) * REGION)
    return {"regions": regions, "over": f"{over}M"}


def _free(density: float) -> float:
    """The share of frames that are free, if each frame is free by chance. In groups with some free frames, but not all,
    the share is `density`. Groups without a free frame are not seen."""

    def seen(free: float) -> float:
        none, full = (1 - free) ** GROUP, free**GROUP
        return (free - full) / (1 - none - full)

    low, high = 0.001, 0.999
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if seen(middle) < density else (low, middle)
    return high


def fragment_sets(frames: Frames, machine: Json) -> tuple[str, ...]:
    """Changes to a resolved machine so that its kernel hands out frames as scattered as these."""
    place, of = ("virtual.memory", machine["virtual"]) if machine.get("virtual") else ("memory", machine)
    wanted = fragment(frames, max(1, (parse_bytes(of["memory"]["size"]) or 0) >> 30))
    return (f"{place}.fragment={toml_value(wanted or {'kind': 'none'})}",)
