"""What experiments of this folder run: recordings of the paper's programs, or of the user's, and how they are run.

Options that these experiments have in common stand here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmulab import engine
from mmulab.reproduce.instruction.measured import Measured
from mmulab.reproduce.instruction.programs import BY_RECIPE, Program
from mmulab.reproduce.instruction.published import Stated
from mmulab.reproduce.instruction.recordings import Wanted, recorded
from mmulab.reproduce.instruction.setting import CODE_HEAP, IMAGE, JIT, Setting, Variant
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.cells import Cell, Figures, Store
from mmulab.reproduce.shared.experiment import Session
from mmulab.reproduce.shared.kinds import Among, Flag, Instructions, Trace, Whole

INSTRUCTIONS = 30_000_000
MOST_RUNS = 100


@dataclass(frozen=True)
class Subject:
    """A program: one recording of it, or several."""

    name: str
    traces: tuple[str, ...]
    # What the paper says of it.
    stated: Stated | None = None
    is_java: bool = False
    window: str | None = None
    # Of a server, where several numbers of them are compared.
    clients: int | None = None


@dataclass(frozen=True)
class Shared:
    """Options that the experiments with recorded programs have in common."""

    programs: tuple[Program, ...] = declare.option((), Among(BY_RECIPE), "Only these programs, by their recipes.")
    traces: tuple[str, ...] = declare.option(
        (), Trace(several=True), "Run this recording in place of the paper's programs. Repeatable.", name="trace"
    )
    runs: int = declare.option(
        1,
        Whole(1, MOST_RUNS),
        "Recordings of each program. Figures are medians over them; the paper's are of 3 runs.",
        shown=True,
    )
    instructions: int = declare.option(
        INSTRUCTIONS, Instructions(100_000), "Instructions recorded of each program.", shown=True
    )
    work: Path = declare.work("build/instruction")
    install: bool = declare.option(
        False, Flag(), "Install and fetch what recipes lack. Else programs that lack something are left out."
    )
    timing: bool = declare.option(
        True, Flag(gives=False), "Time by the base CPI, not by a core in time: some times as fast.", name="no-timing"
    )
    sets: tuple[str, ...] = declare.sets()

    def options(self, subject: "Subject", setting: Setting) -> engine.Options:
        """How a recording is run."""
        reshape: engine.Json = {"image": IMAGE if subject.window is None else {**IMAGE, "window": subject.window}}
        if subject.is_java and setting.with_grown_code:
            reshape["code_heap"] = CODE_HEAP
        return engine.Options(timing=self.timing or None, code_residency=True, reshape=reshape)


def subjects(plan: Shared, programs: tuple[Program, ...], session: Session) -> tuple[list[Subject], dict[str, str]]:
    """What is run, of these programs, and why some are not."""
    if plan.traces:
        return [Subject(Path(trace).stem, (trace,)) for trace in plan.traces], {}
    wanted = Wanted(plan.work, plan.instructions, plan.runs, plan.install)
    found = recorded(programs, wanted, session)
    here = [
        Subject(program.label, traces, program.stated, program.is_java, program.window, program.clients)
        for program, traces in found.traces.items()
    ]
    return here, {program.label: why for program, why in found.missing.items()}


def measure(
    plan: Shared, subject: Subject, settings: Iterable[tuple[Variant, Setting]], store: Store
) -> Mapping[tuple[Variant, Setting], Measured]:
    """The program on each machine under each kernel, over one decoding of each of its recordings."""
    pairs = list(settings)
    found: list[list[Figures]] = []
    for number, trace in enumerate(subject.traces, 1):
        run = f", run {number}" if len(subject.traces) > 1 else ""
        cells = [
            Cell(
                f"{subject.name}{run}, {variant.name}, {setting.name}",
                trace,
                variant.job(setting, (*(JIT if subject.is_java else ()), *plan.sets)),
                plan.options(subject, setting),
            )
            for variant, setting in pairs
        ]
        kept: dict[str, Figures] = {}
        store.run(cells, kept, together=True)
        found.append([kept[cell.name] for cell in cells])
    return {pair: Measured.over(runs) for pair, runs in zip(pairs, zip(*found, strict=True), strict=True)}


def cores(plan: Shared, count: int, threads: int = 1) -> Shared:
    """The same plan on a machine with this number of cores, and of hyperthreads on each."""
    hyperthreads = (f"core.threads={threads}",) if threads > 1 else ()
    return replace(plan, sets=(f"core.count={count}", *hyperthreads, *plan.sets))


def missing(left_out: Mapping[str, str]) -> dict[str, Any]:
    """For a file."""
    return {"left_out": dict(left_out)}
