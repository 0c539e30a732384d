"""Page sizes selected from sampled TLB misses or from accessed bits (paper 3, Figure 13).

The samples are of an earlier run (offline), or of the run itself (online). Memory is half fragmented.

Both profiles are of the same run under base pages. The selections obey the same heuristic with the same entries, and
drive faults and the daemon of `elastic-offline`.
"""

from dataclasses import dataclass, replace
from typing import Any

from mmulab import engine
from mmulab.leshy.profile import Selection, ask, profiled, sampling, select
from mmulab.markdown import grid
from mmulab.reproduce.elastic.compared import Compared
from mmulab.reproduce.elastic.fragmentation import fragmented
from mmulab.reproduce.elastic.programs import PROGRAMS, QUICK, Program
from mmulab.reproduce.elastic.systems import (
    EPOCH_US,
    FASTER,
    INSTRUCTIONS,
    NAMES,
    PERIOD,
    QUICK_INSTRUCTIONS,
    SLACK,
    SYSTEMS,
    TARGET,
    Case,
    System,
)
from mmulab.reproduce.elastic.systems import Plan as SystemsPlan
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.bounds import BOUNDS, between
from mmulab.reproduce.shared.cells import Figures, Stopped, Store
from mmulab.reproduce.shared.kinds import Among

# Of the free memory, what pages of 2M cannot use, in percent.
FRAGMENTED = 50
# Paper 3 reads and clears accessed bits every 5 s, as long as an epoch of its profiler; here as much faster as daemons.
ACCESSED_MS = EPOCH_US / 1000 / FASTER
MISSES, ACCESSED = "TLB misses, offline", "accessed bits, offline"
ONLINE = "TLB misses, online"


@dataclass(frozen=True)
class Plan:
    """Sampling of TLB misses against accessed bits (paper 3, Figure 13), with half of the free memory fragmented. Also
    sizes selected online against those of an earlier run. Time against 4K, TLB misses, hinted memory.

    DIR gets elastic-sampling.json and .md.

    Example: mmulab reproduce elastic-sampling --quick
    """

    machine: str = declare.machine("neoverse-n1", "The machine; its page table needs pages of 64K and 32M.")
    programs: tuple[Program, ...] = declare.option((), Among({p.name: p for p in PROGRAMS}), "Only these programs.")
    quick: bool = declare.quick()
    sets: tuple[str, ...] = declare.sets()
    options: engine.Options = declare.engine_options()


@dataclass(frozen=True)
class Row(Compared):
    """A program with hints of one origin: a run for each bound."""

    program: str
    way: str
    # Bytes that the hints name, by size; None where they are made during the run.
    hinted: dict[str, int] | None

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "program": self.program,
            "hints": self.way,
            "speedup": dict(zip(BOUNDS, self.speedups, strict=True)),
            "l2_data_misses_of_4k": self.misses,
            "hints_by_size": self.hinted,
            "bytes_by_size": {size: mapped["now"] for size, mapped in self.of[0].mapped.items() if mapped["now"]},
        }


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    rows: list[Row]
    complete: bool = True

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {"experiment": "elastic-sampling", "complete": self.complete, "rows": [row.data() for row in self.rows]}

    def tables(self) -> dict[str, str]:
        """As Markdown, by their names on a page."""
        lines = []
        for name in dict.fromkeys(row.program for row in self.rows):
            rows = {row.way: row for row in self.rows if row.program == name}
            ways = [way for way in (MISSES, ACCESSED, ONLINE) if way in rows]
            hints = [_hinted(rows[way].hinted) for way in (MISSES, ACCESSED) if way in rows]
            time, misses = [between(rows[w].speedups) for w in ways], [f"{rows[w].misses:.1%}" for w in ways]
            lines.append([name, *time, *misses, *hints])
        all_ways = (MISSES, ACCESSED, ONLINE)
        titles = (*(f"{way}: time" for way in all_ways), *(f"{way}: misses" for way in all_ways))
        return {"sampling": grid(("program", *titles, "hints of misses", "hints of accessed bits"), lines, text=1)}


def _hinted(hints: dict[str, int] | None) -> str:
    return ", ".join(f"{size} {count}" for size, count in (hints or {}).items()) or "none"


def _profiles(case: Case) -> dict[str, Selection]:
    """The sizes selected of the misses and of the accessed bits of one run under 4K."""
    options = replace(
        case.program.counted(case.options), timing=False, sampling=sampling(PERIOD, accessed_ms=ACCESSED_MS)
    )
    asked = ask(target=TARGET, slack=SLACK, method="artifact")
    with profiled(case.program.trace, case.job(SYSTEMS[0], BOUNDS[0]), options) as profile:
        assert profile.accessed is not None, "asked for"
        return {MISSES: select(profile.misses, asked), ACCESSED: select(profile.accessed, asked)}


def run(plan: Plan, store: Store) -> Outcome:
    """Every program with hints of each origin."""
    programs = plan.programs or (QUICK if plan.quick else PROGRAMS)
    most = plan.options.max_instructions or (QUICK_INSTRUCTIONS if plan.quick else INSTRUCTIONS)
    options = replace(plan.options, max_instructions=most, timing=True, reshape=engine.POPULATED)
    settings = SystemsPlan(machine=plan.machine, sets=plan.sets)
    rows: list[Row] = []
    try:
        for program in programs:
            kept: dict[str, Figures] = {}
            fresh = Case(settings, program, 0, options)
            store.run(fresh.cells(SYSTEMS[0], None), kept)
            first = kept[fresh.name(SYSTEMS[0], BOUNDS[0])]
            case = Case(
                settings, program, FRAGMENTED, options, fragmented(FRAGMENTED, first.resident + first.table_bytes)
            )
            base = _run(case, SYSTEMS[0], store, None)
            offline = NAMES["+offline hints, faults"]
            for way, selection in _profiles(case).items():
                hinted = {size: count for size, count in selection.by_size.items() if size != "4K"}
                of = _run(case, offline, store, selection.data["file"])
                rows.append(Row(of, base, program.name, way, hinted))
            rows.append(Row(_run(case, NAMES["+Leshy, online"], store, None), base, program.name, ONLINE, None))
    except Stopped:
        return Outcome(rows, complete=False)
    return Outcome(rows)


def _run(case: Case, system: System, store: Store, hints: dict[str, Any] | None) -> tuple[Figures, ...]:
    kept: dict[str, Figures] = {}
    cells = case.cells(system, hints)
    store.run(cells, kept)
    return tuple(kept[cell.name] for cell in cells)
