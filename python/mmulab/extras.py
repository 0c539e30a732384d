"""Optional packages: imported when they are needed, with a sentence on how to get those that are missing."""

from importlib import import_module
from typing import Any

from mmulab import UserError, paths

# The extras whose packages `make extras` installs in a checkout, for the tests need them all.
OF_A_CHECKOUT = {"cluster", "mosaics", "optimum", "sweep"}


def remedy(extra: str) -> str:
    """The command that installs the packages of an extra."""
    return "make extras" if extra in OF_A_CHECKOUT and paths.in_checkout() else f"pip install 'mmulab[{extra}]'"


def need(module: str, package: str, serves: str, instead: str = "", *, extra: str = "sweep") -> Any:
    """The module, imported. Raises UserError if its package is not installed.

    `serves`: what cannot be done without it. `instead`: another way to do it, as a sentence. `extra`: its name
    in mmulab's package.
    """
    try:
        return import_module(module)
    except ImportError:
        way = f"; {instead}" if instead else ""
        raise UserError(f"{serves} needs {package}, which is not installed\nhint: {remedy(extra)}{way}") from None
