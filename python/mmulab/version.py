"""Which mmulab this is: a module of its own, so that `mmulab --version` imports nothing else."""

from mmulab import _core


def version() -> str:
    """The engine's version."""
    return _core.version()


def build() -> str:
    """The version, and whether arithmetic is checked."""
    return (
        f"{version()} (checked build: overflow checks and debug assertions; slow)" if _core.is_checked() else version()
    )
