"""Forecasts of time held against a stopwatch, on this computer: `mmulab.forecast` does it, for the page of results."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import UserError, forecast, probe
from mmulab.forecast.case import Case
from mmulab.forecast.cases import BY_NAME, CASES
from mmulab.forecast.modelled import Model
from mmulab.reproduce.shared import declare
from mmulab.reproduce.shared.kinds import Among, Flag, Probe, Whole
from mmulab.result import write_text
from mmulab.stopwatch import Limits

# The width of a saving's interval at which timing ends.
NARROW = 0.03


@dataclass(frozen=True)
class Plan:
    """Time programs on this computer under 4K and 2 MB pages, model the same on its description, and say how far the
    model is off.

    Timing alternates until the 95 % interval of the saving is below 3 points, --pairs are done or --seconds are over.
    Recordings take some GB of disk. Programs that are not installed are left out, and named. Stop other programs
    meanwhile.

    Example: mmulab reproduce forecast --probe probe-this-machine/probe.json --out docs/results
    """

    probe: dict[str, Any] | None = declare.option(
        None,
        Probe(),
        "probe.json of `mmulab probe`, of the same hour. What neighbours on the host take (clock, share of the core, "
        "third-level cache) is measured anew around each program.",
    )
    machine: str | None = declare.this_machine(
        "A description of this computer, in place of --probe: the same for all programs."
    )
    sets: tuple[str, ...] = declare.sets()
    cases: tuple[Case, ...] = declare.option(CASES, Among(BY_NAME), "Only these programs. Default: all.")
    pairs: int = declare.option(60, Whole(6, 1000), "Most pairs of runs of a program.", shown=True)
    seconds: int = declare.option(
        90, Whole(1, 100_000), "Seconds that timing a program may take, once it has 6 pairs.", shown=True
    )
    system: bool = declare.option(
        False,
        Flag(),
        "Also time 64 KB pages where the system's settings do not allow them: change these, and put them back (root).",
    )
    instructions: int | None = declare.at_most(None, "Model this many instructions of a program at most.")
    work: Path = declare.work("build/forecast")

    def described(self) -> forecast.Plan:
        """What is run, on which machine file. Raises UserError unless either a probe or a machine is given."""
        if self.probe is not None and self.machine is None:
            machine = self.work / "this-machine.toml"
            write_text(machine, probe.described({**self.probe, **probe.figures(self.probe["curves"])}).toml)
            described = str(machine)
        elif self.machine is not None and self.probe is None:
            described = self.machine
        else:
            raise UserError(
                "give --probe FILE, or --machine in its place\n"
                "hint: `mmulab probe` writes probe-this-machine/probe.json"
            )
        model = Model(described, self.sets, self.instructions)
        limits = Limits(self.pairs, NARROW, self.seconds)
        return forecast.Plan(self.cases, model, limits, self.probe, self.work, self.system)
