"""Recordings of paper 2's programs: those that are kept, and short ones made by their recipes."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from mmulab import Failure, UserError, engine
from mmulab.reproduce.instruction.programs import Program
from mmulab.reproduce.shared.experiment import Session
from mmulab.workloads.recipe import Recipe
from mmulab.workloads.record import Options, record


@dataclass(frozen=True)
class Wanted:
    """Which recordings: where they are kept, how long, how many of a program, and whether recipes may install."""

    work: Path
    instructions: int
    runs: int
    install: bool


@dataclass(frozen=True)
class Recorded:
    """Programs with their recordings, and why others have none."""

    traces: dict[Program, tuple[str, ...]]
    missing: dict[Program, str]


def recorded(programs: tuple[Program, ...], wanted: Wanted, session: Session) -> Recorded:
    """The recordings of each program: those in `work`, else new ones, if what its recipe needs is here."""
    found = Recorded({}, {})
    wanted.work.mkdir(parents=True, exist_ok=True)
    for program in programs:
        name = "-".join([program.recipe, *program.sets, str(wanted.instructions)])
        targets = [wanted.work / f"{name}{_nth(number)}.mmt" for number in range(1, wanted.runs + 1)]
        why = None
        for target in targets:
            if why is None and not target.exists():
                why = _record(program, target, wanted, session)
        if why is None:
            found.traces[program] = tuple(map(str, targets))
        else:
            found.missing[program] = why
            session.say(f"{program.label} is left out: {why}")
    return found


def _nth(number: int) -> str:
    """The end of the name of a program's further recordings."""
    return f"-run-{number}" if number > 1 else ""


def _record(program: Program, target: Path, wanted: Wanted, session: Session) -> str | None:
    """Records it. Why it could not be, if so."""
    session.say(f"recording {program.label} ({program.recipe}), {wanted.instructions:,} instructions")
    options = Options(instructions=wanted.instructions, may_install=wanted.install)
    progress: engine.ProgressCallback = session.on_progress or (lambda _now: None)
    try:
        recipe = Recipe.load(program.recipe, program.sets)
        record(recipe, target, options, session.say, lambda _total: nullcontext(progress))
    except (UserError, Failure) as error:
        return str(error).splitlines()[0]
    return None
