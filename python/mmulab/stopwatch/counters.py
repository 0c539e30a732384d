"""Instructions and cycles of a program and its children in user mode, by perf_event_open, where they are to be had."""

import ctypes
import os
import platform
import struct

_NUMBER = {"x86_64": 298, "aarch64": 241}
_HARDWARE, _SOFTWARE = 0, 1
# Names with type and config (linux/perf_event.h).
EVENTS = {"instructions": (_HARDWARE, 1), "cycles": (_HARDWARE, 0)}
# disabled, inherit, exclude_kernel, exclude_hv, enable_on_exec.
_FLAGS = 1 << 0 | 1 << 1 | 1 << 5 | 1 << 6 | 1 << 12
# Length of perf_event_attr, version 0.
_SIZE = 64
_CLOSE_ON_EXEC = 8


class Counters:
    """Counters that children inherit, and that begin when a child executes its program."""

    def __init__(self, events: dict[str, tuple[int, int]] | None = None) -> None:
        """Opens those that this system has. `why` says why there are none."""
        self.files: dict[str, int] = {}
        self.why: str | None = None
        for name, (kind, config) in (EVENTS if events is None else events).items():
            opened, error = _open(kind, config)
            if opened is None:
                self.why = f"{name}: {error}"
            else:
                self.files[name] = opened

    def __enter__(self) -> "Counters":
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes them."""
        for opened in self.files.values():
            os.close(opened)

    def read(self) -> dict[str, int]:
        """Counts since they were opened, by name. Children count once they have ended."""
        return {name: struct.unpack("Q", os.read(opened, 8))[0] for name, opened in self.files.items()}


def _open(kind: int, config: int) -> tuple[int | None, str]:
    number = _NUMBER.get(platform.machine())
    if number is None:
        return None, f"not known on {platform.machine()}"
    attributes = struct.pack("=IIQQQQQIIQ", kind, _SIZE, config, 0, 0, 0, _FLAGS, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    opened = libc.syscall(number, ctypes.c_char_p(attributes), 0, -1, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
    return (opened, "") if opened >= 0 else (None, os.strerror(ctypes.get_errno()))
