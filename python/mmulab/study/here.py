"""This computer in a study: the program timed as it is and forecast on the computer's own description.

    probe-this-machine/this-machine.toml --.
    program --timed a few times ------------+--> Here --> sentence
    recording --core in time, by samples ---'

`mmulab probe` writes the description. The quick model of the other machines takes no part.
"""

import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from mmulab import UserError, engine, sampling, stopwatch
from mmulab.probe.fragment import fragment_sets
from mmulab.probe.frames import Frames, Seen
from mmulab.result import Result
from mmulab.stopwatch.process import Program, watched
from mmulab.stopwatch.settings import SETTINGS, general
from mmulab.units import show_bytes, show_percent

Json = dict[str, Any]
# Where `mmulab probe` puts the description.
DEFAULT = Path("probe-this-machine/this-machine.toml")
POLICIES = ("linux-4k", "linux-thp")
# Error that samples may add, as a share of the time.
SAMPLING = 0.02
# Runs of the unchanged program.
RUNS = 5
# Most pairs of a trial, and the width of the interval at which it ends.
PAIRS = 30
NARROW = 0.03
# A program that takes less than this is mostly the system's work of starting it.
SHORTEST_S = 0.02
# Where modelled and timed seconds of the unchanged program differ by more than this factor, the model does not fit.
AGREES = 1.25
# Fewer software prefetches than one in 10,000 instructions can hide few misses.
PREFETCHES = 1e-4
# Smaller shares are not worth a change.
WORTH = 0.01


def machine_of(given: str | None) -> str:
    """The machine whose TLBs are simulated. Raises UserError where none was probed or given."""
    if given is not None:
        return given
    if DEFAULT.exists():
        return str(DEFAULT)
    raise UserError(
        f"the mosaics are simulated on this computer's description, and there is no {DEFAULT}\n"
        "hint: `mmulab probe` writes it; or give one with --machine"
    )


@dataclass(frozen=True)
class Native:
    """Seconds in user mode of the unchanged program: the median, and from the fastest to the slowest run."""

    seconds: float
    low: float
    high: float
    # The policy that stands for the system's setting.
    policy: str
    # The frames of its base pages in the run before those; None where they were not seen (without root).
    frames: Frames | None = None


@dataclass(frozen=True)
class Here:
    """What is known of the program on this computer."""

    machine: str
    # By policy: seconds, as the core in time models them, and bytes resident at the peak.
    seconds: dict[str, float]
    resident: dict[str, int]
    # Half of the interval that samples leave of the saving, as a share.
    sampled: float
    native: Native | None
    # Why there is no native time, or why it cannot be compared.
    apart: str | None
    # A stopwatch's saving, if the study tried it: `saving`, `low`, `high`; or `saving` null and `why`.
    tried: Json | None = None
    # Prefetch instructions of the program, as a share of its instructions: no recording has their addresses.
    prefetches: float = 0.0

    @property
    def saving(self) -> float:
        """The share of time that 2 MB pages save, as forecast."""
        small, large = (self.seconds[policy] for policy in POLICIES)
        return 1 - large / small if small else 0.0

    @property
    def error(self) -> float:
        """Half of its interval, as a share: of what it was wrong by elsewhere, and of samples."""
        return float((model_error()["points"] ** 2 + self.sampled**2) ** 0.5)

    @property
    def ratio(self) -> float | None:
        """Modelled over timed seconds of the unchanged program; None without a time to compare with."""
        if self.native is None or self.apart is not None:
            return None
        return self.seconds[self.native.policy] / self.native.seconds

    @property
    def tried_bounds(self) -> tuple[float, float] | None:
        """The interval of what a stopwatch showed; None without one that came to a result."""
        if self.tried is None or self.tried["saving"] is None:
            return None
        return float(self.tried["low"]), float(self.tried["high"])

    @property
    def bounds(self) -> tuple[float, float]:
        """The interval that decides: the stopwatch's, else the forecast's."""
        return self.tried_bounds or (self.saving - self.error, self.saving + self.error)

    @property
    def saves(self) -> bool | None:
        """Whether 2 MB pages save time: also at the lower end of the interval. None: it may be so or not."""
        low, high = self.bounds
        return False if high <= WORTH else True if low > 0 else None

    def said(self) -> str:
        """The forecast with its interval."""
        return _with_interval("forecast", self.saving, (self.saving - self.error, self.saving + self.error))

    def tried_said(self) -> str:
        """What a stopwatch showed with its interval; empty without it."""
        bounds = self.tried_bounds
        return _with_interval("tried", float((self.tried or {})["saving"]), bounds) if bounds else ""

    def lines(self) -> list[str]:
        """What to do, and how far it can be relied on."""
        more = self.resident[POLICIES[1]] - self.resident[POLICIES[0]]
        amount = f"for {show_bytes(abs(more))} {'more' if more > 0 else 'less'}" if more else "with as much"
        memory = f"{amount} memory resident at the peak"
        tried = self.tried_said()
        found = tried or self.said()
        if self.saves is False:
            first = f"On this computer, 2 MB pages gain this program nothing: {found}."
        elif self.saves:
            first = f"On this computer, 2 MB pages for this program's memory save time: {found}, {memory}."
        else:
            first = f"On this computer, 2 MB pages may save this program time, or not: {found}, {memory}."
            first += "" if tried else " Try it."
        return [first, *([f"Without the trial: {self.said()}."] if tried else []), *self.notes()]

    def notes(self) -> list[str]:
        """How far the forecast can be relied on."""
        lines = []
        ratio = self.ratio
        if self.native is not None and ratio is not None:
            beside = f"{self.native.seconds:.3g} s timed, {self.seconds[self.native.policy]:.3g} s modelled"
            if not 1 / AGREES <= ratio <= AGREES:
                lines.append(
                    f"Do not trust this forecast: the unchanged program takes {beside}. Probe again now (neighbours on "
                    "the host change the computer), or the model lacks something that this program does."
                )
            else:
                lines.append(f"The unchanged program: {beside}.")
        elif self.apart is not None:
            lines.append(f"Not held against a stopwatch: {self.apart}.")
        if self.prefetches >= PREFETCHES:
            lines.append(
                f"In 1000 instructions the program has {1000 * self.prefetches:.2g} software prefetches. A recording "
                "does not have their addresses, so the program waits less for memory than the model says."
            )
        if self.tried is not None and self.tried["saving"] is None:
            lines.append(f"Tried without result: {self.tried['why']}.")
        published = model_error()
        lines.append(
            f"The forecast's interval is how far forecasts were off for four of five of {published['programs']} "
            "programs (docs/results/forecast.md)."
        )
        return lines

    def data(self) -> Json:
        """For here.json."""
        return {
            **asdict(self),
            "saving": self.saving,
            "error": self.error,
            "ratio": self.ratio,
            "sentences": self.lines(),
        }


def _with_interval(source: str, saving: float, bounds: tuple[float, float]) -> str:
    low, high = map(show_percent, bounds)
    return f"{source} {show_percent(saving)} ({low} to {high})"


@cache
def model_error() -> Json:
    """How far forecasts of savings were off: `points` (a share, of four in five programs) and `programs`."""
    text = files("mmulab.forecast").joinpath("errors.json").read_text(encoding="utf-8")
    found: Json = json.loads(text)
    return found


def time_natively(argv: Sequence[str]) -> tuple[Native | None, str | None]:
    """The unchanged program's time, or why there is none."""
    setting = next(s for s in SETTINGS if s.name == "asis")
    times = []
    seen = Seen()
    with tempfile.TemporaryDirectory(prefix="mmulab-here-") as directory:
        # The first run brings files into memory.
        for at in range(RUNS + 1):
            done = watched(Program(argv), setting, Path(directory), seen.look if at == 0 else None)
            if done.exit_code != 0:
                return None, f"the program ended with exit code {done.exit_code} when it was timed"
            if at > 0:
                times.append(done.user_s)
    policy = POLICIES[1] if general() == "always" else POLICIES[0]
    # Frames of large pages say nothing of those of base pages.
    frames = seen.most if policy == POLICIES[0] else None
    found = Native(statistics.median(times), min(times), max(times), policy, frames)
    if found.seconds < SHORTEST_S:
        return found, f"it takes {1000 * found.seconds:.0f} ms, which is too short to be compared"
    return found, None


def trial_settings() -> list[stopwatch.Setting]:
    """The settings of a trial. Raises UserError where one of them cannot be had."""
    return stopwatch.find(("4k", "thp"), system=False)


def tried(argv: Sequence[str], on_progress: Callable[[float], None]) -> Json:
    """What 2 MB pages save by the stopwatch: pairs of runs in alternation, until the interval is narrow."""
    limits = stopwatch.Limits(PAIRS, NARROW)
    settings = trial_settings()
    found = stopwatch.measure(Program(argv), settings, limits, False, lambda done, _: on_progress(done / PAIRS))
    comparisons = found["comparisons"]
    saved: Json | None = comparisons[0]["user_s"] if comparisons else None
    if found["ended"] != "complete":
        return {"saving": None, "why": found["ended"]}
    return saved or {"saving": None, "why": "the program takes too little time to compare"}


def forecast(
    recording: str,
    machine: Path,
    native: tuple[Native | None, str | None],
    options: engine.Options,
    on_progress: Callable[[Json], None] | None = None,
) -> Here:
    """The recording on the computer's description. `native`: what `time_natively` returned."""
    time, apart = native
    sets: tuple[str, ...] = ()
    if time is not None and time.frames is not None:
        sets = fragment_sets(time.frames, engine.resolve(engine.Job(str(machine), POLICIES[0]))["machine"])
    jobs = [engine.Job(str(machine), policy, sets) for policy in POLICIES]
    # What is about other models of time, or about reports, has no part in this.
    chosen = replace(options, profile=False, touched=False, base_cpi=None, savable=None)
    results = sampling.run_to_end(recording, jobs, chosen, SAMPLING, on_progress).results
    timing = [result.data["timing"] for result in results]
    if apart is None and not all(result.complete for result in results):
        apart = "the recording is of a part of the program"
    if apart is None and options.reshape:
        apart = "what ran was changed on its way here, and the program was not"
    return Here(
        machine=str(machine),
        seconds={policy: _seconds(result) for policy, result in zip(POLICIES, results, strict=True)},
        resident={policy: result.resident_peak for policy, result in zip(POLICIES, results, strict=True)},
        sampled=sampling.saving_error(*timing) or 0.0,
        native=time,
        apart=apart,
        prefetches=timing[0].get("software_prefetches", 0) / max(1, timing[0]["instructions"]),
    )


def _seconds(result: Result) -> float:
    """Seconds in user mode of all that was counted."""
    timing = result.data["timing"]
    mhz = float(result.data["machine"]["core"]["frequency_mhz"])
    return float(timing["cycles"] / max(1, timing["instructions"]) * result.instructions / mhz / 1e6)
