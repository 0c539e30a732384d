"""What this computer's kernel was built with, as far as it says so: for advice that depends on it."""

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

READ_ONLY_THP = "CONFIG_READ_ONLY_THP_FOR_FS"


@dataclass(frozen=True)
class Configuration:
    """A kernel's configuration: where it was read, and the options that are set."""

    path: Path
    options: frozenset[str]

    def has(self, option: str) -> bool:
        """Whether an option is built in or a module."""
        return option in self.options


def places() -> list[Path]:
    """Where kernels leave their configuration."""
    return [Path("/proc/config.gz"), Path(f"/boot/config-{os.uname().release}")]


def configuration(candidates: list[Path] | None = None) -> Configuration | None:
    """The running kernel's configuration; None where it is nowhere, or cannot be read."""
    for path in places() if candidates is None else candidates:
        try:
            data = path.read_bytes()
            text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
        except (OSError, EOFError, gzip.BadGzipFile):
            continue
        lines = (line.strip().partition("=") for line in text.splitlines() if not line.startswith("#"))
        options = frozenset(name for name, _, value in lines if value in ("y", "m"))
        if options:
            return Configuration(path, options)
    return None


def read_only_files(candidates: list[Path] | None = None) -> str:
    """Whether khugepaged of this kernel makes huge pages of files, as a sentence."""
    found = configuration(candidates)
    if found is None:
        looked = " and ".join(str(path) for path in (places() if candidates is None else candidates))
        return (
            "Whether this kernel's khugepaged takes code (policy linux-code-khugepaged) is not known, for "
            f"{READ_ONLY_THP} stands in its configuration, and {looked} cannot be read."
        )
    if found.has(READ_ONLY_THP):
        return (
            f"This kernel has {READ_ONLY_THP} ({found.path}): khugepaged brings code of files together by itself, "
            "where mapping and file agree modulo 2 MB (policy linux-code-khugepaged)."
        )
    return (
        f"This kernel has no {READ_ONLY_THP} ({found.path}): khugepaged leaves code of files alone, and policy "
        "linux-code-khugepaged is not for it."
    )
