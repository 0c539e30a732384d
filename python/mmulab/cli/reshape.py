"""Options that change a recorded program on its way to the machines."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click

from mmulab import UserError

F = TypeVar("F", bound=Callable[..., Any])

ALLOCATORS = ("jemalloc", "glibc", "blocks")


class Allocator(click.ParamType["dict[str, Any]"]):
    """A heap allocator with parameters: jemalloc,dirty_decay_ms=10."""

    name = "KIND[,KEY=VALUE]..."

    def convert(self, value: Any, param: Any, ctx: Any) -> dict[str, Any]:
        """Reads it; the engine checks the parameters."""
        if isinstance(value, dict):
            return value
        kind, *parameters = str(value).split(",")
        if kind not in ALLOCATORS:
            self.fail(f"'{kind}' is not an allocator: give {', '.join(ALLOCATORS)}", param, ctx)
        heap: dict[str, Any] = {"kind": kind}
        for parameter in parameters:
            key, equals, text = parameter.partition("=")
            if not key or not equals:
                self.fail(f"'{parameter}' sets no parameter: write KEY=VALUE", param, ctx)
            heap[key] = {"true": True, "false": False}.get(text, int(text) if text.lstrip("-").isdecimal() else text)
        return heap


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
    click.option(
        "--order",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Put the program's functions in the order that `mmulab reorder --out FILE` found.",
    ),
    click.option(
        "--heap",
        type=Allocator(),
        help="Use another heap allocator: jemalloc, glibc or blocks, with parameters as in "
        "jemalloc,dirty_decay_ms=10. Needs a recording made with `record --heap`.",
    ),
    click.option(
        "--code-heap",
        metavar="SIZE",
        help="Grow memory that may be executed and written by whole multiples of this (2M), and touch all of it when "
        "it is mapped. So compiled code lies on superpages, as in paper 2's Java virtual machine.",
    ),
    click.option(
        "--populate",
        is_flag=True,
        help="Fault in the program's private writable memory before it runs, as MAP_POPULATE does.",
    ),
]


def read_order(path: Path) -> dict[str, Any]:
    """The order of functions in a file; the engine checks it."""
    try:
        order = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except ValueError:
        order = None
    if not isinstance(order, dict) or "files" not in order:
        raise UserError(f"{path}: not an order of functions\nhint: make it with `mmulab reorder TRACE --out FILE`")
    return order


def reshape_options(function: F) -> F:
    """The options that change a recorded program."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def reshape_of(taken: dict[str, Any]) -> dict[str, Any] | None:
    """What the engine is to change, out of a command's options; None for nothing."""
    image = {key: taken[key] for key in ("max_page_size", "linker") if taken[key] is not None}
    change: dict[str, Any] = {"image": image} if image else {}
    if taken.get("order") is not None:
        change["order"] = read_order(taken["order"])
    if taken["heap"] is not None:
        change["heap"] = taken["heap"]
    if taken["code_heap"] is not None:
        change["code_heap"] = taken["code_heap"]
    if taken["populate"]:
        change["populate"] = True
    return change or None
