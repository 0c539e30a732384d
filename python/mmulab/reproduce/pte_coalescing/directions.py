"""Where a table goes the other way than the paper's, and what in the results tells why."""

from collections.abc import Mapping
from dataclasses import dataclass

from mmulab.reproduce.pte_coalescing.columns import COLUMNS
from mmulab.reproduce.pte_coalescing.counters import CYCLES
from mmulab.reproduce.pte_coalescing.published import ROUNDING, Published
from mmulab.result import Result
from mmulab.units import show_bytes

# What paper 1 calls little impact: L1 ITLB misses of 1.578 and 1.531 (section 5.2.1).
LITTLE = 0.03
# And for cycles: 1.076 and 1.078, "within the variance of the experiment" (section 5.3.7).
LITTLE_CYCLES = 0.002

# The comparisons paper 1 makes (sections 5.1 to 5.4): what changes, from which column to which.
COMPARISONS = (
    ("reservations", "F5:noresv", "F5:reserv"),
    ("superpages", "F5:reserv", "F5:super"),
    ("no MADV_FREE", "F5:super", "F5:nomdv"),
    ("reservations, 32 KB groups", "F2:noresv", "F2:reserv"),
    ("superpages, 32 KB groups", "F2:reserv", "F2:super"),
    ("no MADV_FREE, 32 KB groups", "F2:super", "F2:nomdv"),
    ("THP", "LL:nothp", "LL:thp"),
    ("reservations, Linux binary", "LF:noresv", "LF:reserv"),
    ("superpages, Linux binary", "LF:reserv", "LF:super"),
    ("FreeBSD without reservations for Linux", "LL:nothp", "LF:noresv"),
    ("FreeBSD with reservations for Linux", "LL:nothp", "LF:reserv"),
    ("FreeBSD's superpages for Linux's", "LL:thp", "LF:super"),
    ("the 2700X for the 5900X", "F5:reserv", "F2:reserv"),
)
COMPARED = (
    "L1 DTLB misses",
    "L2 DTLB coalesced hits",
    "L2 DTLB coalesced hits (%)",
    "L2 DTLB misses",
    "L1 ITLB misses",
    "L2 ITLB misses",
    CYCLES,
)


@dataclass(frozen=True)
class Difference:
    """A comparison that comes out otherwise than in the paper."""

    what: str
    start: str
    end: str
    row: str
    ours: tuple[float, float]
    paper: tuple[float, float]
    explanation: str | None

    @property
    def is_opposite(self) -> bool:
        """Whether one falls where the other rises; else one of the two hardly changes."""
        return direction(self.row, *self.ours) * direction(self.row, *self.paper) < 0


def direction(row: str, start: float, end: float) -> int:
    """-1 for a fall, 1 for a rise, 0 for little impact."""
    little = LITTLE_CYCLES if row == CYCLES else LITTLE
    change = end - start
    if abs(change) <= max(little * max(start, end), 2 * ROUNDING):
        return 0
    return 1 if change > 0 else -1


def differences(
    ours: Mapping[str, Mapping[str, float | None]], paper: Published, results: Mapping[str, Result]
) -> tuple[list[Difference], int]:
    """The comparisons that come out otherwise, and how many were made."""
    found: list[Difference] = []
    made = 0
    for what, start, end in COMPARISONS:
        here: list[Difference] = []
        for row in COMPARED:
            a, b = ours[start][row], ours[end][row]
            if a is None or b is None:
                continue
            made += 1
            theirs = (paper[start][row], paper[end][row])
            if direction(row, a, b) != direction(row, *theirs):
                why = _explain(row, _Side(start, results[start]), _Side(end, results[end]))
                if why is None and row == CYCLES:
                    # They are made of the misses above.
                    why = next((d.explanation for d in here if d.explanation), None)
                here.append(Difference(what, start, end, row, (a, b), theirs, why))
        found += here
    return found, made


# Explanations ---------------------------------------------------------------------------------------------------------
# Each looks into the results for what would make the difference, and says nothing unless it finds it.

# When misses or refusals are more of one kind than of all others.
HALF = 0.5
PROMOTES = ("thp", "super", "nomdv")


@dataclass(frozen=True)
class _Side:
    """One column of a comparison."""

    key: str
    result: Result

    @property
    def config(self) -> str:
        return self.key.partition(":")[2]

    def happened(self, name: str) -> int:
        return int(self.result.counts["kernel"]["events"][name])

    def entries(self, level: int, side: str) -> int:
        """Entries of a level that hold base pages."""
        arrays = self.result.data["machine"]["tlb"]
        return sum(a["entries"] for a in arrays if a["level"] == level and a["side"] == side and "4K" in a["sizes"])

    def refused(self, side: str) -> dict[str, int]:
        """What became of the lines that walks for a first-level array of `side` read, by reason."""
        arrays = [a for a in self.result.counts["arrays"] if a["level"] == 1 and a["side"] == side]
        return {reason: sum(int(a["coalescing"][reason]) for a in arrays) for reason in arrays[0]["coalescing"]}


def _explain(row: str, start: _Side, end: _Side) -> str | None:
    tests = (
        _no_madv_free,
        _no_superpages,
        _other_processor,
        _first_touches,
        _few_splits,
        _few_superpages,
        _coincidence,
        _out_of_phase,
        _untouched,
    )
    return next((text for test in tests if (text := test(row, start, end))), None)


def _no_madv_free(row: str, start: _Side, end: _Side) -> str | None:
    if end.config != "nomdv" or end.happened("madv_free_suppressed"):
        return None
    return "the trace makes no MADV_FREE call, so there is none to leave out"


def _no_superpages(row: str, start: _Side, end: _Side) -> str | None:
    for side in (end, start):
        result = side.result
        if side.config not in PROMOTES or result.covered_by_size.get("2M", 0):
            continue
        refusals = {name: count for name, count in result.counts["kernel"]["refusals"].items() if count}
        most = sorted(refusals, key=lambda name: (-refusals[name], name))[:2]
        told = ", ".join(f"{name} {refusals[name]:,}" for name in most)
        return f"no 2 MB page was ever mapped under {side.key}" + (f" (most refusals: {told})" if told else "")
    return None


def _other_processor(row: str, start: _Side, end: _Side) -> str | None:
    if start.result.machine == end.result.machine:
        return None
    if row == CYCLES:
        return "cycles are the model's, with one base CPI for both processors: only translation differs between them"
    if row == "L1 DTLB misses":
        first, second = (s.entries(1, "data") for s in (start, end))
        if first == second:
            return (
                f"both first levels are described with {first} entries and so miss alike where nothing coalesces; the "
                "paper's do not, under noresv: its processors differ in something else too"
            )
    return None


def _few_splits(row: str, start: _Side, end: _Side) -> str | None:
    """MADV_FREE costs what the paper says it does by splitting superpages."""
    if end.config != "nomdv":
        return None
    calls, splits = end.happened("madv_free_suppressed"), start.happened("split")
    made = start.happened("promotions")
    if 2 * splits > made:
        return None
    return (
        f"the trace's {calls:,} MADV_FREE calls split {splits:,} of {made:,} superpages under {start.key}: what they "
        "cost is accessed and dirty bits, without which groups do not coalesce"
    )


def _few_superpages(row: str, start: _Side, end: _Side) -> str | None:
    for side in (end, start):
        result = side.result
        mapped, all_sizes = result.covered_by_size.get("2M", 0), sum(result.covered_by_size.values())
        if side.config in PROMOTES and mapped < HALF * all_sizes:
            return (
                f"under {side.key} superpages map {show_bytes(mapped)} of {show_bytes(all_sizes)}: "
                f"{side.happened('promotions') + side.happened('collapse'):,} were promoted, the rest is smaller or "
                "not full yet"
            )
    return None


def _first_touches(row: str, start: _Side, end: _Side) -> str | None:
    """Second-level misses that are faults: no page policy saves a first touch."""
    if row not in ("L2 DTLB misses", "L2 ITLB misses"):
        return None
    walks, level = ("data", "l2d") if "DTLB" in row else ("instruction", "l2i")
    share = min(s.result.walks(walks)["faulted"] / (s.result.tlb(level)["misses"] or 1) for s in (start, end))
    if share < HALF:
        return None
    return f"{share:.0%} of these misses are first touches, which fault: the trace is short for the pages it touches"


def _out_of_phase(row: str, start: _Side, end: _Side) -> str | None:
    if "ITLB" not in row:
        return None
    counts = end.refused("instruction")
    if counts["misaligned"] <= counts["coalesced"]:
        return None
    return (
        f"under {end.key} {counts['misaligned']:,} fills of code were refused as out of phase and "
        f"{counts['coalesced']:,} coalesced: as the trace has its files in memory, "
        "pages and frames differ modulo the group"
    )


def _coincidence(row: str, start: _Side, end: _Side) -> str | None:
    """Code that coalesces more or less under a policy that leaves code alone."""
    if "ITLB" not in row or end.config not in ("nothp", "thp"):
        return None
    before, after = (s.refused("instruction")["coalesced"] for s in (start, end))
    if before == after:
        return None
    return (
        f"{before:,} fills of code coalesced under {start.key}, {after:,} under {end.key}: frames of files lie "
        "together by coincidence, the more so the fewer base pages are taken in between"
    )


def _untouched(row: str, start: _Side, end: _Side) -> str | None:
    """A page whose entry stays in the second level is not walked for again once its group is complete."""
    side, level = ("data", "l2d") if "DTLB" in row else ("instruction", "l2i")
    if "TLB" not in row:
        return None
    counts = end.refused(side)
    early = counts["missing"] + counts["untouched"]
    refused = sum(count for reason, count in counts.items() if reason not in ("coalesced", "destroyed"))
    if not refused or early / refused < HALF:
        return None
    return (
        f"under {end.key} {early / refused:.0%} of the {side} fills that did not coalesce came before all of their "
        f"group was touched, and with {end.result.mpki(level):.3f} second-level misses per 1000 instructions few were "
        "walked for again"
    )


assert {key for _, *pair in COMPARISONS for key in pair} <= {column.key for column in COLUMNS}
