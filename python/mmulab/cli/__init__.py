"""The command line: data on stdout, the rest on stderr; exit codes 0 success, 1 failure, 2 a mistake of the user's."""

import os
import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """The console script. A script that asks for the version alone does not wait for imports of anything else."""
    if sys.argv[1:] == ["--version"]:
        from mmulab.version import build

        print(f"mmulab, version {build()}")
        code = 0
    else:
        from mmulab.cli.app import invoke

        code = invoke(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
