"""Where translation costs: by program, region, function and 2 MB of memory; and the best page size of each region."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab.result import Result, address, covered, stall
from mmulab.study.aliases import shown_file
from mmulab.study.naming import CodeNames, is_dump
from mmulab.study.owners import Owners, site_of
from mmulab.study.symbols import lacks, sources

# Below this share of all user time a region's gain is within what the assumptions move.
WORTH = 0.0005
# Functions whose source lines are looked up: those of a report's table.
SOURCES = 20
# A page size was used in a region when it held at least this share of what was mapped there.
USED = 0.05


@dataclass(frozen=True)
class Region:
    """A mapping of a program on one machine, over all its processes: its cost under each policy, and the best one."""

    number: int
    name: str
    kind: str
    start: int
    end: int
    cost: dict[str, int]
    walks: dict[str, int]
    misses: dict[str, tuple[int, int]]
    mapped: dict[str, dict[str, int]]
    resident: dict[str, int]
    baseline: str
    user_cycles: int
    # Whether it may be executed, and the file that it shows; empty for other memory.
    is_code: bool = False
    file: str = ""
    # The place in the program that asked for the memory, where the recording names it: `table_new (table.c:42)`.
    site: str = ""

    @property
    def best(self) -> str:
        """The first policy as good as the cheapest of those that map the region otherwise, if it is worth the change.

        A region can also cost less because others' larger pages leave it more of the TLB: that is not advice for it.
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
        """The page size of the best policy."""
        return self.size_under(self.best)

    def size_under(self, policy: str) -> str:
        """The largest page size a policy used for a good part of the region."""
        mapped = self.mapped.get(policy, {})
        total = sum(mapped.values())
        used = [size for size, amount in mapped.items() if total and amount >= USED * total]
        return max(used, key=size_bytes, default="–")

    def huge_share(self, policy: str) -> float:
        """Of what a policy mapped of the region, the share in pages of 2 MB and more."""
        mapped = self.mapped.get(policy, {})
        total = sum(mapped.values())
        return sum(amount for size, amount in mapped.items() if size_bytes(size) >= 2 << 20) / total if total else 0.0

    @property
    def extra_memory(self) -> int:
        """Bytes more (or fewer) resident for the region under the best policy, each at its peak."""
        return self.resident.get(self.best, 0) - self.resident.get(self.baseline, 0)

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
    """The mappings of one machine's results, highest cost under the baseline first; without those that cost nothing."""
    base = next(r for r in results if r.policy == baseline)
    owners = Owners(base)
    by_policy = {r.policy: _by_key(r, owners) for r in results}
    found = []
    for key, same in by_policy[baseline].items():
        parts = {p: rows[key] for p, rows in by_policy.items() if key in rows}
        found.append(
            Region(
                number=min(int(x["id"]) for x in same),
                name=owners.label(same[0]),
                kind=str(same[0]["kind"]),
                start=address(same[0]["start"]),
                end=address(same[0]["end"]),
                cost={p: sum(map(stall, xs)) for p, xs in parts.items()},
                walks={p: sum(int(x["walks"]) for x in xs) for p, xs in parts.items()},
                misses={p: (_sum(xs, "l1i_misses"), _sum(xs, "l1d_misses")) for p, xs in parts.items()},
                mapped={p: _covered(xs) for p, xs in parts.items()},
                resident={p: sum(int(x["resident"]["peak"]) for x in xs) for p, xs in parts.items()},
                baseline=baseline,
                user_cycles=base.user_cycles,
                is_code=same[0]["kind"] == "file" and "x" in str(same[0]["prot"]),
                file=Path(shown_file(same[0], owners.first)).name,
                site=site_of(same[0]),
            )
        )
    costly = [r for r in found if any(r.cost.values()) or any(r.walks.values())]
    return sorted(costly, key=lambda r: (-r.cost[baseline], -r.walks[baseline], r.number))


def _by_key(result: Result, owners: Owners) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for region in result.regions:
        found.setdefault(owners.key(region), []).append(region)
    return found


def _sum(parts: list[dict[str, Any]], key: str) -> int:
    return sum(int(part[key]) for part in parts)


def _covered(parts: list[dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for size, amount in covered(part).items():
            found[size] = found.get(size, 0) + amount
    return found


@dataclass
class Function:
    """A function; or, where no symbol names it, its file and where in it the function begins."""

    name: str
    file: str
    known: bool
    cycles: int = 0
    walks: int = 0
    misses: int = 0
    # Where in its file it begins, and the source line there; empty where that is not known.
    start: int | None = None
    source: str = ""

    def add(self, block: dict[str, Any]) -> None:
        """Counts a block of it in."""
        self.cycles += stall(block)
        self.walks += int(block["walks"])
        self.misses += _misses(block)


def functions(result: Result, recording: str = "", *, with_sources: bool = True) -> list[Function]:
    """The code that made the misses, by function, highest cost first; the blocks not listed one by one come last.

    `recording`: the trace, beside which names of code are that the program made while it ran.
    `with_sources`: looks up the source lines of the first ones.
    """
    code = CodeNames(result, recording)
    found: dict[tuple[str, str], Function] = {}
    for block in result.code["places"]:
        region = code.region(block["region"])
        path = str(region.get("file") or "")
        what = code.at(region, int(block["pid"]), address(block["addr"]))
        key = (path, what.name)
        if key not in found:
            found[key] = Function(what.name, path or str(region.get("name", "unmapped")), what.known, start=what.start)
        found[key].add(block)
    by_cost = sorted(found.values(), key=lambda f: (-f.cycles, -f.walks, -f.misses, f.name, f.file))
    if with_sources:
        _find_sources(by_cost[:SOURCES])
    rest = Function(f"all other code ({result.code['rest']['places']:,} blocks)", "", known=False)
    rest.add(result.code["rest"])
    return [*by_cost, rest] if rest.misses else by_cost


def _find_sources(functions: Sequence[Function]) -> None:
    """Looks the source lines of these functions up, file by file."""
    by_file: dict[str, list[Function]] = {}
    for function in functions:
        if function.start is not None:
            by_file.setdefault(function.file, []).append(function)
    for path, own in by_file.items():
        for function, source in zip(own, sources(path, [f.start or 0 for f in own]), strict=True):
            function.source = source


def without_functions(result: Result) -> list[tuple[str, str]]:
    """The files among the code whose functions are not known, and why."""
    shown = {int(place["region"]) for place in result.code["places"]}
    files = {str(r["file"]) for r in result.regions if int(r["id"]) in shown and not r.get("vm") and r.get("file")}
    whys = ((path, lacks(path)) for path in sorted(files) if not is_dump(path))
    return [(path, why) for path, why in whys if why is not None]


def _misses(place: dict[str, Any]) -> int:
    return int(place["l1i_misses"]) + int(place["l1d_misses"])


@dataclass
class Program:
    """A program that processes of the trace ran, and what its regions cost."""

    name: str
    path: str
    role: str
    processes: int
    cycles: int = 0
    walks: int = 0


def programs(result: Result) -> list[Program]:
    """The programs that ran, highest cost first."""
    owners = Owners(result)
    found = {o: Program(o.name, o.path, o.role, count) for o, count in owners.processes.items()}
    for region in result.regions:
        if program := found.get(owners.of(region)):
            program.cycles += stall(region)
            program.walks += int(region["walks"])
    return sorted(found.values(), key=lambda p: (-p.cycles, -p.walks, p.name))


@dataclass
class Block:
    """A block of 2 MB of a program's memory, over all its processes."""

    start: int
    region: str
    cycles: int = 0
    walks: int = 0
    misses: int = 0


def blocks(result: Result) -> list[Block]:
    """The memory that the misses were for, 2 MB by 2 MB, highest cost first."""
    owners = Owners(result)
    # Places are known of the first virtual machine only.
    regions = {int(r["id"]): r for r in result.regions if not r.get("vm")}
    found: dict[tuple[Any, int], Block] = {}
    for place in result.heat["places"]:
        start, region = address(place["addr"]), regions[int(place["region"])]
        block = found.setdefault((owners.key(region), start), Block(start, owners.label(region)))
        block.cycles += stall(place)
        block.walks += int(place["walks"])
        block.misses += _misses(place)
    return sorted(found.values(), key=lambda s: (-s.cycles, -s.walks, -s.misses, s.start, s.region))
