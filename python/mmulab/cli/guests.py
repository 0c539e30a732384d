"""Options for programs that run in virtual machines."""

from collections.abc import Callable
from typing import Any, TypeVar

import rich_click as click

from mmulab.cli import completion
from mmulab.cli.numbers import whole_option

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = [
    click.option(
        "--guest-memory",
        metavar="SIZE",
        help="Run the program in a virtual machine with SIZE of memory; --policy then sets the guest's policy. "
        "Default: no virtual machine, unless the machine file has a [virtual] table.",
    ),
    click.option(
        "--host-policy",
        help="The page policy of the host below virtual machines. Default: linux-4k.",
        shell_complete=completion.policy,
    ),
    click.option("--guest-table", metavar="KIND", help="The guests' page-table format (virtual.table.kind)."),
    click.option("--host-table", metavar="KIND", help="The host's page-table format (table.kind)."),
    click.option(
        "--vm",
        "vms",
        multiple=True,
        metavar="FILE",
        help="A further virtual machine that runs this trace on the same host. Repeatable.",
        shell_complete=completion.trace,
    ),
    click.option(
        "--quantum",
        type=whole_option("quantum"),
        help="References a virtual machine makes before it is the next one's turn. Default: 100000.",
    ),
]


def guest_options(function: F) -> F:
    """The options of virtual machines."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def guest_sets(taken: dict[str, Any]) -> tuple[str, ...]:
    """The assignments that a command's options stand for."""
    keys = {"guest_memory": "virtual.memory.size", "guest_table": "virtual.table.kind", "host_table": "table.kind"}
    return tuple(f"{key}={taken[name]}" for name, key in keys.items() if taken[name] is not None)
