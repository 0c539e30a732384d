"""The command line: data on stdout, the rest on stderr; exit codes 0 success, 1 failure, 2 a mistake of the user's."""

from mmulab.cli.app import main

__all__ = ["main"]
