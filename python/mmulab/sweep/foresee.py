"""The time and memory of a sweep before it is run: from batches that were run before, else from a short measurement."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmulab import Failure, engine
from mmulab.sweep import remote
from mmulab.sweep.batches import Batch
from mmulab.sweep.plan import SweepJob
from mmulab.sweep.pools import processors
from mmulab.sweep.store import Store

# Instructions that a measurement runs: a fraction of a second, and more than the engine needs to start.
MEASURED = 2_000_000
# Jobs that it runs at once, to separate what they share from what each adds.
TOGETHER = 4


@dataclass(frozen=True)
class Cost:
    """What batches over one trace cost."""

    # Seconds for an instruction of the trace: once for the batch, and for each of its jobs.
    shared: float
    each: float
    # Bytes, likewise.
    base_bytes: float
    each_bytes: float
    # Where the figures come from, as a sentence.
    source: str

    @classmethod
    def fitted(cls, points: Sequence[tuple[int, float, int]], source: str) -> "Cost":
        """From the jobs of batches, their seconds for an instruction, and their bytes."""
        shared, each = _line([(jobs, seconds) for jobs, seconds, _ in points])
        base, more = _line([(jobs, float(size)) for jobs, _, size in points])
        return cls(shared, each, base, more, source)


@dataclass(frozen=True)
class Forecast:
    """What a sweep is expected to take."""

    seconds: float
    # At once, all workers together.
    peak_bytes: float
    sources: tuple[str, ...]


def foresee(store: Store, given: Sequence[Batch], workers: int) -> Forecast:
    """The time and memory of batches on this computer, by `workers` processes; a single one uses every processor."""
    threads = processors() if workers == 1 else 1
    groups: dict[str, list[Batch]] = {}
    for batch in given:
        groups.setdefault(batch.jobs[0].identity, []).append(batch)
    seconds, sizes, longest, sources = 0.0, [], 0.0, []
    kept = store.measured()
    for group in groups.values():
        job = group[0].jobs[0]
        length = _length(job)
        cost = _kept(job, kept) or _measured([job for batch in group for job in batch.jobs])
        took = [(cost.shared + cost.each * len(b.jobs) / min(threads, len(b.jobs))) * length for b in group]
        seconds += sum(took)
        longest = max(longest, *took)
        sizes += [cost.base_bytes + cost.each_bytes * len(batch.jobs) for batch in group]
        sources.append(f"{job.trace}: {cost.source}")
    at_once = sorted(sizes, reverse=True)[:workers]
    # No sweep ends before its longest batch.
    return Forecast(max(seconds / workers, longest), sum(at_once), tuple(sources))


def _length(job: SweepJob) -> int:
    most = job.options.max_instructions
    trace = remote.local(job.trace, job.identity)
    return engine.trace_length(trace, None if most is None else most + (job.options.skip or 0))


def _kept(job: SweepJob, kept: Sequence[dict[str, Any]]) -> Cost | None:
    """From batches of this trace and these options; None if there were none."""
    # As the file has them: JSON does not distinguish tuples from lists.
    options = json.loads(json.dumps(job.options.spec()))
    alike = [m for m in kept if m["identity"] == job.identity and m["options"] == options and m["instructions"]]
    points = [
        (m["jobs"], m["seconds"] * min(m["threads"], m["jobs"]) / m["instructions"], m["peak_bytes"]) for m in alike
    ]
    return Cost.fitted(points, f"from earlier batches: {len(points)}") if points else None


def _measured(jobs: Sequence[SweepJob]) -> Cost:
    """By running the beginning of the trace in a process of its own, with one job and with several."""
    # Spread over the jobs, for the last ones may have other machines than the first.
    step = max(1, len(jobs) // TOGETHER)
    some = tuple(jobs[::step][:TOGETHER])
    points = []
    for part in (some[:1], some)[: len(some)]:
        spec = Batch(part).spec(1)
        most = spec["options"].get("max_instructions")
        spec["options"] |= {"max_instructions": MEASURED if most is None else min(most, MEASURED), "skip": 0}
        ran = subprocess.run(
            [sys.executable, "-m", "mmulab.sweep.work"],
            input=json.dumps(spec),
            capture_output=True,
            text=True,
            check=False,
        )
        answer: dict[str, Any] = json.loads(ran.stdout) if ran.returncode == 0 else {"error": ran.stderr.strip()[-500:]}
        if answer["error"]:
            raise Failure(f"{part[0].label}: the measurement failed: {answer['error']}")
        instructions = max(1, *(result["counts"]["instructions"] for result in answer["results"]))
        points.append((len(part), answer["seconds"] / instructions, answer["peak_bytes"]))
    return Cost.fitted(
        points,
        f"measured now over its first {instructions:,} instructions; pages touched later take more memory",
    )


def _line(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """The line of least squares: its value at 0, and its slope. Through 0 if all points have one abscissa."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if not spread:
        return 0.0, mean_y / mean_x
    slope = max(0.0, sum((x - mean_x) * (y - mean_y) for x, y in points) / spread)
    return max(0.0, mean_y - slope * mean_x), slope
