"""Profiles of TLB misses: files, and the runs that make them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from mmulab import UserError, engine
from mmulab.engine import Job, Json, Options, ProgressCallback
from mmulab.result import Result

# How the first line of a profile begins. A trace never begins so.
_HEAD = b'{"format":"mmulab-misses"'
# The machine of the paper, and a policy under which no page is large: what a profile is taken on.
MACHINE = "neoverse-n1"
POLICY = "linux-4k"
# From this period on, jitter makes a difference to programs whose misses repeat, and little to the mean period.
JITTER_FROM = 256


@dataclass(frozen=True)
class Profile:
    """A profile file, and that of accessed bits beside it; the result of the run, if one was made for it."""

    misses: Path
    accessed: Path | None = None
    result: Result | None = None

    def head(self) -> Json:
        """What it is of."""
        return engine.leshy_head(str(self.misses))


def is_profile(name: str) -> bool:
    """Whether a file is a profile."""
    try:
        with Path(name).open("rb") as file:
            return file.read(len(_HEAD)) == _HEAD
    except OSError:
        return False


def sampling(period: int, cycles: float = 0.0, accessed_ms: float | None = None) -> Json:
    """What the engine samples: one of `period` misses, and accessed bits every `accessed_ms` simulated milliseconds."""
    found: Json = {"period": period, "jitter": period >= JITTER_FROM, "cycles": cycles}
    return found if accessed_ms is None else {**found, "accessed_ms": accessed_ms}


@contextmanager
def profiled(
    trace: str,
    job: Job,
    options: Options,
    save: Path | None = None,
    save_accessed: Path | None = None,
    progress: ProgressCallback | None = None,
) -> Iterator[Profile]:
    """Runs a job whose options have `sampling`. The files last as long as the context, unless they are to be saved."""
    if options.sampling is None:
        raise UserError("no samples are asked for: give a period")
    with TemporaryDirectory(prefix="mmulab-leshy-") as place:
        misses = save or Path(place) / "misses"
        accessed = save_accessed or Path(place) / "accessed"
        has_accessed = "accessed_ms" in options.sampling
        result = engine.leshy_profile(
            trace, job, options, str(misses), str(accessed) if has_accessed else None, progress
        )
        yield Profile(misses, accessed if has_accessed else None, result)


@dataclass(frozen=True)
class Selection:
    """Page sizes for a profile."""

    data: Json
    # A bound that no selection can be below, in bytes, where the optimum was looked for.
    bound: int | None = None

    @property
    def bytes(self) -> int:
        """Bytes of all entries: what Equation 1 minimises."""
        return int(self.data["bytes"])

    @property
    def by_size(self) -> dict[str, int]:
        """Entries by page size, smallest first."""
        return cast(dict[str, int], self.data["by_size"])

    @property
    def hints(self) -> list[Json]:
        """The hints, most important first."""
        return cast(list[Json], self.data["file"]["hints"])

    @property
    def covered(self) -> float:
        """The share of the misses that it covers."""
        return int(self.data["covered"]) / int(self.data["total"])

    @property
    def gap(self) -> float | None:
        """How far above the bound it is at most, as a share of itself."""
        return None if self.bound is None else max(0.0, 1 - self.bound / max(self.bytes, 1))

    def file(self) -> str:
        """The text of the hint file."""
        return json.dumps(self.data["file"], indent=1) + "\n"


def ask(**given: Any) -> Json:
    """A question as the engine takes it; what is None is left to its default."""
    return {key: value for key, value in given.items() if value is not None}


def select(profile: Path, asked: Json) -> Selection:
    """Page sizes by one of the heuristics."""
    return Selection(engine.leshy_select(str(profile), asked))
