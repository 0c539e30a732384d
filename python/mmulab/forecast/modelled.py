"""The model's side of a case: the program is recorded and run on the machine under the policies of its settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import engine, sampling
from mmulab.forecast.case import Case
from mmulab.forecast.recorded import counted, record
from mmulab.result import Result

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
            results = sampling.run_to_end(str(trace), jobs, options, ERROR).results
            # What was not modelled is taken to run as what was.
            whole = engine.trace_length(str(trace)) - (options.skip or 0)
            mhz = model.megahertz()
            out.update({name: _figures(ran, mhz, whole) for name, ran in zip(named, results, strict=True)})
    return out


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
