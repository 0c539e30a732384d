"""The 23 rows of paper 1's tables, out of the performance events by the equations of its Table 2."""

from collections.abc import Sequence
from dataclasses import dataclass

from mmulab import Failure, UserError
from mmulab.result import Result

# How events name the sizes, and how the tables do, in the tables' order.
SIZES = {"1G": "1 GB", "2M": "2 MB", "coalesced": "coalesced", "4K": "4 KB"}
CYCLES = "Unhalted clock cycles"
# Percentages are told to three decimals; four of them may miss 100 by as much as their rounding.
PERCENT_SLACK = 0.002


def _names() -> list[str]:
    names = ["L1 DTLB misses"]
    for found in ("hits", "misses"):
        names.append(f"L2 DTLB {found}")
        names += [f"L2 DTLB {size} {found}" for size in SIZES.values()]
        names += [f"L2 DTLB {size} {found} (%)" for size in SIZES.values()]
    return [*names, "L1 ITLB misses", "L2 ITLB hits", "L2 ITLB misses", CYCLES]


ROWS: tuple[str, ...] = tuple(_names())
Values = dict[str, float | None]


@dataclass(frozen=True)
class Events:
    """What the performance counters of a result's machine say, by what they count."""

    by_meaning: dict[tuple[str, tuple[str, ...]], int]

    @classmethod
    def of(cls, result: Result) -> "Events":
        """Reads them."""
        told = {event["name"]: int(event["value"]) for event in result.perf}
        described = result.data["machine"].get("perf", {}).get("event", [])
        if not described:
            raise UserError(
                f"{result.machine}: its description names no performance events\n"
                "hint: run on a machine with a perf table, such as zen3-5900x or zenplus-2700x"
            )
        return cls({(e["counts"], tuple(e.get("sizes", []))): told[e["name"]] for e in described})

    def get(self, counts: str, *sizes: str) -> int | None:
        """What one event says; None where the processor has no such counter."""
        return self.by_meaning.get((counts, sizes))


def values(result: Result) -> Values:
    """The rows of one column, per 1000 instructions; the last one in cycles."""
    events = Events.of(result)
    instructions = events.get("instructions")

    def rate(count: int | None) -> float | None:
        if count is None or not instructions:
            return None
        return 1000 * count / instructions

    found: Values = {}
    totals = 0
    for kind in ("hits", "misses"):
        counts = {size: events.get(f"l2d-{kind}", size) for size in SIZES}
        total = sum(count or 0 for count in counts.values())
        totals += total
        found[f"L2 DTLB {kind}"] = rate(total)
        for size, name in SIZES.items():
            count = counts[size]
            found[f"L2 DTLB {name} {kind}"] = rate(count)
            share = None if count is None else 100 * count / total if total else 0.0
            found[f"L2 DTLB {name} {kind} (%)"] = share
    found["L1 DTLB misses"] = rate(totals)
    hits, misses = events.get("l2i-hits"), events.get("l2i-misses")
    found["L2 ITLB hits"], found["L2 ITLB misses"] = rate(hits), rate(misses)
    found["L1 ITLB misses"] = rate((hits or 0) + (misses or 0))
    cycles = events.get("user-cycles")
    found[CYCLES] = None if cycles is None else float(cycles)
    return {name: found[name] for name in ROWS}


def check(result: Result) -> None:
    """Raises Failure unless the events add up to what the TLBs counted: L1 misses, and each total over its sizes."""
    result.check()
    events = Events.of(result)

    def total(kind: str) -> int:
        return sum(events.get(f"l2d-{kind}", size) or 0 for size in SIZES)

    data, code = result.tlb("l2d"), result.tlb("l2i")
    # Misses that ended in no translation reload nothing, here as on the hardware.
    walked = sum(result.reloads("l1d", "l2_misses").values())
    sums = [
        ("L2 DTLB hits by size", total("hits"), data["hits"]),
        ("L2 DTLB misses by size", total("misses"), walked),
        ("L1 DTLB misses", total("hits") + total("misses"), result.tlb("l1d")["misses"] - (data["misses"] - walked)),
        ("L2 ITLB hits", events.get("l2i-hits") or 0, code["hits"]),
        ("L2 ITLB misses", events.get("l2i-misses") or 0, code["misses"]),
    ]
    broken = [f"{name}: {left} is not {right}" for name, left, right in sums if left != right]
    if broken:
        raise Failure(
            f"{result.label}: the performance events contradict the counts: {'; '.join(broken)}\n"
            "hint: where the description is yours, see that its perf table has every size once; else this is a defect"
        )


def residuals(column: Values, names: Sequence[str] = ROWS) -> dict[str, float]:
    """By how much the identities of a column miss: 0 but for rounding."""
    assert set(names) <= set(ROWS)

    def value(name: str) -> float:
        return column[name] or 0.0

    found = {
        "L1 DTLB misses": value("L1 DTLB misses") - value("L2 DTLB hits") - value("L2 DTLB misses"),
        "L1 ITLB misses": value("L1 ITLB misses") - value("L2 ITLB hits") - value("L2 ITLB misses"),
    }
    for kind in ("hits", "misses"):
        found[f"L2 DTLB {kind}"] = value(f"L2 DTLB {kind}") - sum(
            value(f"L2 DTLB {size} {kind}") for size in SIZES.values()
        )
        shares = sum(value(f"L2 DTLB {size} {kind} (%)") for size in SIZES.values())
        found[f"L2 DTLB {kind} (%)"] = shares - 100 if value(f"L2 DTLB {kind}") else shares
    return {name: miss for name, miss in found.items() if name in names or name.endswith("(%)")}
