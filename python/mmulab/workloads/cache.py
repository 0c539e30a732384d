"""Where what takes long to get or to compute is kept."""

import hashlib
import os
from pathlib import Path


def home() -> Path:
    """The user's cache directory (XDG base directory specification) and in it ours."""
    return Path(os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")) / "mmulab"


def root() -> Path:
    """What was fetched for workloads."""
    return home() / "workloads"


def directory(workload: str) -> Path:
    """What was fetched for one workload."""
    return root() / workload


def sha256(path: Path) -> str:
    """The digest of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
