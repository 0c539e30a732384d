"""Allocators that a recorded program can be given in place of its own."""

import glob

from mmulab import UserError
from mmulab.workloads.recipe import Json

# The library's file, wherever the system keeps it, and the Debian package it is in.
ALLOCATORS: dict[str, Json] = {
    "jemalloc": {"package": "libjemalloc2", "provides": "/usr/lib/*/libjemalloc.so.2"},
    "tcmalloc": {"package": "libtcmalloc-minimal4", "provides": "/usr/lib/*/libtcmalloc_minimal.so.4"},
}


def library(name: str) -> str:
    """The library to preload. Raises UserError if it is not installed."""
    found = sorted(glob.glob(str(ALLOCATORS[name]["provides"])))
    if not found:
        raise UserError(f"{name} is not installed\nhint: as root: apt-get install {ALLOCATORS[name]['package']}")
    return found[0]
