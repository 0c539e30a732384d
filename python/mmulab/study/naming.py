"""Names for the places of code of one result: by the file mapped there, or by what a program said of its JIT code."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mmulab.result import Result, address
from mmulab.study.jit import Names, names
from mmulab.study.symbols import Named, named

# Ends the name of code that a program made and of which it kept no names.
NAMELESS = " (no names kept)"
# The option that asks a run-time compiler for names, by the program that has the compiler. Sources: Node.js,
# command-line API; JDK 17 and later, -XX:+DumpPerfMapAtExit; Python 3.12, "Python support for the Linux perf profiler".
ASKING = {
    "node": "node --perf-basic-prof",
    "java": "java -XX:+DumpPerfMapAtExit",
    "python": "python -X perf (3.12 and later)",
}


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
        return Named(f"{where}{NAMELESS}" if region.get("kind") == "anon" else where, known=False)


def asking_for_names(programs: Iterable[str]) -> str:
    """How to have names of the code that these programs made, as a sentence."""
    names = [Path(program).name for program in programs]
    own = [how for start, how in ASKING.items() if any(name.startswith(start) for name in names)]
    *others, last = own or list(ASKING.values())
    said = f"{', '.join(others)} or {last}" if others else last
    return f"Code that a run-time compiler made has no names here. To have them, record the program with {said}."


def is_dump(path: str) -> bool:
    """Whether a mapped file is a jitdump, which programs map to show that they write one."""
    return Path(path).name.startswith("jit-") and path.endswith(".dump")
