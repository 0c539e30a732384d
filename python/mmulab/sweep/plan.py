"""Jobs of a sweep: every combination that meets the constraints, each with the hash that its result is kept under."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from mmulab import UserError, engine
from mmulab.study.plan import BASELINE
from mmulab.sweep.axes import HOST_POLICY, MACHINE, POLICY, TRACE, assignment
from mmulab.sweep.constraint import Value
from mmulab.sweep.file import Sweep
from mmulab.sweep.identity import digest, first_level, release, trace_identity

# More than are run in months; fewer than fill the memory.
COMBINATIONS_MAX = 1_000_000


@dataclass(frozen=True)
class SweepJob:
    """One run: a trace, a machine, a policy and the values of all keys."""

    # By axis, in the order of the file.
    values: dict[str, Value]
    trace: str
    identity: str
    job: engine.Job
    options: engine.Options
    # A hash of the descriptions with every value known.
    described: str
    # A hash of what decides which references miss the first-level TLBs: jobs with one hash may share them.
    first_level: str
    # The hash that the result is kept under.
    key: str

    @property
    def label(self) -> str:
        """All values, for people."""
        return shown(self.values)


@dataclass(frozen=True)
class Plan:
    """The jobs of a sweep."""

    sweep: Sweep
    jobs: tuple[SweepJob, ...]
    # Combinations before constraints, different ones only.
    combinations: int

    def groups(self) -> dict[str, list[SweepJob]]:
        """Jobs by trace: those of one group can share a decoding."""
        found: dict[str, list[SweepJob]] = {}
        for job in self.jobs:
            found.setdefault(job.trace, []).append(job)
        return found


def shown(values: dict[str, Value]) -> str:
    """Values of axes, for people."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def plan(sweep: Sweep) -> Plan:
    """The jobs of `sweep`. Raises UserError for a job that cannot be run, with the values that it has."""
    combinations = list(_combinations(sweep))
    kept = [values for values in combinations if all(c.holds(values) for c in sweep.constraints)]
    if not kept:
        raise _nothing_left(sweep, combinations)
    identities = {name: _found(sweep, str(name)) for name in dict.fromkeys(values[TRACE] for values in kept)}
    built = release()
    jobs = [_job(sweep, values, identities[values[TRACE]], built) for values in kept]
    return Plan(sweep, tuple(jobs), len(combinations))


def _combinations(sweep: Sweep) -> Iterator[dict[str, Value]]:
    count = prod(len(axis.values) for axis in sweep.axes) * (sweep.sample.points if sweep.sample else 1)
    if count > COMBINATIONS_MAX:
        raise UserError(
            f"{sweep.place}: {count:,} combinations; at most {COMBINATIONS_MAX:,} are made\n"
            "hint: draw the values of an axis (from and to, or pick), or divide the sweep into several files"
        )
    points: list[dict[str, Value]] = [{}]
    if sweep.sample:
        drawn = sweep.sample.shares(len(sweep.ranges))
        points = [{r.name: r.at(share) for r, share in zip(sweep.ranges, point, strict=True)} for point in drawn]
    seen = set()
    for combined in product(*(axis.values for axis in sweep.axes)):
        for point in points:
            values = {**{axis.name: value for axis, value in zip(sweep.axes, combined, strict=True)}, **point}
            # Whole numbers are drawn more than once.
            if (key := tuple(values.values())) not in seen:
                seen.add(key)
                yield values


def _nothing_left(sweep: Sweep, combinations: list[dict[str, Value]]) -> UserError:
    lines = []
    for constraint in sweep.constraints:
        met = sum(constraint.holds(values) for values in combinations)
        lines.append(f"{constraint.place}: {constraint.text!r} is met by {met:,} of {len(combinations):,} combinations")
    alone = [line for line in lines if " is met by 0 of " in line]
    first = alone[0] if alone else f"{sweep.place}: no combination meets all constraints together\n" + "\n".join(lines)
    return UserError(f"{first}\nhint: change the constraint, or give the axes other values")


def _found(sweep: Sweep, trace: str) -> str:
    try:
        return trace_identity(trace)
    except UserError as error:
        raise UserError(f"{sweep.place}: axes.trace: {engine.unreadable(error)}") from None


def _job(sweep: Sweep, values: dict[str, Value], identity: str, built: dict[str, str]) -> SweepJob:
    keys = {axis.name: axis.keys for axis in sweep.varied}
    swept = tuple(assignment(key, value) for name, value in values.items() for key in keys[name])
    host = values.get(HOST_POLICY)
    job = engine.Job(
        str(values[MACHINE]),
        str(values.get(POLICY, BASELINE)),
        (*sweep.sets, *swept),
        None if host is None else str(host),
    )
    try:
        descriptions = engine.resolve(job)
    except UserError as error:
        raise _refused(sweep, values, error) from None
    described = digest(descriptions)
    parts: dict[str, Any] = {
        "mmulab": built,
        "trace": identity,
        "descriptions": described,
        # The number of threads changes no result.
        "options": {key: value for key, value in sweep.options.spec().items() if key != "threads"},
    }
    first = first_level(descriptions)
    return SweepJob(values, str(values[TRACE]), identity, job, sweep.options, described, first, digest(parts))


def _refused(sweep: Sweep, values: dict[str, Value], error: UserError) -> UserError:
    """The engine's sentence with the place in the file, and the values of the job that it is about."""
    first, *rest = str(error).splitlines()
    where = sweep.place
    for axis in sweep.varied:
        is_named = axis.name in (MACHINE, POLICY) and first.startswith(f"no {axis.name} named")
        if is_named or any(f"{key}=" in first for key in axis.keys):
            where = f"{sweep.place}: axes.{axis.name}"
    for assigned in sweep.sets:
        if assigned in first:
            where = f"{sweep.place}: set: {assigned.partition('=')[0]}"
    lines = [f"{where}: {first}", f"in the job {shown(values)}", *rest]
    if not any(line.startswith("hint:") for line in rest):
        lines.append("hint: correct the value; to leave out single combinations, add a constraint")
    return UserError("\n".join(lines))
