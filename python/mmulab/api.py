"""mmulab from Python, in one place: a trace that is recorded or opened, and the questions that it answers.

::

    from mmulab import api

    trace = api.record(["./my-program"], "prog.mmt")        # or api.open("prog.mmt"), api.open("gen:gups?footprint=1G")
    small, large = trace.run("zen3-5900x", ["linux-4k", "linux-thp"])
    print(1 - large.user_cycles / small.user_cycles)

The parts have more: `mmulab.engine` (single runs), `mmulab.study` (what a study found), `mmulab.sweep` (many jobs).
"""

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import Failure, UserError, engine, paths
from mmulab.engine import Job, Options
from mmulab.result import Result
from mmulab.study import Outcome, Plan
from mmulab.study.here import Here
from mmulab.study.here import forecast as on_description

Json = dict[str, Any]
BASELINE = "linux-4k"
_PLAIN = Options()
# What a study keeps besides counts, for its tables of functions and memory.
_STUDIED = Options(touched=True, profile=True, code_windows=True)


@dataclass(frozen=True)
class Trace:
    """A recording, a generator (`gen:NAME?key=value`) or a mix (`mix:NAME`)."""

    name: str

    def info(self) -> Json:
        """Instructions, references, processes and mappings. Reads the whole trace."""
        return engine.trace_info(self.name)

    def head(self, events: int) -> str:
        """The first events in text form, a line each."""
        return str(engine.trace_head(self.name, events)["text"])

    def run(
        self,
        machine: str,
        policies: Sequence[str] = (BASELINE,),
        *,
        sets: Iterable[str] = (),
        options: Options = _PLAIN,
        adviser: object | None = None,
    ) -> list[Result]:
        """The result under each policy, over one decoding of the trace. `sets`: assignments, as `--set` takes them.

        `adviser`: an object whose method `fault` chooses page sizes, or whose method `tick` promotes memory, or both
        (`mmulab.advised`; two that are ready: `mmulab.advisers`). It is asked under one policy of Linux.

        Raises Failure if the sums of a result do not come out. Raises what the adviser raises, and UserError for an
        answer that cannot be obeyed; both have the results until then in the attribute `results`.
        """
        jobs = [Job(machine, policy, tuple(sets)) for policy in policies]
        results = engine.run(self.name, jobs, options, adviser=adviser).whole()
        for result in results:
            result.check()
        return results

    def study(
        self,
        machines: Sequence[str] | None = None,
        policies: Sequence[str] | None = None,
        *,
        sets: Iterable[str] = (),
        options: Options = _STUDIED,
    ) -> Outcome:
        """What `mmulab study` finds, without a report: regions, functions, and gains over pages of 4 KB."""
        named = None if machines is None else tuple(machines)
        under = None if policies is None else tuple(policies)
        plan = Plan.make(self.name, named, under, tuple(sets), options)
        ran = engine.run(self.name, plan.jobs, options)
        outcome = Outcome(ran.whole())
        outcome.recording, outcome.code_windows = self.name, ran.code_windows
        return outcome

    def forecast(self, machine: str, options: Options = _PLAIN) -> Here:
        """The time that pages of 2 MB save on a machine with a core in time (`core.timing`), with its interval.

        `machine`: a name, or the file that `mmulab probe` wrote of a computer.
        """
        if engine.resolve(Job(machine, BASELINE))["machine"]["core"].get("timing") is None:
            raise UserError(
                f"{machine}: it has no core.timing, so nothing is forecast for it\n"
                "hint: give the file that `mmulab probe` wrote, or add that table (docs/reference/machine.md)"
            )
        return on_description(self.name, Path(machine), (None, "the program was not timed"), options)

    def explain(
        self, machine: str, policy: str = BASELINE, *, sets: Iterable[str] = (), instructions: int = 1000
    ) -> list[Json]:
        """What happened at each reference of the first `instructions`, in the form of `mmulab explain`."""
        lines: list[Json] = []
        options = Options(max_instructions=instructions)
        engine.explain(
            self.name, Job(machine, policy, tuple(sets)), options, lambda text: lines.append(json.loads(text))
        )
        return lines


def open(name: str | Path) -> Trace:
    """The trace of this name. Raises UserError if it cannot be read."""
    try:
        engine.trace_head(str(name), 1)
    except UserError as error:
        raise UserError(engine.unreadable(error)) from None
    return Trace(str(name))


def record(
    command: Sequence[str],
    output: str | Path,
    *,
    fixed_layout: bool = False,
    max_instructions: int | None = None,
    intervals: tuple[int, int] | None = None,
    env: dict[str, str] | None = None,
) -> Trace:
    """Runs a program under QEMU and records it to `output`, as `mmulab record` does.

    `fixed_layout`: without address randomisation, so that recordings repeat. `intervals`: how many of how many
    instructions are recorded, if not all. Raises Failure if the program fails.
    """
    if not command or shutil.which(command[0]) is None:
        raise UserError(
            f"{command[0] if command else 'nothing'}: no such program\nhint: give a path, or a name in PATH"
        )
    found = engine.record(
        {
            "output": str(output),
            "command": list(command),
            "plugin": str(paths.plugin()),
            "fixed_layout": fixed_layout,
            "env": [list(pair) for pair in (env or {}).items()],
            **({} if max_instructions is None else {"max_instructions": max_instructions}),
            "intervals": intervals,
        }
    )
    status = int(found.get("exit_status") or 0)
    if found.get("ended") in ("exited", "signal") and status:
        raise Failure(f"{command[0]}: it ended with status {status}\nhint: {output} has the recording of this run")
    return Trace(str(output))
