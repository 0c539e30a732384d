"""Options that change a recorded program on its way to the machines."""

from collections.abc import Callable
from typing import Any, TypeVar

import rich_click as click

F = TypeVar("F", bound=Callable[..., Any])

LINKERS = ("lld", "old", "gnu-separate-code")

_OPTIONS = [
    click.option(
        "--max-page-size",
        metavar="SIZE",
        help="Lay the program's ELF files out as a linker would with this maxpagesize (4K, 16K, 2M), and load them so. "
        "Default: as they were.",
    ),
    click.option(
        "--linker",
        type=click.Choice(LINKERS),
        help="The linker that lays them out. Default with --max-page-size: lld. Alone: with its own maxpagesize.",
    ),
]


def reshape_options(function: F) -> F:
    """The options that change a recorded program."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def reshape_of(taken: dict[str, Any]) -> dict[str, Any] | None:
    """What the engine is to change, out of a command's options; None for nothing."""
    image = {key: taken[key] for key in ("max_page_size", "linker") if taken[key] is not None}
    return {"image": image} if image else None
