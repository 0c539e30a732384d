"""The systems that paper 3 compares, on one machine (Figures 8 to 12).

The results are time, TLB misses and translation sizes of each program under each system. Memory is fresh or fragmented
(Figures 8, 9, 11 and 12), or that of a virtual machine (Figure 10).

Time is a core's in time, between two bounds of dependence (`shared.bounds`). Runs are short beside the paper's, so that
daemons must be faster: their sleeps are divided by `FASTER`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from mmulab import UserError, engine
from mmulab.leshy.profile import ask, profiled, sampling, select
from mmulab.markdown import grid
from mmulab.reproduce.elastic import fragmentation, measured, scaled
from mmulab.reproduce.elastic.compared import Compared
from mmulab.reproduce.elastic.fault_latency import BLOCKS_OF_32M
from mmulab.reproduce.elastic.fragmentation import FRESH, fragmented
from mmulab.reproduce.elastic.programs import FULL, PROGRAMS, QUICK, Program
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.bounds import BOUNDS, between, bound
from mmulab.reproduce.shared.cells import Cell, Figures, Stopped, Store
from mmulab.reproduce.shared.kinds import Among, Flag, Instructions, Wholes
from mmulab.units import show_bytes

BASE = "4K"
# Daemons sleep so much shorter: a run lasts a fraction of a second where the paper's last minutes.
FASTER = 10_000
# An epoch of Leshy online in microseconds. A ten-thousandth of an epoch has fewer misses than one of 1024 samples of a
# whole one: so every miss is a sample.
EPOCH_US = 5_000_000
# How long khugepaged sleeps after a scan, and after one that found no block (mm/khugepaged.c), in milliseconds.
SLEEPS_MS = {"scan_sleep_ms": 10_000, "alloc_sleep_ms": 60_000}
# Of the misses, what the selected sizes are to cover, in 1/100000, and percent of the TLB's entries that they may use.
TARGET, SLACK = 99_990, 100
# TLB misses for each one that is sampled.
PERIOD = 64
INSTRUCTIONS, QUICK_INSTRUCTIONS = 10_000_000, 300_000


@dataclass(frozen=True)
class System:
    """A page policy of the comparison."""

    name: str
    policy: str
    sets: tuple[str, ...] = ()
    # Whether it is given the sizes that Leshy selects for the program.
    hinted: bool = False
    # The policy of the host below virtual machines; None if the system is not run in such.
    host: str | None = None
    host_sets: tuple[str, ...] = ()


def faster(section: str, of: str = "policy") -> tuple[str, ...]:
    """The daemon of a policy's section, faster."""
    return tuple(f"{of}.{section}.{key}={ms // FASTER}" for key, ms in SLEEPS_MS.items())


PROMOTION = faster("promotion.daemon")
# Leshy online, faster.
ONLINE = tuple(f"policy.hints.leshy.{key}" for key in (f"epoch_us={EPOCH_US // FASTER}", "period=1", "jitter=false"))
# Elastic Translations below virtual machines: without hints, for samples are the guests' addresses. Its daemon scans.
HOST_SCANS = (
    "host_policy.promotion.serves=all",
    "host_policy.hints.from=none",
    *faster("promotion.daemon", "host_policy"),
)
SYSTEMS = (
    System(BASE, "linux-4k", host="linux-4k"),
    System(
        "THP",
        "linux-thp-khugepaged",
        faster("thp.khugepaged"),
        host="linux-thp-khugepaged",
        host_sets=faster("thp.khugepaged", "host_policy"),
    ),
    System("mTHP", "linux-mthp"),
    System("HawkEye", "hawkeye", PROMOTION, host="hawkeye", host_sets=faster("promotion.daemon", "host_policy")),
    System("CoalaPaging", "coalapaging-bit", host="coalapaging-bit"),
    System(
        "+CoalaKhugepaged",
        "elastic",
        (*PROMOTION, "policy.promotion.serves=all", "policy.hints.from=none"),
        host="elastic",
        host_sets=HOST_SCANS,
    ),
    System("+Leshy, online", "elastic-online", (*PROMOTION, *ONLINE), host="elastic", host_sets=HOST_SCANS),
    System("+offline hints, daemon", "elastic", PROMOTION, hinted=True),
    System("+offline hints, faults", "elastic-offline", PROMOTION, hinted=True, host="elastic", host_sets=HOST_SCANS),
)
NAMES = {system.name: system for system in SYSTEMS}
# The virtual machine: as the native one. What no source states of the N1's second stage is as its first.
GUEST = (
    "virtual.memory.size=64G",
    "virtual.memory.max_order=13",
    "virtual.table.kind=armv8-4k",
    "virtual.table.levels=4",
    "virtual.cache=[{name='stage-2 walk cache',levels=[2,3,4],entries=64,ways=4,replacement='lru',hit_cycles=1}]",
)


@dataclass(frozen=True)
class Plan:
    """The systems of paper 3 beside each other (Figures 8, 9, 11 and 12): 4K, THP, mTHP, HawkEye, and Elastic
    Translations part by part. For each program: time against 4K by a core in time, misses of the second-level TLB, and
    the sizes that memory is translated by. Hints are Leshy's, of a profile of the same program under 4K.

    --virtualised runs each program in a virtual machine (Figure 10): guest and host have the same policy, but for
    hints, which only the guest has. There, --fragmented is the host's memory, the guest's, or both
    (--fragmented-in).

    --scaled has TLBs and programs a 32nd of the paper's, with its ratios of footprint to TLB reach.

    --full has programs in the paper's sizes, up to 122 GiB. A run of these takes some 3 GB of this computer's memory.

    --fragmented 50,99 fragments memory as the paper's tool does, so that what the program takes is free, and 1 GiB.
    Compaction can move what the tool holds, unless --pinned. DIR gets elastic-systems.json and .md: what was found, and
    beside it what the paper's authors published.

    Example: mmulab reproduce elastic-systems --quick
    """

    machine: str = declare.machine("neoverse-n1", "The machine; its page table needs pages of 64K and 32M.")
    programs: tuple[Program, ...] = declare.option((), Among({p.name: p for p in PROGRAMS}), "Only these programs.")
    systems: tuple[System, ...] = declare.option((), Among(NAMES), "Only these systems; 4K is always run.")
    fragmented: tuple[int, ...] = declare.option(
        (FRESH,), Wholes(99), "Shares of free memory, in percent, that pages of 2M cannot use.", shown=True
    )
    pinned: bool = declare.option(False, Flag(), "What fragments memory stays where it is, as if it were locked.")
    virtualised: bool = declare.option(False, Flag(), "In a virtual machine, without mTHP.")
    fragmented_in: tuple[str, ...] = declare.option(
        (fragmentation.BOTH,),
        Among({name: name for name in (fragmentation.HOST, fragmentation.GUEST, fragmentation.BOTH)}),
        "Whose memory is fragmented in a virtual machine. Default: both.",
    )
    scaled: bool = declare.option(False, Flag(), "TLBs and programs a 32nd of the paper's.")
    full: bool = declare.option(False, Flag(), "Programs in the paper's sizes.")
    profile: int | None = declare.option(
        None,
        Instructions(1),
        "Instructions of the run that offline hints are selected from. Default: as many as are timed.",
    )
    quick: bool = declare.quick()
    sets: tuple[str, ...] = declare.sets()
    options: engine.Options = declare.engine_options()


@dataclass(frozen=True)
class Row(Compared):
    """A program under a system, at a level of fragmentation: a run for each bound."""

    program: str
    fragmented: int
    system: str
    # In a virtual machine, whose memory is fragmented.
    where: str = ""

    @property
    def place(self) -> str:
        """The level of fragmentation, in words."""
        return f"{self.fragmented} %" + (f", {self.where}" if self.where else "")

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes at the end, by translation size."""
        return {size: int(mapped["now"]) for size, mapped in self.of[0].mapped.items() if mapped["now"]}

    @property
    def whole(self) -> int:
        """Bytes that the program has at the end under 4K pages."""
        return max(1, sum(int(mapped["now"]) for mapped in self.base[0].mapped.values()))

    @property
    def shares(self) -> dict[str, float]:
        """Translation sizes in percent of what the program has under 4K pages: more than 100 % is bloat."""
        return {size: 100 * mapped / self.whole for size, mapped in self.sizes.items()}

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "program": self.program,
            "fragmented_percent": self.fragmented,
            "fragmented_in": self.where or None,
            "system": self.system,
            "speedup": dict(zip(BOUNDS, self.speedups, strict=True)),
            "l2_data_misses_of_4k": self.misses,
            "bytes_by_size": self.sizes,
            "resident_bytes_peak": self.of[0].resident,
        }


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    rows: list[Row]
    complete: bool = True
    # What the tables' names begin with on a page.
    prefix: str = ""

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "experiment": f"elastic-{self.prefix}systems",
            "complete": self.complete,
            "rows": [row.data() for row in self.rows],
        }

    def tables(self) -> dict[str, str]:
        """As Markdown, by their names on a page."""
        found = {
            "time": self._grid(lambda row: between(row.speedups)),
            "misses": self._grid(lambda row: f"{row.misses:.1%}"),
            "sizes": self._grid(_shares),
        }
        here = {
            (row.program, row.fragmented, row.system): measured.Here(row.speedups, row.misses, row.shares)
            for row in self.rows
            if not row.where
        }
        found |= measured.tables(here, virtual="virtual" in self.prefix)
        return {f"{self.prefix}{name}": table for name, table in found.items()}

    def _grid(self, value: Callable[[Row], str]) -> str:
        names = [name for name in NAMES if any(row.system == name for row in self.rows)]
        lines = []
        for place in dict.fromkeys((row.program, row.place) for row in self.rows):
            rows = {row.system: row for row in self.rows if (row.program, row.place) == place}
            cells = [value(rows[name]) if name in rows else "–" for name in names]
            lines.append([*place, *cells])
        return grid(("program", "fragmented", *names), lines, text=1)


def _shares(row: Row) -> str:
    return measured.show_shares(row.shares) or show_bytes(row.whole)


@dataclass(frozen=True)
class Case:
    """A program at a level of fragmentation, and how it is run there."""

    plan: Plan
    program: Program
    fragmented: int
    options: engine.Options
    sets: tuple[str, ...] = ()
    where: str = ""

    def name(self, system: System, how: str) -> str:
        where = f", {self.where}" if self.where else ""
        return f"{self.program.name}, {self.fragmented} %{where}, {system.name}, {how}"

    def job(self, system: System, how: str) -> engine.Job:
        virtual = self.plan.virtualised
        below = (*GUEST, *system.host_sets) if virtual else ()
        scale = scaled.sets(system.policy) if self.plan.scaled else ()
        sets = (BLOCKS_OF_32M, *below, *scale, *self.sets, *system.sets, *self.plan.sets)
        return bound(engine.Job(self.plan.machine, system.policy, sets, system.host if virtual else None), how)

    def cells(self, system: System, hints: dict[str, Any] | None) -> list[Cell]:
        options = self.program.counted(self.options)
        if system.hinted and hints is not None:
            options = replace(options, reshape={**(options.reshape or {}), "hints": hints})
        return [Cell(self.name(system, how), self.program.trace, self.job(system, how), options) for how in BOUNDS]


def hints_of(case: Case) -> dict[str, Any]:
    """The page sizes that Leshy selects of the program's misses under 4K."""
    counted = case.program.counted(case.options)
    most = case.plan.profile or counted.max_instructions
    options = replace(counted, max_instructions=most, timing=False, sampling=sampling(PERIOD))
    with profiled(case.program.trace, case.job(SYSTEMS[0], BOUNDS[0]), options) as profile:
        # To scale, hash join's misses need more entries than there are, as the paper's do: the artifact's 1290 of 1280.
        method = "artifact" if case.plan.scaled else "paper"
        selection = select(profile.misses, ask(target=TARGET, slack=SLACK, method=method))
    found: dict[str, Any] = selection.data["file"]
    return found


def run(plan: Plan, store: Store) -> Outcome:
    """Every program under every system, at every level of fragmentation."""
    if plan.scaled and plan.full:
        raise UserError("--scaled and --full: programs have one size\nhint: leave out one of them")
    prefix = ("virtual-" if plan.virtualised else "") + ("scaled-" if plan.scaled else "full-" if plan.full else "")
    programs = _programs(plan)
    systems = tuple(system for system in plan.systems or SYSTEMS if system.name != BASE)
    if plan.virtualised:
        systems = tuple(system for system in systems if system.host is not None)
    most = plan.options.max_instructions or (QUICK_INSTRUCTIONS if plan.quick else INSTRUCTIONS)
    options = replace(plan.options, max_instructions=most, timing=True, reshape=engine.POPULATED)
    rows: list[Row] = []
    try:
        for program in programs:
            footprint = 0
            for level, where in _places(plan):
                held = fragmented(level, footprint, plan.pinned, where or fragmentation.HOST)
                case = Case(plan, program, level, options, held, where)
                kept: dict[str, Figures] = {}
                store.run(case.cells(SYSTEMS[0], None), kept)
                base = tuple(kept[case.name(SYSTEMS[0], how)] for how in BOUNDS)
                footprint = footprint or base[0].resident + base[0].table_bytes
                if level not in plan.fragmented:
                    continue
                hints = hints_of(case) if any(system.hinted for system in systems) else None
                for system in systems:
                    store.run(case.cells(system, hints), kept)
                    of = tuple(kept[case.name(system, how)] for how in BOUNDS)
                    rows.append(Row(of, base, program.name, level, system.name, where))
    except Stopped:
        return Outcome(rows, complete=False, prefix=prefix)
    return Outcome(rows, prefix=prefix)


def _programs(plan: Plan) -> tuple[Program, ...]:
    """The programs asked for, in their sizes."""
    sized = scaled.PROGRAMS if plan.scaled else FULL if plan.full else ()
    if not plan.programs:
        return QUICK if plan.quick else sized or PROGRAMS
    known = {program.name: program for program in sized}
    return tuple(known.get(program.name, program) for program in plan.programs)


def _places(plan: Plan) -> Iterator[tuple[int, str]]:
    """The levels of fragmentation, fresh memory first, and in a virtual machine whose memory it is."""
    for level in sorted({FRESH, *plan.fragmented}):
        for where in plan.fragmented_in if plan.virtualised and level != FRESH else ("",):
            yield level, where
