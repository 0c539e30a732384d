"""A worker's part: one batch, checked against what the worker itself has, and run. JSON text in, JSON text out.

Only this function and text go between a sweep and its workers, so that nothing from a file is ever unpickled.
"""

import asyncio
import json
import sys
import time
from typing import Any

from mmulab import Failure, UserError, engine
from mmulab.sweep import remote
from mmulab.sweep.identity import digest, release, trace_identity
from mmulab.sweep.peak import peak_bytes, reset_peak


def run_batch(text: str) -> str:
    """The results of a batch's jobs, or the error that kept it from being run; and what it took."""
    spec = json.loads(text)
    reset_peak()
    begun = time.perf_counter()
    try:
        results = _run(spec)
        error = ""
    except (UserError, Failure) as mistake:
        results, error = [], str(mistake)
    took = {"seconds": time.perf_counter() - begun, "peak_bytes": peak_bytes()}
    return json.dumps({"results": results, "error": error, **took})


def _run(spec: dict[str, Any]) -> list[dict[str, Any]]:
    problem = differs(json.dumps({key: spec[key] for key in ("mmulab", "trace", "identity")}))
    if problem:
        raise UserError(problem)
    jobs = [
        engine.Job(each["machine"], each["policy"], tuple(each["sets"]), each["host_policy"]) for each in spec["jobs"]
    ]
    for job, each in zip(jobs, spec["jobs"], strict=True):
        if digest(engine.resolve(job)) != each["described"]:
            raise UserError(
                f"the worker has other descriptions of {job.machine} or {job.policy} than the sweep\n"
                "hint: give all computers the same machine and policy files"
            )
    options: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in spec["options"].items()
    }
    trace = remote.local(spec["trace"], spec["identity"])
    results = [result.data for result in engine.run(trace, jobs, engine.Options(**options)).whole()]
    for data in results:
        # A result names its trace, and is the same from every computer's cache.
        data["trace"]["name"] = spec["trace"] if trace != spec["trace"] else data["trace"]["name"]
    return results


def differs(text: str) -> str:
    """How the worker differs from the sweep: another mmulab, another trace or none. Empty if it does not."""
    spec = json.loads(text)
    own = release()
    if own != spec["mmulab"]:
        theirs = spec["mmulab"]
        return (
            f"the worker has mmulab {own['version']} (engine {own['engine']}), "
            f"the sweep mmulab {theirs['version']} (engine {theirs['engine']})\n"
            "hint: install the same mmulab on all computers"
        )
    try:
        identity = trace_identity(spec["trace"], spec["identity"])
    except (UserError, Failure, OSError) as error:
        return f"the worker cannot read the trace: {error}"
    if identity != spec["identity"]:
        return f"the worker's {spec['trace']} has other contents\nhint: copy the trace to all computers again"
    return ""


async def differs_aside(text: str) -> str:
    """The same in a thread of its own: a trace may have to be fetched, and the worker must answer meanwhile."""
    return await asyncio.to_thread(differs, text)


if __name__ == "__main__":
    sys.stdout.write(run_batch(sys.stdin.read()))
