"""What every command that runs one machine is told: the machine, its policy, the trace."""

import rich_click as click

from mmulab.cli import completion

machine_argument = click.argument("machine", shell_complete=completion.machine)
trace_option = click.option(
    "--trace",
    required=True,
    metavar="FILE",
    help="A trace of any format, or gen:NAME?key=value.",
    shell_complete=completion.trace,
)
policy_option = click.option(
    "--policy",
    default="linux-4k",
    show_default=True,
    help="The operating system's page policy.",
    shell_complete=completion.policy,
)
