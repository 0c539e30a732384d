"""`mmulab reproduce`: experiments of the papers, a command each, made from their declarations."""

import rich_click as click

from mmulab.cli import console
from mmulab.cli.common import CONTEXT, print_json
from mmulab.cli.experiment import command_of
from mmulab.reproduce.experiments import EXPERIMENTS
from mmulab.tables import plain


@click.group(context_settings=CONTEXT)
def reproduce() -> None:
    """Run an experiment of a paper on descriptions of its machines."""


@reproduce.command("list", context_settings=CONTEXT)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def listing(as_json: bool) -> None:
    """List the experiments."""
    if as_json:
        print_json([{"name": e.name, "title": e.title, "source": e.source} for e in EXPERIMENTS])
        return
    table = plain()
    for name in ("experiment", "what it is", "from"):
        table.add_column(name)
    for e in EXPERIMENTS:
        table.add_row(e.name, e.title, e.source)
    console.out().print(table)


for _experiment in EXPERIMENTS:
    reproduce.add_command(command_of(_experiment))
