"""Experiments of a paper one after the other, as one command: each with those of the command's options that it has."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmulab.reproduce.shared.experiment import Experiment, Findings, Session


@dataclass(frozen=True)
class Step:
    """An experiment, and the options that it always has here."""

    experiment: Experiment[Any]
    given: Mapping[str, Any] = field(default_factory=dict)

    def plan(self, whole: Any) -> Any:
        """Its plan: the options of the whole command that it has, and its own."""
        kind = self.experiment.plan
        taken = {f.name: getattr(whole, f.name) for f in dataclasses.fields(kind) if hasattr(whole, f.name)}
        return kind(**{**taken, **self.given})


def run(whole: Any, session: Session, steps: Sequence[Step], file: str) -> Findings:
    """Runs the steps in their order; the ones behind one that was stopped are left out. `file`: the JSON of all."""
    done: list[Findings] = []
    for step in steps:
        options = "".join(f", {name} {value}" for name, value in step.given.items())
        session.say(f"{step.experiment.name}{options}: {step.experiment.title}")
        done.append(step.experiment.run(step.plan(whole), session))
        if done[-1].unfinished is not None:
            break
    return Findings(
        [found.data for found in done],
        file,
        {name: text for found in done for name, text in found.files.items()},
        {name: table for found in done for name, table in found.tables.items()},
        unfinished=done[-1].unfinished if done else None,
    )
