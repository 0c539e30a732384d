"""Where translation costs: regions, functions and stretches of memory, and which page size would pay there."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab.result import Result, region_mapped, stall
from mmulab.study.symbols import function_at

# Below this share of all user time a region's gain is within what the assumptions move.
WORTH = 0.0005
# What one entry of a result's heat stands for.
HEAT_BYTES = 2 << 20
# A page size was used in a region when it held at least this share of what was mapped there.
USED = 0.05


@dataclass(frozen=True)
class Region:
    """A region on one machine: what it costs under each policy, and what would pay."""

    number: int
    pid: int
    name: str
    kind: str
    start: int
    end: int
    cost: dict[str, int]
    walks: dict[str, int]
    misses: dict[str, tuple[int, int]]
    mapped: dict[str, dict[str, int]]
    baseline: str
    user_cycles: int

    @property
    def best(self) -> str:
        """The first policy as good as the cheapest of those that map the region otherwise, if it is worth the change.

        A region can also cost less because others' larger pages leave it more of the TLB: that is no advice for it.
        """
        usual = self.size_under(self.baseline)
        others = [self.baseline, *(p for p in self.cost if self.size_under(p) != usual)]
        return as_good(self.cost, others, WORTH * self.user_cycles)

    @property
    def gain(self) -> int:
        """Cycles saved by the best policy."""
        return self.cost[self.baseline] - self.cost[self.best]

    @property
    def gain_share(self) -> float:
        """The same as a share of user time under the baseline."""
        return self.gain / self.user_cycles if self.user_cycles else 0.0

    @property
    def page_size(self) -> str:
        """The page size that pays."""
        return self.size_under(self.best)

    def size_under(self, policy: str) -> str:
        """The largest page size a policy used for a good part of the region."""
        mapped = self.mapped.get(policy, {})
        total = sum(mapped.values())
        used = [size for size, amount in mapped.items() if total and amount >= USED * total]
        return max(used, key=size_bytes, default="–")

    @property
    def extra_memory(self) -> int:
        """Bytes more (or fewer) mapped under the best policy."""
        return sum(self.mapped.get(self.best, {}).values()) - sum(self.mapped.get(self.baseline, {}).values())

    @property
    def advice(self) -> str:
        """What to do."""
        if self.best == self.baseline:
            return f"stay with {self.page_size}" if self.page_size != "–" else "leave as it is"
        return f"{self.page_size} ({self.best})"


def as_good(cost: dict[str, int], policies: list[str], margin: float) -> str:
    """The first of `policies`, simplest first, that costs no more than `margin` above the cheapest."""
    least = min(cost[p] for p in policies)
    return next(p for p in policies if cost[p] <= least + margin)


def size_bytes(size: str) -> int:
    """`2M` as bytes."""
    return int(size[:-1]) << {"K": 10, "M": 20, "G": 30, "T": 40}[size[-1]] if size[-1].isalpha() else int(size)


def regions(results: Sequence[Result], baseline: str) -> list[Region]:
    """The regions of one machine's results, dearest under the baseline first; those that cost nothing are left out."""
    by_policy = {r.policy: {int(x["id"]): x for x in r.regions} for r in results}
    base = next(r for r in results if r.policy == baseline)
    found = []
    for number, region in by_policy[baseline].items():
        same = {p: entries[number] for p, entries in by_policy.items() if number in entries}
        found.append(
            Region(
                number=number,
                pid=int(region.get("pid", 0)),
                name=str(region["name"]),
                kind=str(region["kind"]),
                start=address(region["start"]),
                end=address(region["end"]),
                cost={p: stall(x) for p, x in same.items()},
                walks={p: int(x["walks"]) for p, x in same.items()},
                misses={p: (int(x["l1i_misses"]), int(x["l1d_misses"])) for p, x in same.items()},
                mapped={p: region_mapped(x) for p, x in same.items()},
                baseline=baseline,
                user_cycles=base.user_cycles,
            )
        )
    costly = [r for r in found if any(r.cost.values()) or any(r.walks.values())]
    return sorted(costly, key=lambda r: (-r.cost[baseline], -r.walks[baseline], r.number))


def address(value: Any) -> int:
    """An address as the engine writes it: a number, or hexadecimal text."""
    return value if isinstance(value, int) else int(str(value), 16)


@dataclass
class Function:
    """A function, or a file where symbols do not tell functions."""

    name: str
    file: str
    known: bool
    cycles: int = 0
    walks: int = 0
    misses: int = 0

    def add(self, block: dict[str, Any]) -> None:
        """Counts a block of it in."""
        self.cycles += stall(block)
        self.walks += int(block["walks"])
        self.misses += _misses(block)


def functions(result: Result) -> list[Function]:
    """The code that made the misses, by function, dearest first; the blocks not listed one by one come last."""
    by_id = {int(r["id"]): r for r in result.regions}
    found: dict[tuple[str, str], Function] = {}
    for block in result.code["places"]:
        region = by_id.get(int(block["region"]), {})
        path = str(region.get("file") or "")
        inside = address(block["addr"]) - address(region["start"]) if region else 0
        name = function_at(path, inside + int(region["offset"])) if path else None
        where = Path(path).name if path else str(region.get("name", "unmapped"))
        key = (path or where, name or "")
        if key not in found:
            found[key] = Function(name or f"{where} (no symbol)", path or where, known=name is not None)
        found[key].add(block)
    dearest = sorted(found.values(), key=lambda f: (-f.cycles, -f.walks, -f.misses, f.name, f.file))
    rest = Function(f"all other code ({result.code['rest']['places']:,} blocks)", "", known=False)
    rest.add(result.code["rest"])
    return [*dearest, rest] if rest.misses else dearest


def _misses(place: dict[str, Any]) -> int:
    return int(place["l1i_misses"]) + int(place["l1d_misses"])


@dataclass(frozen=True)
class Stretch:
    """A stretch of 2 MB of memory."""

    start: int
    pid: int
    region: str
    cycles: int
    walks: int
    misses: int


def stretches(result: Result) -> list[Stretch]:
    """The memory that the misses were for, 2 MB by 2 MB, dearest first."""
    by_pid: dict[int, list[dict[str, Any]]] = {}
    for region in result.regions:
        by_pid.setdefault(int(region["pid"]), []).append(region)
    found = []
    for place in result.heat["places"]:
        start, pid = address(place["addr"]), int(place["pid"])
        inside = [r for r in by_pid.get(pid, []) if _overlaps(r, start, start + HEAT_BYTES)]
        owner = max(inside, key=stall, default={"name": ""})
        found.append(Stretch(start, pid, str(owner["name"]), stall(place), int(place["walks"]), _misses(place)))
    return found


def _overlaps(region: dict[str, Any], start: int, end: int) -> bool:
    return address(region["start"]) < end and address(region["end"]) > start
