"""From timed mosaics to a model: their times, the counts of the same mosaics in a recording, and the fit of both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mmulab.engine import Job, Options, ProgressCallback
from mmulab.mosmodel.fit import Fitted, fit
from mmulab.mosmodel.partial import Counted, Recorded, counted
from mmulab.mosmodel.times import Times, times
from mmulab.stopwatch.process import Program

Json = dict[str, Any]
# Records the program: how it is run, and on which progress is reported.
Record = Callable[[], tuple[Recorded, Options]]


@dataclass(frozen=True)
class Model:
    """A program's model, and what it was fitted to."""

    times: Times
    recorded: Recorded
    options: Options
    counts: list[Counted]
    fitted: Fitted


def model(
    program: Program, settings: Sequence[Json], machine: Job, record: Record, progress: ProgressCallback | None = None
) -> Model:
    """Fits the model to a stopwatch's settings, the program's mosaics. Raises Failure if their runs are too short."""
    timed = times(settings, "user_s" if program.time is None else "wall_s")
    recorded, options = record()
    layouts = [setting["huge_parts"] for setting in settings]
    counts = counted(recorded, layouts, machine, options, progress)
    return Model(timed, recorded, options, counts, fit([one.features for one in counts], timed.seconds))
