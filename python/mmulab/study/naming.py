"""Names for the places of code of one result: by the file mapped there, or by what a program said of its JIT code."""

from pathlib import Path
from typing import Any

from mmulab.result import Result, address
from mmulab.study.jit import Names, names
from mmulab.study.symbols import Named, named


class CodeNames:
    """The functions of a result's code. Names of JIT code are read once for each process."""

    def __init__(self, result: Result, recording: str = "") -> None:
        """`recording`: the trace, beside which names of code are that the program made while it ran."""
        self._recording = recording
        self._regions = {int(r["id"]): r for r in result.regions if not r.get("vm")}
        self._made: dict[int, Names | None] = {}

    def region(self, number: Any) -> dict[str, Any]:
        """The region with this number; empty if it is none of the program's."""
        return self._regions.get(int(number), {})

    def at(self, region: dict[str, Any], pid: int, at: int) -> Named:
        """What to call the code at an address of a region."""
        path = str(region.get("file") or "")
        if path and not is_dump(path):
            return named(path, at - address(region["start"]) + int(region["offset"]))
        if pid not in self._made:
            self._made[pid] = names(self._recording, pid) if self._recording else None
        told = self._made[pid]
        if told is not None and (span := told.span(at)) is not None:
            return Named(span[2], known=True, is_start=span[0] == at)
        where = Path(path).name or str(region.get("name", "unmapped"))
        return Named(f"{where} (no names kept)" if region.get("kind") == "anon" else where, known=False)


def is_dump(path: str) -> bool:
    """Whether a mapped file is a jitdump, which programs map to show that they write one."""
    return Path(path).name.startswith("jit-") and path.endswith(".dump")
