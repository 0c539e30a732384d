"""The area of a job's TLBs, so that a sweep can set it against time and energy."""

from mmulab import UserError, engine

# Assignments to the policy change no TLB, and are refused without the policy that they are for.
_POLICY = "policy."


class Areas:
    """Areas of machines, each computed once. For one pass: machine files may change between two."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...]], float | None] = {}

    def cells(self, job: engine.Job) -> float | None:
        """All TLB arrays of a core in cells of static memory; None for a machine whose area cannot be stated."""
        key = (job.machine, tuple(each for each in job.sets if not each.startswith(_POLICY)))
        if key not in self._known:
            self._known[key] = _cells(*key)
        return self._known[key]


def _cells(machine: str, sets: tuple[str, ...]) -> float | None:
    try:
        found = engine.fit(machine, None, sets=sets)
    except UserError:
        return None
    return float(sum(array["cells"] for array in found["area"]))
