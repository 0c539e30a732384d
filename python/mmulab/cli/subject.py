"""What every command that runs one machine is told: the machine, its policy, the trace."""

from collections.abc import Callable
from typing import Any, TypeVar

import rich_click as click

from mmulab.cli import completion

F = TypeVar("F", bound=Callable[..., Any])

machine_argument = click.argument("machine", shell_complete=completion.machine)
trace_option = click.option(
    "--trace",
    required=True,
    metavar="FILE",
    help="A trace of any format, gen:NAME?key=value, or mix:NAME?key=value.",
    shell_complete=completion.trace,
)


def policy_option(default: str) -> Callable[[F], F]:
    """`--policy`, with what it is if it is not given."""
    return click.option(
        "--policy",
        "--guest-policy",
        "policy",
        default=default,
        show_default=True,
        help="The operating system's page policy.",
        shell_complete=completion.policy,
    )
