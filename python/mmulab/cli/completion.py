"""`mmulab completion`, and what the Tab key offers where a machine, a policy or a trace is named."""

from collections.abc import Callable
from typing import Any

import rich_click as click
from click.shell_completion import CompletionItem, get_completion_class

from mmulab import engine
from mmulab.cli.common import CONTEXT

SHELLS = ("bash", "zsh", "fish")
# The variable by which the shell's function asks this program, as click derives it from the name.
ASKED_BY = "_MMULAB_COMPLETE"

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _offer(rows: list[dict[str, Any]], incomplete: str, lists: bool) -> list[CompletionItem]:
    # Of names separated by commas, the last one is being written.
    before, comma, last = incomplete.rpartition(",") if lists else ("", "", incomplete)
    found = [row for row in rows if str(row["name"]).startswith(last)]
    items = [CompletionItem(f"{before}{comma}{row['name']}", help=str(row.get("title", ""))) for row in found]
    return items or [CompletionItem(incomplete, type="file")]


def machine(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A machine's name, or a file."""
    return _offer(engine.machines(), incomplete, lists=False)


def policy(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A policy's name, or a file."""
    return _offer(engine.policies(), incomplete, lists=False)


def machines(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Machines' names, separated by commas."""
    return _offer(engine.machines(), incomplete, lists=True)


def policies(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Policies' names, separated by commas."""
    return _offer(engine.policies(), incomplete, lists=True)


def workload(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A workload's name, or a file."""
    return _offer(engine.workloads(), incomplete, lists=False)


def trace(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A file, a generator or a mix."""
    if incomplete.startswith("mix:"):
        return [CompletionItem(f"mix:{name}") for name in engine.mixes() if f"mix:{name}".startswith(incomplete)]
    if incomplete.startswith("gen:"):
        return [CompletionItem(f"gen:{name}") for name in engine.generators() if f"gen:{name}".startswith(incomplete)]
    return [CompletionItem(incomplete, type="file")]


@click.command(context_settings=CONTEXT)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the Tab-completion script for SHELL.

    bash: mmulab completion bash > ~/.local/share/bash-completion/completions/mmulab

    zsh: mmulab completion zsh > "${fpath[1]}/_mmulab"

    fish: mmulab completion fish > ~/.config/fish/completions/mmulab.fish
    """
    click.echo(script(shell, ctx.find_root().command))


def script(shell: str, root: click.Command) -> str:
    """What makes a shell complete the commands of `root`."""
    found = get_completion_class(shell)
    assert found is not None, "SHELLS are those click knows"
    made = found(root, {}, "mmulab", ASKED_BY)
    # Not `source()`: for bash it runs bash to look at its version.
    return str(made.source_template % made.source_vars())
