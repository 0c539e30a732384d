"""A program that was started by a symbolic link: its file has another name, and reports say the one that was typed.

Debian's redis-server is a link to redis-check-rdb. Mappings show the file's own name, as /proc/PID/maps does.
"""

import os
from functools import lru_cache
from typing import Any


def shown_file(region: dict[str, Any], first: str = "") -> str:
    """The file of a region: under the name by which its program was executed, if it is that program's own.

    `first` executes what runs before the first exec of a trace.
    """
    path = str(region.get("file") or "")
    program = str(region.get("program") or first)
    return program if path and program and path == _real(program) else path


@lru_cache(maxsize=256)
def _real(path: str) -> str:
    """Where a path leads on this computer; the path itself if it leads nowhere."""
    return os.path.realpath(path)
