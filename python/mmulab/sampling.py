"""Time by samples: the number of samples follows from the requested error.

A first run measures how much samples differ. If the error is too large, a second run takes the number of samples that
this spread requires. Counts are exact in both.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from mmulab import engine
from mmulab.engine import Job, Options, ProgressCallback, Ran

# Instructions of a sample, and those before it that only warm the core up. A predictor of branches needs most of them:
# after 3,000, branches cost sqlite 30 % more cycles than in a whole run; after 20,000, 3 % more.
LENGTH = 10_000
WARM = 20_000
# Samples of a first run: of a long trace as many as take this share of its instructions. A second run goes through all
# of the trace again, and is then seldom needed.
FIRST = 600
SHARE = 0.05
# A second run takes more samples than the spread of the first one asks for, by this factor.
MARGIN = 1.2
# Where a larger share of all instructions would run in time than this, all of them do.
MOST = 0.5
# Runs that are made at most. The last one's error is what it is, and the result says so.
RUNS = 4


def instructions(name: str, options: Options) -> int:
    """Instructions of a trace that are counted."""
    skip, most = options.skip or 0, options.max_instructions
    length = engine.trace_length(name, None if most is None else skip + most)
    return max(0, length - skip)


def sample(whole: int, samples: float) -> engine.Json | None:
    """The choice of about `samples` samples of a run of `whole` instructions; None to run all of it in time."""
    if samples * (LENGTH + WARM) > MOST * whole:
        return None
    return {"one_of": max(2, int(whole / (samples * LENGTH))), "length": LENGTH, "warm": WARM}


def first(whole: int) -> float:
    """Samples of the first run of `whole` instructions."""
    return max(FIRST, SHARE * whole / (LENGTH + WARM))


def worst(ran: Ran) -> float:
    """The largest error of a run's results, as a share of the time."""
    sampled = [result.data["timing"].get("sampled") for result in ran.results]
    return max((s["error"] if s["error"] is not None else 1.0 for s in sampled if s), default=0.0)


def run(
    name: str, jobs: Sequence[Job], options: Options, error: float, progress: ProgressCallback | None = None
) -> Ran:
    """As `engine.run` with `timing`, with an error of the time of at most `error` (95 % of samples), a share.

    What a few runs do not reach is left as it is: `timing.sampled.error` says so.
    """
    whole = instructions(name, options)
    samples = first(whole)
    for _ in range(RUNS):
        chosen = sample(whole, samples)
        ran = engine.run(name, jobs, replace(options, timing=True, sample=chosen), progress)
        found = worst(ran)
        if found <= error or chosen is None or not all(result.complete for result in ran.results):
            break
        samples *= MARGIN * (found / error) ** 2
    return ran


def run_to_end(
    name: str, jobs: Sequence[Job], options: Options, error: float, progress: ProgressCallback | None = None
) -> Ran:
    """As `run`. Raises KeyboardInterrupt where the user stopped it: times of parts of a run are not to be compared."""
    ran = run(name, jobs, options, error, progress)
    ran.whole()
    return ran


def saving_error(base: engine.Json, other: engine.Json) -> float | None:
    """Half of the 95 % interval of what `other` saves of `base` (both `timing` tables), as a share of `base`'s time.

    Samples of both are the same instructions, so they are compared pair by pair. None where nothing was sampled.
    """
    one, two = (table.get("sampled") for table in (base, other))
    if not one or not two or len(one["groups"]) != len(two["groups"]) or len(one["groups"]) < 2:
        return None
    sums = [sum(cycles for _, cycles in s["groups"]) for s in (one, two)]
    ratio, n = sums[1] / sums[0], len(one["groups"])
    residuals = [b[1] - ratio * a[1] for a, b in zip(one["groups"], two["groups"], strict=True)]
    # As crates/machine/src/timed/sampling.rs has it.
    squares = sum((b - a) ** 2 for a, b in itertools.pairwise(residuals))
    return float(1.96 * (n * squares / (2 * (n - 1))) ** 0.5 / sums[0])
