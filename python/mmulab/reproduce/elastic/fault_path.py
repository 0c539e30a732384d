"""What a real Linux does in a page fault, by recordings of whole systems, beside the prices of simulated faults.

    mmulab-kernel first-touch, in a guest --record --system--> recording --+--> text of some faults: counts, median
                                                                          '--> a core in time: cycles of an instruction

A fault is what the kernel runs between two stretches of the program, if it zeroes a page in it. Interrupts in it are
counted with it, so medians are shown. Iterations of a repeated store are counted apart from other instructions.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from mmulab import Failure, engine, guest, paths
from mmulab.reproduce.elastic import fault_latency
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.cells import Figures, Store
from mmulab.reproduce.shared.experiment import Session
from mmulab.units import show_bytes

K, M = 1 << 10, 1 << 20
LINE = 64
# Addresses of programs lie below (x86-64 with four levels).
KERNEL = 1 << 63
# Pages are zeroed by stores of 8 bytes, of which QEMU counts each as an instruction; with fast strings, Linux stores
# single bytes.
CPU = "max,la57=off,erms=off,fsrm=off"
# The part of a recording in which nothing but first touches is run.
TOUCHING = (0.5, 0.9)
ACCESS = re.compile(r"\d+[rw](\d+)$")


@dataclass(frozen=True)
class Way:
    """Faults of one size."""

    name: str
    bytes: int
    thp: str
    # Pages that the program touches, and instructions that are looked at fault by fault.
    touches: int
    window: int
    # The simulated policy beside it.
    simulated: str


WAYS = (
    Way("4K", 4 * K, "never", 12_000, 400_000, "4K"),
    Way("2M", 2 * M, "always", 100, 4_000_000, "2M, THP"),
)


@dataclass(frozen=True)
class Plan:
    """What a real Linux does in a fault of 4K and in one of 2M, beside the prices of simulated faults (paper 3, Figure
    15). A guest is recorded whole while its program touches pages for the first time. Counted are the kernel's
    instructions, loads, stores and lines of a median fault, without its zeroing, and the bytes that it zeroes. The
    machine says how many cycles these instructions take. It has the prices, too.

    Needs qemu-system-x86_64, and a kernel (Debian's is fetched).

    Example: mmulab reproduce elastic-fault-path
    """

    machine: str = declare.machine("neoverse-n1", "The machine whose prices are held against the recordings.")
    quick: bool = declare.quick("A third of the faults.")
    work: Path = declare.work("build/fault-path")
    sets: tuple[str, ...] = declare.sets()


@dataclass
class Fault:
    """What the kernel did in a fault."""

    instructions: int = 0
    loads: int = 0
    stores: int = 0
    # Repeated stores, which the others leave out, and what they zero.
    repeated: int = 0
    zeroed: int = 0
    # Numbers of lines.
    code: set[int] = field(default_factory=set)
    data: set[int] = field(default_factory=set)
    # Instructions of the last block, its place, and where its last store was.
    _count: int = 0
    _at: int = 0
    _stored: tuple[int, int] = (0, 0)

    def block(self, at: int, count: int) -> None:
        """A block of `count` instructions begins."""
        self.instructions += count
        self.code.add(at // LINE)
        self._count, self._at = count, at

    def access(self, kind: str, va: int, size: int) -> None:
        """An access. `size`: its bytes, if its block makes no other access; else 0."""
        if kind == "r":
            self.loads += 1
        elif self._count == 1 and size and self._stored == (self._at, va - size):
            # This instruction alone stored right before these bytes: it is a repeated string store.
            self.zeroed += size
            self.repeated += 1
            self.instructions -= 1
            self._stored = (self._at, va)
            return
        else:
            self.stores += 1
            self._stored = (self._at, va)
        self.data.add(va // LINE)


def faults(lines: Iterable[str], page: int) -> Iterator[Fault]:
    """The whole faults in a text trace that zero `page` bytes or more."""
    fault: Fault | None = None
    has_run, size = False, 0
    for line in lines:
        word, *rest = line.split()
        if word == "code":
            sizes = [int(found[1]) for found in map(ACCESS.match, rest) if found]
            size = sizes[0] if len(sizes) == 1 else 0
        elif word == "f":
            at = int(rest[0], 16)
            if at < KERNEL:
                # The first store of each page counts as an ordinary one.
                if fault and fault.zeroed >= page - page // LINE:
                    yield fault
                fault, has_run = None, True
            elif has_run:
                fault = fault or Fault()
                fault.block(at, int(rest[1][1:]) if len(rest) > 1 else 1)
        elif fault and word == "n":
            fault.instructions += int(rest[0])
        elif fault and word in ("r", "w"):
            fault.access(word, int(rest[0], 16), size)


@dataclass(frozen=True)
class Row:
    """What was found for a way."""

    way: Way
    faults: tuple[Fault, ...]
    # Cycles of an instruction of the recording, on the plan's core in time.
    cycles: float
    # Mean cycles of the simulated fault, by price.
    parts: dict[str, float]

    def median(self, figure: str) -> int:
        """The median of a figure over the faults; of sets, of how many lines are in them."""
        values = [getattr(fault, figure) for fault in self.faults]
        return round(median(value if isinstance(value, int) else len(value) for value in values))

    @property
    def in_time(self) -> float:
        """Cycles of a median fault on the core in time."""
        return (self.median("instructions") + self.median("repeated")) * self.cycles

    @property
    def priced(self) -> float:
        """Cycles of a simulated fault."""
        return sum(self.parts.values())

    def data(self) -> dict[str, Any]:
        """As JSON."""
        names = ("instructions", "loads", "stores", "repeated", "zeroed", "code", "data")
        return {
            "fault": self.way.name,
            "faults": len(self.faults),
            **{name: self.median(name) for name in names},
            "cycles_of_an_instruction": self.cycles,
            "priced": self.parts,
        }


@dataclass(frozen=True)
class Outcome:
    """All ways."""

    plan: Plan
    rows: tuple[Row, ...]
    kernel: str

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "experiment": "elastic-fault-path",
            "version": engine.version(),
            "machine": self.plan.machine,
            "kernel": self.kernel,
            "rows": [row.data() for row in self.rows],
        }

    def tables(self) -> dict[str, str]:
        """Markdown tables."""
        lines = [
            f"| fault, {self.kernel} | faults | instructions | loads | stores | lines of code | lines of data |"
            " bytes zeroed | cycles, in time | cycles, priced |",
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        ]
        for row in self.rows:
            counts = [row.median(name) for name in ("instructions", "loads", "stores", "code", "data")]
            cells = [f"{count:,}" for count in counts]
            cells.append(show_bytes(row.median("zeroed")))
            cells += [f"{row.in_time:,.0f}", f"{row.priced:,.0f}"]
            lines.append(f"| {row.way.name} | {len(row.faults)} | {' | '.join(cells)} |")
        return {"path": "\n".join(lines)}


def run(plan: Plan, session: Session) -> Outcome:
    """Records every way that is not kept, and counts its faults."""
    vmlinuz = guest.kernel(session.say)
    plan.work.mkdir(parents=True, exist_ok=True)
    priced = fault_latency.Plan(machine=plan.machine, quick=True, sets=plan.sets)
    store = session.store(lambda figures: f"{figures.fault_latency[0]['mean_us']:.3g} us a fault")
    rows = tuple(_row(plan, way, vmlinuz, priced, store, session) for way in WAYS)
    return Outcome(plan, rows, vmlinuz.name.removeprefix("vmlinuz-"))


def _row(plan: Plan, way: Way, vmlinuz: Path, priced: fault_latency.Plan, store: Store, session: Session) -> Row:
    recording = _recorded(plan, way, vmlinuz, session)
    length = engine.trace_length(str(recording))
    first, last = (int(length * share) for share in TOUCHING)
    with tempfile.TemporaryDirectory() as directory:
        text, part = Path(directory) / "part.mmtx", Path(directory) / "part.mmt"
        engine.trace_copy(str(recording), str(text), "text", first, min(first + way.window, last))
        with text.open(encoding="utf-8") as lines:
            found = tuple(faults(lines, way.bytes))
        if not found:
            raise Failure(f"{recording}: no fault of {way.name} in it\nhint: delete it, and record it anew")
        engine.trace_copy(str(recording), str(part), "native", first, last)
        cycles = _cycles(plan, str(part), session)
    kept: dict[str, Figures] = {}
    simulated = next(w for w in fault_latency.WAYS if w.name == way.simulated)
    store.run([priced.cell(simulated)], kept)
    parts = fault_latency.Row(simulated, kept[simulated.name]).found["parts"]
    return Row(way, found, cycles, dict(parts))


def _cycles(plan: Plan, trace: str, session: Session) -> float:
    """Cycles of an instruction, on average."""
    job = engine.Job(plan.machine, "linux-4k", plan.sets)
    (result,) = engine.run(trace, [job], engine.Options(timing=True), session.on_progress).whole()
    timing = result.data["timing"]
    return float(timing["cycles"]) / float(timing["instructions"])


def _recorded(plan: Plan, way: Way, vmlinuz: Path, session: Session) -> Path:
    """The recording of a way; made, if it is not kept."""
    touches = way.touches // (3 if plan.quick else 1)
    target = plan.work / f"{vmlinuz.name}-{way.name}-{touches}.mmt"
    if target.exists():
        return target
    session.say(f"recording {touches:,} faults of {way.name} under {vmlinuz.name}")
    words = ["first-touch", f"footprint={touches * way.bytes}", f"page={way.bytes}", f"touches={touches}"]
    memory = (touches * way.bytes >> 20) * 5 // 4 + 512
    engine.record(
        {
            "output": str(target),
            "command": [str(paths.kernel()), *words],
            "plugin": str(paths.plugin()),
            "cpu": CPU,
            "system": guest.options(vmlinuz=vmlinuz, memory_mb=memory, thp=way.thp),
        }
    )
    return target
