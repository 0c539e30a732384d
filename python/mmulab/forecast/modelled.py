"""The model's side of a case: the program is recorded and run on the machine under the policies of its settings.

What is told is kept beside the recording, with a hash of all that it depends on: a run that was stopped goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import engine, sampling
from mmulab.forecast.case import Case
from mmulab.forecast.recorded import counted, record
from mmulab.result import Result, json_text, read_kept, write_text
from mmulab.sweep import identity

Json = dict[str, Any]
# Largest error that sampling may add to a modelled time: small beside the model's own.
ERROR = 0.04


@dataclass(frozen=True)
class Modelled:
    """The policy, keys and recording with which the model stands for a setting of the stopwatch."""

    policy: str
    sets: tuple[str, ...] = ()
    # The recording in which the program's code was moved into advised anonymous memory.
    code: bool = False


# By the setting's name.
MODELLED = {
    "4k": Modelled("linux-4k"),
    "thp": Modelled("linux-thp"),
    "64k": Modelled("linux-mthp", ("policy.thp.sizes.2M=never",)),
    "code": Modelled("linux-thp-madvise", code=True),
}


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


def run(case: Case, directory: Path, model: Model, settings: tuple[str, ...]) -> Json:
    """Seconds by setting, and what they are made of (`stack`: cycles by cause)."""
    out: Json = {}
    for code in (False, True):
        named = {name: MODELLED[name] for name in settings if MODELLED[name].code == code}
        if named:
            trace = record(case, directory, code)
            options = counted(case, trace, engine.Options(timing=True, max_instructions=model.instructions))
            jobs = [engine.Job(model.machine, each.policy, (*model.sets, *each.sets)) for each in named.values()]
            told = _kept(trace, jobs, options, model.megahertz())
            out.update(dict(zip(named, told, strict=True)))
    return out


def _kept(trace: Path, jobs: Sequence[engine.Job], options: engine.Options, mhz: float) -> list[Json]:
    """The figures of each job: those that an earlier run kept, where nothing has changed that they depend on."""
    key = identity.digest(
        {
            "release": identity.release(),
            "trace": identity.trace_identity(str(trace)),
            "descriptions": [engine.resolve(job) for job in jobs],
            "options": [options.spec(), options.reshape],
            "error": ERROR,
        }
    )
    file = trace.with_suffix(".told.json")
    kept: Json = read_kept(file) or {}
    if kept.get("key") != key:
        results = sampling.run_to_end(str(trace), jobs, options, ERROR).results
        # What was not modelled is taken to run as what was.
        whole = engine.trace_length(str(trace)) - (options.skip or 0)
        kept = {"key": key, "told": [_figures(result, mhz, whole) for result in results]}
        write_text(file, json_text(kept))
    return list(kept["told"])


def _figures(result: Result, mhz: float, whole: int) -> Json:
    timing = result.data["timing"]
    share = whole / timing["instructions"]
    return {
        "error": (timing.get("sampled") or {}).get("error"),
        "seconds": timing["cycles"] * share / mhz / 1e6,
        "instructions": timing["instructions"],
        "unknown_instructions": timing["unknown_instructions"],
        "software_prefetches": timing.get("software_prefetches", 0),
        "stack": timing["stack"],
    }
