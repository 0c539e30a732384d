"""Parts that paper 3 leaves open (sections V-A and V-B) and the engine has.

They are 1G, demotion, a guest's hints for its host, CoalaPaging below x86's coalescing, Svnapot, and kernels of larger
base pages. Each question has a few runs that differ in one thing.
"""

from dataclasses import dataclass, replace
from typing import Any

from mmulab import engine
from mmulab.markdown import grid
from mmulab.reproduce.elastic import measured, scaled
from mmulab.reproduce.elastic.compared import Compared
from mmulab.reproduce.elastic.fault_latency import BLOCKS_OF_32M
from mmulab.reproduce.elastic.fragmentation import FRESH, fragmented
from mmulab.reproduce.elastic.open_hints import Hints, hints_of
from mmulab.reproduce.elastic.programs import Program
from mmulab.reproduce.elastic.systems import GUEST, HOST_SCANS, PROMOTION, faster
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.bounds import BOUNDS, between, bound
from mmulab.reproduce.shared.cells import Cell, Figures, Stopped, Store
from mmulab.reproduce.shared.kinds import Among

INSTRUCTIONS, QUICK_INSTRUCTIONS = 1_000_000, 200_000
_KNOWN = {program.name: program for program in scaled.PROGRAMS}
# Its pages fault in random order: nothing puts them together but the kernel. Loads come first, so without zero pages.
SPARSE = Program("gups, 32 MB", "gen:gups?footprint=32M&updates=8M", "", "")
_SPARSE_SETS = ("policy.linux.zero_page=false",)
_BASE_PAGES = ("policy.fault.sizes=[]",)
_RISCV = ("table.kind=riscv-sv",)
_HOST_PACE = faster("promotion.daemon", "host_policy")


@dataclass(frozen=True)
class Way:
    """One run of a question."""

    name: str
    policy: str
    sets: tuple[str, ...] = ()
    # Which hints of `Hints` it is given; none if empty.
    hints: str = ""
    host: str | None = None
    # Another machine than the question's.
    machine: str | None = None


@dataclass(frozen=True)
class Question:
    """Runs that differ in one thing, against the first of them."""

    name: str
    programs: tuple[Program, ...]
    ways: tuple[Way, ...]
    machine: str = "neoverse-n1"
    sets: tuple[str, ...] = (BLOCKS_OF_32M,)
    # TLBs a 32nd, as the programs are.
    scaled: bool = True
    # Of the machine's free memory, what pages of 2M cannot use, in percent.
    fragmented: int = FRESH
    populated: bool = True


# A page of 2M that the contiguous bit makes of 32 entries, at faults.
_BLOCKS_OF_2M = ("policy.fault.sizes=['2M']",)


def _granules(fragmented_percent: int) -> Question:
    """Kernels of larger base pages beside 4K's policies, in memory of which huge pages cannot use so much."""
    return Question(
        f"granules-{fragmented_percent}",
        (_KNOWN["hashjoin"], _KNOWN["xsbench"], _KNOWN["svm"]),
        (
            Way("4K", "linux-4k"),
            Way("4K and THP of 2M", "linux-thp"),
            Way("16K", "linux-4k", machine="neoverse-n1-16k"),
            Way("16K and THP of 32M", "linux-thp", machine="neoverse-n1-16k"),
            Way("64K", "linux-4k", machine="neoverse-n1-64k"),
            Way("64K and blocks of 2M", "eager-64k", _BLOCKS_OF_2M, machine="neoverse-n1-64k"),
            Way("CoalaPaging, 64K and 32M", "coalapaging-bit"),
        ),
        fragmented=fragmented_percent,
    )


_VIRTUAL = Way("4K", "linux-4k", host="linux-4k")
_SCANNING = Way("host scans", "elastic-offline", (*PROMOTION, *HOST_SCANS), "plain", "elastic")
_DEAF = Way("host without hints", "elastic-offline", (*PROMOTION, *_HOST_PACE), "plain", "elastic")
QUESTIONS = (
    Question(
        "giant",
        (_KNOWN["hashjoin"], _KNOWN["xsbench"]),
        (
            Way("4K", "linux-4k"),
            Way("CoalaPaging, 32M", "coalapaging-bit"),
            Way("Trident, 1G and 2M", "trident", PROMOTION),
            Way("hints up to 32M", "elastic", PROMOTION, "plain"),
            Way("hints up to 1G", "elastic", (*PROMOTION, "policy.hints.giant=true"), "giant"),
        ),
    ),
    Question(
        "demotion",
        (_KNOWN["xsbench"], _KNOWN["svm"]),
        (
            Way("4K", "linux-4k"),
            Way("hints", "elastic", PROMOTION, "plain"),
            Way("hints, and cold memory demoted", "elastic", (*PROMOTION, "policy.hints.demote=true"), "demoting"),
        ),
        fragmented=50,
    ),
    Question(
        "guest-hints",
        (_KNOWN["svm"], _KNOWN["gups"]),
        (
            _VIRTUAL,
            _SCANNING,
            _DEAF,
            replace(_DEAF, name="guest's hints", sets=(*_DEAF.sets, "virtual.hints=true")),
        ),
        sets=(BLOCKS_OF_32M, *GUEST),
        fragmented=99,
    ),
    *(
        Question(
            f"coalescing-{machine[:4]}",
            (SPARSE,),
            (
                Way("4K", "linux-4k"),
                Way("CoalaPaging, 64K", "coalapaging", _BASE_PAGES),
                Way("CoalaPaging, TLBs do not coalesce", "coalapaging", (*_BASE_PAGES, "tlb_rules.coalescing=none")),
            ),
            machine=machine,
            sets=_SPARSE_SETS,
            scaled=False,
            populated=False,
        )
        for machine in ("zen3-5900x", "zen5-epyc9005")
    ),
    Question(
        "svnapot-64k",
        (SPARSE,),
        (
            Way("4K", "linux-4k"),
            Way("CoalaPaging, Armv8", "coalapaging-bit", _BASE_PAGES),
            Way("CoalaPaging, Svnapot", "coalapaging-bit", (*_BASE_PAGES, *_RISCV)),
        ),
        sets=(BLOCKS_OF_32M, *_SPARSE_SETS),
        scaled=False,
        populated=False,
    ),
    Question(
        "svnapot-32m",
        (_KNOWN["gups"], _KNOWN["btree"]),
        (
            Way("4K", "linux-4k"),
            Way("CoalaPaging, Armv8", "coalapaging-bit"),
            Way("CoalaPaging, Svnapot", "coalapaging-bit", _RISCV),
        ),
    ),
    _granules(FRESH),
    _granules(50),
)


@dataclass(frozen=True)
class Plan:
    """What paper 3 leaves open, in a few runs each. Hints of 1G, demotion of cold memory, a guest's hints for its host,
    and RISC-V's Svnapot. CoalaPaging below TLBs that coalesce by themselves (Zen 3, Zen 5). Kernels of larger base
    pages. Time and TLB misses against 4K, translation sizes, kernel time. The N1's TLBs and its programs are to scale
    (elastic-systems --scaled).

    DIR gets elastic-beyond.json and .md.

    Example: mmulab reproduce elastic-beyond --quick
    """

    questions: tuple[Question, ...] = declare.option((), Among({q.name: q for q in QUESTIONS}), "Only these questions.")
    quick: bool = declare.quick()
    sets: tuple[str, ...] = declare.sets()
    options: engine.Options = declare.engine_options()


@dataclass(frozen=True)
class Row(Compared):
    """A program's run of a question, for each bound."""

    question: str
    program: str
    way: str

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes at the end, by translation size."""
        return {size: int(mapped["now"]) for size, mapped in self.of[0].mapped.items() if mapped["now"]}

    @property
    def kernel(self) -> float:
        """Cycles of the kernel, and of the host's."""
        return float(self.of[0].cycles["kernel"] + self.of[0].cycles.get("host", 0))

    def data(self) -> dict[str, Any]:
        """For a file."""
        return {
            "question": self.question,
            "program": self.program,
            "way": self.way,
            "speedup": dict(zip(BOUNDS, self.speedups, strict=True)),
            "l2_data_misses_of_4k": self.misses,
            "bytes_by_size": self.sizes,
            "kernel_cycles": self.kernel,
        }


@dataclass(frozen=True)
class Outcome:
    """All of it, or what there was when it was stopped."""

    rows: list[Row]
    complete: bool = True

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {"experiment": "elastic-beyond", "complete": self.complete, "rows": [row.data() for row in self.rows]}

    def tables(self) -> dict[str, str]:
        """As Markdown, by their names on a page: one for each question."""
        return {name: self._table(name) for name in dict.fromkeys(row.question for row in self.rows)}

    def _table(self, question: str) -> str:
        lines = []
        for row in self.rows:
            if row.question == question:
                whole = sum(row.sizes.values()) or 1
                shares = measured.show_shares({size: 100 * held / whole for size, held in row.sizes.items()})
                cells = [between(row.speedups), f"{row.misses:.1%}", f"{row.kernel / 1e6:,.0f}", shares]
                lines.append([row.program, row.way, *cells])
        return grid(("program", "runs", "time", "misses", "kernel, M cycles", "sizes, %"), lines, text=2)


@dataclass(frozen=True)
class Case:
    """A program of a question, on the memory that it is run on."""

    question: Question
    program: Program
    options: engine.Options
    sets: tuple[str, ...]

    def job(self, way: Way, how: str) -> engine.Job:
        """The run of a way."""
        scale = scaled.sets(way.policy) if self.question.scaled else ()
        sets = (*self.question.sets, *scale, *way.sets, *self.sets)
        return bound(engine.Job(way.machine or self.question.machine, way.policy, sets, way.host), how)

    def run(self, way: Way, hints: Hints | None, store: Store) -> tuple[Figures, ...]:
        """Its figures for each bound."""
        options = self.options
        if way.hints and hints is not None:
            options = replace(options, reshape={**(options.reshape or {}), "hints": getattr(hints, way.hints)})
        names = {how: f"{self.question.name}: {self.program.name}, {way.name}, {how}" for how in BOUNDS}
        kept: dict[str, Figures] = {}
        store.run([Cell(names[how], self.program.trace, self.job(way, how), options) for how in BOUNDS], kept)
        return tuple(kept[names[how]] for how in BOUNDS)


def run(plan: Plan, store: Store) -> Outcome:
    """Every question."""
    rows: list[Row] = []
    try:
        for question in plan.questions or QUESTIONS:
            for program in question.programs[:1] if plan.quick else question.programs:
                rows += answer(plan, question, program, store)
    except Stopped:
        return Outcome(rows, complete=False)
    return Outcome(rows)


def answer(plan: Plan, question: Question, program: Program, store: Store) -> list[Row]:
    """The runs of a question with one program."""
    most = plan.options.max_instructions or (QUICK_INSTRUCTIONS if plan.quick else INSTRUCTIONS)
    reshape = engine.POPULATED if question.populated else None
    options = replace(plan.options, max_instructions=most, timing=True, reshape=reshape)
    case = Case(question, program, options, plan.sets)
    first, *ways = question.ways
    if question.fragmented != FRESH:
        fresh = case.run(first, None, store)[0]
        footprint = fresh.resident + fresh.table_bytes
        case = replace(case, sets=(*fragmented(question.fragmented, footprint), *plan.sets))
    base = case.run(first, None, store)
    hinted = any(way.hints for way in ways)
    hints = hints_of(program.trace, case.job(first, BOUNDS[0]), options) if hinted else None
    return [Row(case.run(way, hints, store), base, question.name, program.name, way.name) for way in ways]
