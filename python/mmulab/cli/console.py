"""What is written where: data on stdout, progress and remarks on stderr."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from mmulab.engine import ProgressCallback
from mmulab.units import show_count, show_seconds
from mmulab.visible import VisibleConsole, visible

# Wide enough for the tables when stdout is a file or a pipe, where there is no width to ask for.
PIPE_WIDTH = 140


def out() -> Console:
    """The console for data."""
    return VisibleConsole(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, soft_wrap=False)


def err() -> Console:
    """The console for everything else."""
    return VisibleConsole(stderr=True, highlight=False)


def echo(text: str, nl: bool = True) -> None:
    """A text on stdout as it is, but for what a terminal would obey."""
    sys.stdout.write(visible(text) + ("\n" if nl else ""))


def say(text: str) -> None:
    """A remark."""
    err().print(text, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Something the user should know about."""
    console = err()
    console.print("[bold yellow]warning:[/] ", end="")
    console.print(text, markup=False, soft_wrap=True)


def fail(text: str) -> None:
    """An error, whose lines beginning with `hint:` say what to do."""
    console = err()
    first, *rest = text.splitlines() or ["unknown"]
    console.print("[bold red]error:[/] ", end="")
    console.print(first, markup=False, soft_wrap=True)
    for line in rest:
        if line.startswith("hint:"):
            console.print("[bold cyan]hint:[/]", end="")
            console.print(line[len("hint:") :], markup=False, soft_wrap=True)
        else:
            console.print(line, markup=False, soft_wrap=True)


@contextmanager
def progress(what: str, total_instructions: int | None = None, closing: bool = True) -> Iterator[ProgressCallback]:
    """A line that shows how far the body is while it runs, and one closing line if that is wanted.

    `total_instructions` gives the share done where the work itself does not know it.
    """
    # Imported here: commands that show no progress start sooner.
    from mmulab.cli import progress as shown

    start = time.monotonic()
    last: dict[str, Any] = {}
    bar = shown.bar(err(), sys.stderr.isatty())
    task = bar.add_task(what, total=None, done="", rate="")

    def on_progress(now: dict[str, Any]) -> None:
        last.clear()
        last.update(now)
        fraction = now.get("fraction")
        if fraction is None and total_instructions:
            fraction = min(1.0, now.get("instructions", 0) / total_instructions)
        known = {} if fraction is None else {"total": 1.0, "completed": fraction}
        bar.update(task, done=shown.done(now), rate=shown.rate(now), **known)

    with bar:
        yield on_progress
    if closing and last and sys.stderr.isatty():
        seconds = time.monotonic() - start
        instructions = show_count(last.get("instructions", 0))
        say(f"{what}: {instructions} instructions in {show_seconds(seconds)}, {shown.rate(last)}")
