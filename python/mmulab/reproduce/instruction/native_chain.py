"""The chain of functions on this computer (S1-M025), beside the core in time on this computer's description.

The same machine code runs in real memory, timed on base pages and on pages of 2 MB in alternation.
"""

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import Failure, UserError, engine, paths, probe, stopwatch
from mmulab.forecast.case import KERNEL_TIME
from mmulab.reproduce.shared.cells import Cell, Figures, Store, user
from mmulab.result import write_text
from mmulab.stopwatch import process

# The stopwatch's settings, and the policies that are the same to a simulated kernel.
SETTINGS = {"4k": "linux-4k", "thp": "linux-thp"}
# Runs under each setting; the middle one counts.
RUNS = 7
# Calls of a timed run: some tens of milliseconds.
CALLS = 20_000_000


@dataclass(frozen=True)
class Here:
    """A number of functions on this computer's pages of one size: cycles of a call, timed and modelled."""

    superpages: int
    setting: str
    # Of the runs, the one in the middle, the fastest and the slowest.
    timed: float
    fastest: float
    slowest: float
    modelled: float
    # Of the modelled calls, those that missed the first level.
    misses: float


def run(figures: dict[str, Any], counts: Sequence[int], rounds: int, store: Store) -> list[Here]:
    """Times and models every number of functions, and numbers about as large as this computer's ITLB. `figures`: the
    contents of a probe.json of this computer."""
    known = {setting.name: setting for setting in stopwatch.SETTINGS}
    for name in SETTINGS:
        why = known[name].missing()
        if why is not None:
            raise UserError(f"--here: {why}\nhint: leave --here out, or have the setting changed")
    with tempfile.TemporaryDirectory(prefix="mmulab-chain-") as directory:
        machine = Path(directory) / "this-computer.toml"
        write_text(machine, probe.described({**figures, **probe.figures(figures["curves"])}).toml)
        described = engine.resolve(engine.Job(str(machine), "linux-4k"))["machine"]
        megahertz = float(described["core"]["frequency_mhz"])
        found = []
        for count in sorted({*counts, *about(described["tlb"])}):
            timed = _timed(count, [known[name] for name in SETTINGS], Path(directory))
            for (name, policy), runs in zip(SETTINGS.items(), timed, strict=True):
                modelled = _modelled(f"{name}, {count} superpages, here", str(machine), policy, count, rounds, store)
                calls = int(modelled.tlb["l1i"]["accesses"])
                misses = int(modelled.tlb["l1i"]["misses"]) / calls
                cycles = [seconds * megahertz * 1e6 for seconds in runs]
                spread = (statistics.median(cycles), min(cycles), max(cycles))
                found.append(Here(count, name, *spread, user(modelled) / calls, misses))
        return found


def about(arrays: Sequence[engine.Json]) -> set[int]:
    """Numbers of functions about as large as the first level for instructions, where more of them begin to miss."""
    first = [int(a["entries"]) for a in arrays if a["level"] == 1 and a["side"] != "data"]
    return {count for entries in first for count in (entries * 3 // 4, entries, entries + 1, entries * 5 // 4)}


def _timed(count: int, settings: Sequence[stopwatch.Setting], directory: Path) -> list[list[float]]:
    """Seconds of a call in each run, by setting. Settings take turns: a load that comes and goes meets all."""
    rounds = max(1, CALLS // count)
    program = process.Program(
        [str(paths.kernel()), "code-chain", f"functions={count}", f"rounds={rounds}"], time=KERNEL_TIME
    )
    times: list[list[float]] = [[] for _ in settings]
    for _ in range(RUNS):
        for setting, kept in zip(settings, times, strict=True):
            done = process.run(program, setting, directory)
            if done.exit_code != 0:
                raise Failure(f"the chain of {count} functions ended with exit code {done.exit_code}: {done.stderr}")
            kept.append(done.wall_s / (rounds * count))
    return times


def _modelled(name: str, machine: str, policy: str, count: int, rounds: int, store: Store) -> Figures:
    cell = Cell(
        name,
        f"gen:code-chain?functions={count}&rounds={rounds}",
        engine.Job(machine, policy),
        engine.Options(timing=True),
    )
    kept: dict[str, Figures] = {}
    store.run([cell], kept)
    return kept[name]
