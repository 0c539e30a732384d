"""How long page faults take, by policy and size (paper 3, section VII-F and Figure 15).

A program touches pages for the first time, in random order. Each fault is priced by the work of the kernel in it.
"""

from dataclasses import dataclass
from typing import Any

from mmulab import Failure, engine
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.cells import Cell, Figures, Stopped, Store
from mmulab.reproduce.shared.kinds import Whole
from mmulab.units import show_bytes

K, M = 1 << 10, 1 << 20
GIB = 1 << 30
# The paper's kernels keep blocks of up to 32 MiB (section IV-B).
BLOCKS_OF_32M = "memory.max_order=13"
_FROM_32M = (BLOCKS_OF_32M, 'policy.fault.sizes=["32M"]')


@dataclass(frozen=True)
class Price:
    """A price of kernel work that this experiment sets, in cycles, and where it is from."""

    key: str
    cycles: float
    why: str

    @property
    def change(self) -> str:
        """As `--set` takes it."""
        return f"costs.{self.key}={self.cycles:g}"


# What the machine's own costs leave in averages. None is fitted to the paper's Figure 15.
PRICES = (
    Price("list_refill", 1000, "assumed: the zone's lock, and 63 frames moved to the list at 10 to 15 cycles each"),
    Price("block_step", 40, "assumed: two changes of a list, one of them likely to wait for a cache"),
)
AHEAD = "eager-2m-zeroed-ahead"
# A daemon that is never late: all free memory, every millisecond.
NEVER_LATE = ("policy.zeroing.sleep_ms=1", "policy.zeroing.pages_per_wake=1000000000")


@dataclass(frozen=True)
class Way:
    """One curve: a policy, and the size of its faults."""

    name: str
    size: str
    # The distance between touches: that of the tool for this curve.
    page: int
    policy: str
    sets: tuple[str, ...] = ()
    # What the paper says of it.
    paper: str = ""


WAYS = (
    Way("4K", "4K", 4 * K, "linux-4k", (), "about 1 us"),
    Way(
        "64K, Elastic Translations",
        "4K",
        4 * K,
        "coalapaging",
        ("policy.fault.sizes=[]",),
        "more than 4K, slightly less than mTHP",
    ),
    Way("64K, mTHP", "64K", 64 * K, "eager-64k", (), "more than Elastic Translations' 64K"),
    Way("2M, THP", "2M", 2 * M, "linux-thp"),
    Way("32M, Elastic Translations", "2M", 2 * M, "coalapaging", (BLOCKS_OF_32M,), "close to THP"),
    Way("32M, synchronous", "32M", 32 * M, "eager-64k", _FROM_32M, "an order of magnitude more than 32M ET"),
    Way("2M, cleared ahead", "2M", 2 * M, AHEAD),
    Way("2M, all cleared ahead", "2M", 2 * M, AHEAD, NEVER_LATE),
    Way("32M, all cleared ahead", "32M", 32 * M, AHEAD, (*_FROM_32M, *NEVER_LATE)),
    Way("2M, HawkEye", "2M", 2 * M, "hawkeye"),
    Way("4K, CA paging", "4K", 4 * K, "ca-paging", ("policy.fault.sizes=[]",)),
    Way("2M, CA paging", "2M", 2 * M, "ca-paging"),
    Way("1G, Trident", "1G", GIB, "trident"),
)


@dataclass(frozen=True)
class Plan:
    """How long page faults take (paper 3, Figure 15). Pages of 4K, 64K, 2M and 32M are first accessed in random order,
    under the policies that the paper compares, and with memory cleared ahead. So are pages of 1G, if the mapping has
    two. Each fault is priced by what the kernel did in it: the result is the distribution for each policy, and what it
    is made of.

    DIR gets elastic-fault-latency.md, .json and .svg.

    Example: mmulab reproduce elastic-fault-latency --quick
    """

    machine: str = declare.machine("neoverse-n1", "The machine; its page table needs pages of 64K and 32M.")
    gib: int = declare.option(100, Whole(1, 4096), "Size of the mapping, in GiB.", shown=True)
    touches: int = declare.option(
        100_000, Whole(1, 10**9), "Pages touched, as far as the mapping has them.", shown=True
    )
    quick: bool = declare.quick("A mapping of 4 GiB, in seconds.")
    sets: tuple[str, ...] = declare.sets()

    @property
    def bytes(self) -> int:
        """The mapping."""
        return (4 if self.quick else self.gib) * GIB

    @property
    def ways(self) -> tuple[Way, ...]:
        """Those whose pages fit: a mapping of two pages has an aligned one inside it, wherever it begins."""
        return tuple(way for way in WAYS if 2 * way.page <= self.bytes)

    def trace(self, way: Way) -> str:
        """What is run: each page is touched at most once."""
        touches = min(self.touches, self.bytes // way.page)
        return f"gen:first-touch?footprint={self.bytes}&page={way.page}&touches={touches}"

    def cell(self, way: Way) -> Cell:
        """The run of a way."""
        sets = (*(price.change for price in PRICES), *way.sets, *self.sets)
        return Cell(way.name, self.trace(way), engine.Job(self.machine, way.policy, sets), OPTIONS)


OPTIONS = engine.Options(fault_latency=True)


@dataclass(frozen=True)
class Row:
    """What was found for a way."""

    way: Way
    figures: Figures

    @property
    def found(self) -> dict[str, Any]:
        """The faults of the way's size that got memory of the program's own."""
        for row in self.figures.fault_latency:
            if (row["kind"], row["size"]) == ("anon", self.way.size):
                return dict(row)
        raise Failure(
            f"{self.way.name}: no fault mapped {self.way.size}\nhint: give a machine whose memory has room for it"
        )

    @property
    def others(self) -> int:
        """Faults on memory of the program's own that mapped another size."""
        rows = (row for row in self.figures.fault_latency if row["kind"] == "anon")
        return sum(int(row["faults"]) for row in rows) - int(self.found["faults"])

    @property
    def zeroed(self) -> int:
        """Bytes that faults zeroed, over all of them."""
        return int(self.figures.kernel_work["zero_bytes"])

    @property
    def mean_us(self) -> float:
        """The mean time of a fault."""
        return float(self.found["mean_us"])

    def quantile(self, name: str) -> float:
        """A quantile of the time, such as p50, in microseconds."""
        return float(self.found["quantiles_us"][name])

    def curve(self, mhz: float) -> tuple[list[float], list[float]]:
        """Times in microseconds, and the share of the faults that took no longer."""
        times = self.found["times"]
        done, shares = 0, []
        for time in times:
            done += time["faults"]
            shares.append(done / self.found["faults"])
        return [time["cycles"] / mhz for time in times], shares


@dataclass(frozen=True)
class Outcome:
    """All ways, or what there was when it was stopped."""

    plan: Plan
    rows: tuple[Row, ...]
    costs: dict[str, Any]
    mhz: float
    complete: bool

    def of(self, name: str) -> Row:
        """The row of a way by its name."""
        return next(row for row in self.rows if row.way.name == name)

    def data(self) -> dict[str, Any]:
        """As JSON."""
        rows = [
            {
                "way": row.way.name,
                "policy": row.way.policy,
                "sets": list(row.way.sets),
                "paper": row.way.paper,
                "trace": self.plan.trace(row.way),
                "other_sizes": row.others,
                "kernel_work": row.figures.kernel_work,
                "latency": row.found,
            }
            for row in self.rows
        ]
        return {
            "experiment": "elastic-fault-latency",
            "version": engine.version(),
            "machine": self.plan.machine,
            "frequency_mhz": self.mhz,
            "complete": self.complete,
            "prices": self._prices(),
            "rows": rows,
        }

    def tables(self) -> dict[str, str]:
        """Markdown tables."""
        return {"latency": self._latency(), "parts": self._parts(), "prices": self._price_table()}

    def _latency(self) -> str:
        lines = [
            "| fault | faults | zeroed by a fault | mean us | median | 90 % | 99 % | most | paper 3 |",
            "|---|--:|--:|--:|--:|--:|--:|--:|---|",
        ]
        for row in self.rows:
            quantiles = " | ".join(f"{row.quantile(name):.3g}" for name in ("p50", "p90", "p99", "max"))
            faults = row.found["faults"]
            each = show_bytes(row.found["parts"].get("zero_bytes", 0.0) / self.costs["zero_bytes"])
            cells = f"{faults:,} | {each} | {row.mean_us:.3g} | {quantiles} | {row.way.paper}"
            lines.append(f"| {row.way.name} | {cells} |")
        return "\n".join(lines)

    def _parts(self) -> str:
        names = sorted({name for row in self.rows for name in row.found["parts"]}, key=list(self.costs).index)
        lines = [f"| fault | {' | '.join(f'`{n}`' for n in names)} | sum |", "|---|" + "--:|" * (len(names) + 1)]
        for row in self.rows:
            parts = row.found["parts"]
            cells = " | ".join(f"{parts.get(name, 0):,.0f}" for name in names)
            lines.append(f"| {row.way.name} | {cells} | {row.found['mean_cycles']:,.0f} |")
        return "\n".join(lines)

    def _prices(self) -> list[dict[str, Any]]:
        used = {name for row in self.rows for name in row.found["parts"]}
        own = {price.key: price.why for price in PRICES}
        reasons = {**self.costs["assumed"], **own}
        return [
            {
                "price": name,
                "cycles": cycles,
                "ns": cycles * 1000 / self.mhz,
                "why": reasons.get(name, self.costs["source"]),
            }
            for name, cycles in self.costs.items()
            if name in used
        ]

    def _price_table(self) -> str:
        lines = ["| price | cycles | ns | where from |", "|---|--:|--:|---|"]
        for price in self._prices():
            own = price["price"] in {p.key for p in PRICES}
            why = price["why"] if own else f"assumed: {price['why']}"
            lines.append(f"| `{price['price']}` | {price['cycles']:g} | {price['ns']:.3g} | {why} |")
        return "\n".join(lines)


def run(plan: Plan, store: Store) -> Outcome:
    """Runs every way."""
    kept: dict[str, Figures] = {}
    complete = True
    try:
        store.run([plan.cell(way) for way in plan.ways], kept)
    except Stopped:
        complete = False
    machine = engine.resolve(plan.cell(WAYS[0]).job)["machine"]
    rows = tuple(Row(way, kept[way.name]) for way in plan.ways if way.name in kept)
    return Outcome(plan, rows, machine["costs"], float(machine["core"]["frequency_mhz"]), complete)
