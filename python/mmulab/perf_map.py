"""Names for profilers of code that was moved onto anonymous memory: perf maps (`/tmp/perf-PID.map`).

perf takes names from the file that a mapping shows. Code that was moved onto anonymous pages shows none. For anonymous
code perf reads a map: `START SIZE NAME`, a line each, hexadecimal (Linux, tools/perf/Documentation/jit-interface.txt).

    /proc/PID/maps --- anonymous code where a segment of a file belongs --.
    report of the preloaded library --------------------------------------+--> moved --> lines --> added to the map

Run-time compilers write the same map for code that they make, so lines are only added. A process that could write over
them is refused.
"""

import contextlib
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mmulab import Failure, UserError, engine
from mmulab.stopwatch.moved import texts
from mmulab.study.symbols import DEBUG_ROOTS, demangle

_LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ (\d+) *(.*)")
_PAGE = 4096


@dataclass(frozen=True)
class Moved:
    """Code that lies in anonymous memory: addresses, its file, and where in the file it begins."""

    start: int
    end: int
    file: str
    offset: int


@dataclass(frozen=True)
class Written:
    """A map that was added to."""

    path: Path
    functions: int
    # Functions that were not there before.
    added: int
    moved: tuple[Moved, ...]


@dataclass(frozen=True)
class _Mapping:
    start: int
    end: int
    rights: str
    offset: int
    name: str

    @property
    def is_anonymous_code(self) -> bool:
        return "x" in self.rights and (not self.name or self.name.startswith("[anon"))


def _mappings(text: str) -> list[_Mapping]:
    matches = (match for line in text.splitlines() if (match := _LINE.fullmatch(line)))
    return [_Mapping(int(m[1], 16), int(m[2], 16), m[3], int(m[4], 16), m[6]) for m in matches]


@lru_cache(maxsize=256)
def _segments(file: str) -> tuple[dict[str, int], ...]:
    """The loadable segments of a file; none of one that is not there any more, or is not an ELF file."""
    try:
        return tuple(engine.elf_check(file, False)["files"][0]["segments"])
    except UserError:
        return ()


def moved_code(maps: str) -> list[Moved]:
    """The anonymous code of a process that lies where segments of mapped files belong, out of /proc/PID/maps."""
    mappings = _mappings(maps)
    anonymous = [m for m in mappings if m.is_anonymous_code]
    if not anonymous:
        return []
    # Where a file was loaded: the distance from the addresses that its headers have. Two segments may share a page of
    # the file, so the distance is the one that most of its mappings agree on.
    loaded: dict[str, Counter[int]] = {}
    for one in mappings:
        for segment in _segments(one.name) if one.name.startswith("/") else ():
            first = segment["offset"] - segment["offset"] % _PAGE
            if first <= one.offset < segment["offset"] + segment["file_bytes"]:
                distance = one.start - (segment["address"] + one.offset - segment["offset"])
                loaded.setdefault(one.name, Counter())[distance] += 1
    found = []
    for file, distances in loaded.items():
        distance = distances.most_common(1)[0][0]
        for segment in _segments(file):
            start = segment["address"] + distance
            for code in anonymous if "x" in str(segment["rights"]) else ():
                low, high = max(start, code.start), min(start + segment["file_bytes"], code.end)
                if low < high:
                    found.append(Moved(low, high, file, segment["offset"] + low - start))
    return sorted(found, key=lambda one: one.start)


@lru_cache(maxsize=64)
def _functions(file: str) -> tuple[tuple[int, int, str], ...]:
    """The functions of a file by offset, named as reports name them; none of a file that cannot be read."""
    try:
        found, _ = engine.elf_functions(file, DEBUG_ROOTS)
    except UserError:
        return ()
    short = Path(file).name
    # A name with the end of a line in it would be two lines.
    return tuple((a, b, demangle(name).replace("\n", " ") if name else f"{short}+{a:#x}") for a, b, name in found)


def lines(moved: Iterable[Moved]) -> list[str]:
    """The functions of moved code, a line each; of those that were moved in part, that part."""
    found = []
    for one in moved:
        for first, last, name in _functions(one.file):
            low = max(one.start, one.start + first - one.offset)
            high = min(one.end, one.start + last - one.offset)
            if low < high:
                found.append(f"{low:x} {high - low:x} {name}")
    return found


def default(pid: int) -> Path:
    """Where perf looks for a process's map."""
    return Path(f"/tmp/perf-{pid}.map")


def add(path: Path, moved: Sequence[Moved], owner: tuple[int, int] | None = None) -> Written:
    """Adds the functions of moved code to a map: what stands there stays, and a line that is there is not added again.

    `owner`: the user and group whose process it is, to whom a new map belongs. Raises UserError, Failure.
    """
    functions = lines(moved)
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
            if owner is not None and os.geteuid() == 0:
                os.fchown(file, *owner)
        except FileExistsError:
            file = os.open(path, flags)
        with os.fdopen(file, "r+b", buffering=0) as opened:
            about = os.fstat(opened.fileno())
            users = {os.geteuid(), *(owner or ())[:1]}
            if not stat.S_ISREG(about.st_mode) or about.st_uid not in users:
                raise UserError(f"{path}: it is not a file of this user's or of the process's user\nhint: --out FILE")
            before = opened.read()
            known = set(before.decode("utf-8", "replace").splitlines())
            new = [line for line in functions if line not in known]
            text = "".join(f"{line}\n" for line in new)
            if before and not before.endswith(b"\n"):
                text = f"\n{text}"
            # In one piece: others may add to it, too.
            data = text.encode()
            if new and opened.write(data) != len(data):
                raise Failure(f"{path}: not all of it could be written")
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    return Written(path, len(functions), len(new), tuple(moved))


def of_report(report: dict[str, Any]) -> Written | None:
    """Adds the functions of what the preloaded library moved, once the process is over; None if it moved nothing."""
    found = [Moved(t.moved, t.moved_end, t.file, t.in_file(t.moved)) for t in texts(report) if t.huge]
    return add(default(int(report["pid"])), found) if found else None


def of_process(pid: int, out: Path | None = None) -> Written:
    """Adds the functions of a running process's moved code to its map. Raises UserError, Failure."""
    home = Path(f"/proc/{pid}")
    try:
        maps = (home / "maps").read_text(encoding="utf-8", errors="replace")
        status = (home / "status").read_text(encoding="utf-8")
        about = home.stat()
    except FileNotFoundError:
        raise UserError(f"{pid}: there is no such process") from None
    except (PermissionError, ProcessLookupError) as error:
        raise UserError(f"{pid}: its mappings cannot be read: {error.strerror}") from error
    numbers = re.search(r"^NStgid:\s*(.*)$", status, re.MULTILINE)
    if out is None and numbers and len(numbers[1].split()) > 1:
        raise UserError(
            f"{pid}: it runs in a PID namespace of its own, where perf looks for another map\n"
            "hint: run this command inside it, or write a file with --out"
        )
    found = moved_code(maps)
    if not found:
        raise UserError(
            f"{pid}: none of its code lies in anonymous memory where a file's code belongs: perf has the file's names"
        )
    path = out or default(pid)
    if out is None and _may_be_written_over(home, path):
        raise UserError(
            f"{path}: the process has it open, and would write over what is added (without O_APPEND): its run-time "
            "compiler keeps its map there\nhint: --out FILE, and put the two together when the process has ended"
        )
    return add(path, found, (about.st_uid, about.st_gid))


def _may_be_written_over(home: Path, path: Path) -> bool:
    """Whether a process has a file open for writing otherwise than at its end."""
    with contextlib.suppress(OSError):
        about = path.stat()
        for number in os.listdir(home / "fd"):
            # Descriptors may be closed meanwhile.
            with contextlib.suppress(OSError):
                if os.path.samestat((home / "fd" / number).stat(), about):
                    text = (home / "fdinfo" / number).read_text()
                    found = re.search(r"^flags:\s*([0-7]+)", text, re.MULTILINE)
                    flags = int(found[1], 8) if found else os.O_RDWR
                    if flags & os.O_ACCMODE != os.O_RDONLY and not flags & os.O_APPEND:
                        return True
    return False
