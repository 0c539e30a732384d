"""Names for code that a program made while it ran: perf maps and jitdump files, kept beside the recording.

    recorder --> TRACE.jit/perf-PID.map   `START SIZE NAME`, a line each, hexadecimal (perf's jit-interface.txt)
                 TRACE.jit/jit-PID.dump   jitdump (perf's jitdump-specification.txt)

PID is the process's number in the trace. Where code was replaced, the later one's name stands: a recording's costs by
place are sums over the run.
"""

import struct
from bisect import bisect_right
from pathlib import Path

# Of the jitdump specification: the file's magic in its own byte order, and the records of code.
_MAGIC = 0x4A695444
_CODE_LOAD, _CODE_MOVE = 0, 1
# A larger file is not what a program of a recording writes.
MOST_BYTES = 1 << 30

Span = tuple[int, int, str]


class Names:
    """The names of one process's code, by address."""

    def __init__(self, spans: list[Span]) -> None:
        """Takes (start, end, name); of those that overlap, the later one stands."""
        self._starts: list[int] = []
        self._spans: list[Span] = []
        for start, end, name in spans:
            self._put(start, end, name)

    def _put(self, start: int, end: int, name: str) -> None:
        if start >= end:
            return
        low = bisect_right(self._starts, start)
        if low and self._spans[low - 1][1] > start:
            low -= 1
        high = low
        while high < len(self._spans) and self._spans[high][0] < end:
            high += 1
        cut = self._spans[low:high]
        new: list[Span] = []
        if cut and cut[0][0] < start:
            new.append((cut[0][0], start, cut[0][2]))
        new.append((start, end, name))
        if cut and cut[-1][1] > end:
            new.append((end, cut[-1][1], cut[-1][2]))
        self._spans[low:high] = new
        self._starts[low:high] = [span[0] for span in new]

    def span(self, address: int) -> Span | None:
        """The piece of code that an address lies in; None if nothing was said of it."""
        i = bisect_right(self._starts, address) - 1
        return self._spans[i] if i >= 0 and address < self._spans[i][1] else None

    def at(self, address: int) -> str | None:
        """The name of what lies at an address; None if nothing was said of it."""
        found = self.span(address)
        return found[2] if found else None

    def __len__(self) -> int:
        """Pieces of code."""
        return len(self._spans)


def perf_map(text: str) -> list[Span]:
    """The lines of a perf map that can be read. A program that was stopped may have left half a line."""
    found = []
    for line in text.splitlines():
        words = line.split(maxsplit=2)
        try:
            start, size = int(words[0], 16), int(words[1], 16)
        except (ValueError, IndexError):
            continue
        if len(words) == 3 and 0 <= start < 1 << 64 and 0 < size < 1 << 40:
            found.append((start, start + size, words[2]))
    return found


def jitdump(data: bytes) -> list[Span]:
    """The code that a jitdump file says was loaded and moved, as far as it can be read."""
    order = next((o for o in "<>" if len(data) >= 40 and struct.unpack_from(f"{o}I", data)[0] == _MAGIC), None)
    if order is None:
        return []
    (at,) = struct.unpack_from(f"{order}I", data, 8)
    found: list[Span] = []
    names: dict[int, str] = {}
    while at + 16 <= len(data):
        kind, size, _ = struct.unpack_from(f"{order}IIQ", data, at)
        body = data[at + 16 : at + size]
        if size < 16 or at + size > len(data):
            break
        if kind == _CODE_LOAD and len(body) >= 40:
            _, _, _, address, length, index = struct.unpack_from(f"{order}IIQQQQ", body)
            name = body[40:].split(b"\0", 1)[0].decode("utf-8", "replace")
            names[index] = name
            found.append((address, address + length, name))
        elif kind == _CODE_MOVE and len(body) >= 48:
            _, _, _, _, address, length, index = struct.unpack_from(f"{order}IIQQQQQ", body)
            found.append((address, address + length, names.get(index, "moved code")))
        at += size
    return found


def directory(trace: str) -> Path:
    """Where a recording's files of names are."""
    return Path(f"{trace}.jit")


def names(trace: str, pid: int) -> Names | None:
    """The names of a process's code; None if none were kept."""
    spans: list[Span] = []
    for path, read in (
        (directory(trace) / f"perf-{pid}.map", lambda data: perf_map(data.decode("utf-8", "replace"))),
        (directory(trace) / f"jit-{pid}.dump", jitdump),
    ):
        try:
            if path.stat().st_size <= MOST_BYTES:
                spans += read(path.read_bytes())
        except OSError:
            continue
    return Names(spans) if spans else None
