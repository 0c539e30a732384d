"""The experiments of paper 4, as commands: over programs that stand for the paper's, or over one trace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmulab import engine
from mmulab.reproduce.mix import designs, gpu, gpu_tables, plots, sets, suite, tables
from mmulab.reproduce.mix.designs import BASELINE, VMS
from mmulab.reproduce.mix.programs import PROGRAMS, only_without_trace, recorded
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.cells import Figures
from mmulab.reproduce.shared.experiment import PLOTS, Experiment, Findings, Session, tabled
from mmulab.reproduce.shared.kinds import Names, Whole, Wholes, among

TRACE = "A trace of any format, or gen:NAME?key=value. Default: what stands for paper 4's programs."
QUICK = "Paper 4's programs small, in seconds: to see what it does."
_FRESH = "Run the paper's programs again. Default: take them from the cache."
_PAGE = "Of the paper's programs: also put the tables into this page, between its marks, and plots beside it."


def walks(figures: Figures) -> str:
    """What is said of a run that is done."""
    return f"{figures.walks:,} walks"


@dataclass(frozen=True)
class Designs:
    """Designs for all page sizes, in the area of a machine's split TLBs (paper 4, Figures 9 to 18). Pages have one size
    only, or those that Linux finds beside a program that holds 0 to 80 % of memory. Runs are native, and in virtual
    machines.

    Without --trace, programs stand for the paper's: 80 GB of memory, 1 M instructions of each (--max-instructions),
    some ten minutes. Each run is kept: one that was stopped goes on where it was. DIR gets mix-tlbs.md, .json and
    plots of Figures 12, 13 and 16.
    With it, memory is 8 GB unless --set memory.size=... says otherwise; DIR gets designs.json.

    Example: mmulab reproduce mix-tlbs --trace 'gen:gups?footprint=2G'
    """

    machine: str = declare.machine(BASELINE, "Whose TLBs, and whose area.")
    designs: tuple[str, ...] | None = declare.option(None, Names(), "Default: all.")
    groups: tuple[int, int] = declare.option(
        engine.MIX_GROUPS,
        Whole(1, 512, count=2),
        "With --trace, MIX: L1's and L2's bundles.",
        name="group",
        shown=True,
    )
    vms: tuple[int, ...] = declare.option(
        VMS,
        Wholes(64),
        "Also in this many virtual machines, each running the program, with memhog in each; 0 for none.",
        shown=True,
    )
    trace: str | None = declare.trace(TRACE)
    recorded: tuple[str, ...] = declare.recorded()
    quick: bool = declare.quick(QUICK)
    sets: tuple[str, ...] = declare.sets()
    options: engine.Options = declare.engine_options()


def _designs(plan: Designs, session: Session) -> Findings:
    vms = tuple(n for n in plan.vms if n)
    if plan.trace is not None:
        only_without_trace(recorded=plan.recorded, quick=plan.quick, fresh=session.fresh, page=session.page)
        names = designs.DESIGNS if plan.designs is None else plan.designs
        one = designs.Plan(
            plan.trace, plan.machine, names, groups=plan.groups, vms=vms, sets=plan.sets, options=plan.options
        )
        return _of_trace("designs.json", designs.run(one, session.on_progress))
    names = tuple(suite.DESIGNS) if plan.designs is None else plan.designs
    among("--designs", names, suite.DESIGNS)
    made = replace(_suite(plan), machine=plan.machine, designs=names, vms=vms)
    outcome = suite.run(made, session.store(walks))
    return _of_suite("mix-tlbs", outcome, tables.tables(outcome), plots.plots(outcome))


MIX_TLBS = Experiment(
    "mix-tlbs",
    "MIX, CoLT, skewed and hash-rehash TLBs in the area of a split machine's, by page size and beside memhog",
    "paper 4, Figures 1 and 14 to 18",
    Designs,
    _designs,
    "running designs",
    fresh=_FRESH,
    page=_PAGE,
)


@dataclass(frozen=True)
class Sets:
    """MIX with 16 to 512 sets in the second level, at one number of entries (paper 4, section 7.2): more sets need
    longer bundles.

    Without --trace, for programs that stand for the paper's, as in mix-tlbs; DIR gets mix-sets.md and .json. With
    it, DIR gets sets.json.

    Example: mmulab reproduce mix-sets --trace 'gen:gups?footprint=2G'
    """

    trace: str | None = declare.trace(TRACE)
    recorded: tuple[str, ...] = declare.recorded()
    quick: bool = declare.quick(QUICK)
    sets: tuple[str, ...] = declare.sets()
    options: engine.Options = declare.engine_options()


def _sets(plan: Sets, session: Session) -> Findings:
    if plan.trace is not None:
        only_without_trace(recorded=plan.recorded, quick=plan.quick, fresh=session.fresh, page=session.page)
        one = designs.Plan(plan.trace, sets=plan.sets, options=plan.options)
        return _of_trace("sets.json", designs.run_sets(one, session.on_progress))
    outcome = sets.run(_suite(plan), session.store(walks))
    return _of_suite("mix-sets", outcome, sets.tables(outcome), {})


MIX_SETS = Experiment(
    "mix-sets",
    "MIX TLBs of 16 to 512 sets, with a blind fill and with one that looks",
    "paper 4, section 7.2",
    Sets,
    _sets,
    "running sets",
    fresh=_FRESH,
    page=_PAGE,
)


def _suite(plan: Designs | Sets) -> suite.Plan:
    """The paper's programs, and recordings beside them."""
    programs = (*PROGRAMS, *(recorded(Path(file)) for file in plan.recorded))
    made = suite.Plan.quick(programs) if plan.quick else suite.Plan(programs)
    most = plan.options.max_instructions or made.instructions
    return replace(made, sets=plan.sets, options=plan.options, instructions=most)


def _of_suite(name: str, outcome: suite.Outcome, found: Mapping[str, str], drawn: Mapping[str, str]) -> Findings:
    return tabled(name, found, outcome.data(), outcome.complete, drawn)


def _of_trace(file: str, rows: Sequence[designs.Row]) -> Findings:
    results = [cell.result for row in rows for cell in row.cells]
    for result in results:
        result.check()
    return Findings([row.data() for row in rows], file, show=lambda out: designs.show(out, rows), results=results)


def _gpu(plan: gpu.Plan, session: Session) -> Findings:
    def announce(done: int, of: int, name: str) -> None:
        session.say(f"{done}/{of} {name}")

    outcome = gpu.run(plan, announce, session.on_progress, session.directory)
    drawn = gpu_tables.plots(outcome)
    again = "with --out, run it again"
    return tabled("gpu-tlbs", gpu_tables.tables(outcome), outcome.data(), outcome.complete, drawn, again)


GPU_TLBS = Experiment(
    "gpu-tlbs",
    "the same designs on shader cores: Rodinia's programs, by page size and beside memhog",
    "paper 4, Figures 9, 11 and 14 to 17",
    gpu.Plan,
    _gpu,
    "running programs",
    out="Also keep everything there; what was run before with the same settings is taken from it.",
    page=PLOTS,
)
