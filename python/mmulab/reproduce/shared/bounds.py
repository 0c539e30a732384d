"""Times of generators by a core in time: few generators say which load waits for which, so two times are modelled.

The truth lies between them: no load waits for another, and each load waits for the one before.
"""

from collections.abc import Iterable

from mmulab import engine

INDEPENDENT, DEPENDENT = "independent", "dependent"
BOUNDS = (INDEPENDENT, DEPENDENT)


def bound(job: engine.Job, of: str) -> engine.Job:
    """The job with one of them assumed of code that is not known."""
    return engine.Job(job.machine, job.policy, (*job.sets, f"core.timing.unknown={of}"), job.host_policy)


def between(values: Iterable[float], shape: str = "+.1%") -> str:
    """The range of values as text, each in the format `shape`; one value, where all are written alike."""
    texts = list(dict.fromkeys(format(value, shape) for value in sorted(values)))
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"
