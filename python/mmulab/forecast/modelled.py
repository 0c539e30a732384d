"""The model's side of a case: the program is recorded once and run on the machine under each policy."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmulab import Failure, engine, paths, sampling
from mmulab.forecast.cases import SETTINGS, Case
from mmulab.result import Result

Json = dict[str, Any]
# Largest error that sampling may add to a modelled time: small beside the model's own.
ERROR = 0.04


@dataclass(frozen=True)
class Model:
    """The machine that programs are modelled on, and how many instructions of a program are."""

    machine: str
    sets: tuple[str, ...] = ()
    instructions: int | None = None

    def megahertz(self) -> float:
        """The machine's clock."""
        resolved = engine.resolve(engine.Job(self.machine, "linux-4k", self.sets))
        return float(resolved["machine"]["core"]["frequency_mhz"])


def record(case: Case, directory: Path) -> Path:
    """The case's recording, made if it is not there yet."""
    target = directory / f"{case.file_name}.mmt"
    if not target.exists():
        aside = target.with_suffix(".part.mmt")
        found = engine.record(
            {
                "output": str(aside),
                "command": case.argv(directory),
                "plugin": str(paths.plugin()),
                "fixed_layout": True,
                "env": [],
            }
        )
        if found.get("exit_status"):
            raise Failure(f"{case.name}: the recorded program ended with status {found['exit_status']}")
        aside.rename(target)
    return target


def run(case: Case, directory: Path, model: Model) -> Json:
    """Seconds by setting, and what they are made of (`stack`: cycles by cause).

    Kernels count from when their data are ready.
    """
    trace = record(case, directory)
    options = engine.Options(timing=True, max_instructions=model.instructions)
    if case.kernel:
        trace = from_gate(trace)
        # Its arrays were filled before the gate: they are there when the cut begins.
        options = replace(options, reshape=engine.POPULATED)
    jobs = [engine.Job(model.machine, policy, model.sets) for policy in SETTINGS.values()]
    mhz = model.megahertz()
    results = sampling.run_to_end(str(trace), jobs, options, ERROR).results
    # What was not modelled is taken to run as what was.
    whole = engine.trace_length(str(trace))
    return {name: _told(ran, mhz, whole) for name, ran in zip(SETTINGS, results, strict=True)}


def from_gate(recording: Path) -> Path:
    """The part of a kernel's recording that counts."""
    cut = recording.with_suffix(".cut.mmt")
    if not cut.exists():
        aside = cut.with_suffix(".part.mmt")
        engine.trace_copy(str(recording), str(aside), "native", engine.before_gate(str(recording)))
        aside.rename(cut)
    return cut


def _told(result: Result, mhz: float, whole: int) -> Json:
    timing = result.data["timing"]
    share = whole / timing["instructions"]
    return {
        "error": (timing.get("sampled") or {}).get("error"),
        "seconds": timing["cycles"] * share / mhz / 1e6,
        "instructions": timing["instructions"],
        "unknown_instructions": timing["unknown_instructions"],
        "stack": timing["stack"],
    }
