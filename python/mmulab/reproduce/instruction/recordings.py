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
class Recorded:
    """Programs with their recordings, and why others have none."""

    traces: dict[Program, str]
    missing: dict[Program, str]


def recorded(programs: tuple[Program, ...], work: Path, instructions: int, install: bool, session: Session) -> Recorded:
    """The recording of each program: the one in `work`, else a new one, if what its recipe needs is here."""
    found = Recorded({}, {})
    work.mkdir(parents=True, exist_ok=True)
    for program in programs:
        name = "-".join([program.recipe, *program.sets, str(instructions)])
        target = work / f"{name}.mmt"
        if not target.exists():
            why = _record(program, target, instructions, install, session)
            if why is not None:
                found.missing[program] = why
                session.say(f"{program.label} is left out: {why}")
                continue
        found.traces[program] = str(target)
    return found


def _record(program: Program, target: Path, instructions: int, install: bool, session: Session) -> str | None:
    """Records it. Why it could not be, if so."""
    session.say(f"recording {program.label} ({program.recipe}), {instructions:,} instructions")
    options = Options(instructions=instructions, may_install=install)
    progress: engine.ProgressCallback = session.on_progress or (lambda _now: None)
    try:
        recipe = Recipe.load(program.recipe, program.sets)
        record(recipe, target, options, session.say, lambda _total: nullcontext(progress))
    except (UserError, Failure) as error:
        return str(error).splitlines()[0]
    return None
