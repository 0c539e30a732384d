"""The line that moves while a command works: what was done, how fast, since when, and for how long if that is known.

recording  ━━━━━━━━━━━━  123 M instructions  4.5 M instr/s  0:00:27 elapsed
running    ━━━━╸─── 45%  123 M instructions   30 M refs/s   0:00:27 elapsed, 0:00:33 left
"""

from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.text import Text

from mmulab.units import show_count


class Times(ProgressColumn):
    """Since when, and how long still: an estimate only where the share that is done is known."""

    def render(self, task: Task) -> Text:
        """The text of one task."""
        said = f"{_clock(task.elapsed or 0.0)} elapsed"
        left = task.time_remaining if task.total is not None else None
        return Text(said if left is None else f"{said}, {_clock(left)} left", style="progress.elapsed")


def bar(console: Console, is_shown: bool) -> Progress:
    """A line for one task, whose fields are `done` and `rate`."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TextColumn("{task.fields[done]}"),
        TextColumn("{task.fields[rate]}"),
        Times(),
        console=console,
        transient=True,
        disable=not is_shown,
    )


def done(now: dict[str, Any]) -> str:
    """Instructions so far; empty for work that does not count them."""
    instructions = now.get("instructions")
    return f"{show_count(instructions)} instructions" if instructions else ""


def rate(now: dict[str, Any]) -> str:
    """References per second, else instructions per second; empty if neither is known."""
    if refs := now.get("refs_per_s"):
        return f"{show_count(refs)} refs/s"
    if per_second := now.get("instructions_per_s"):
        return f"{show_count(per_second)} instr/s"
    # A recording counts no references, and calls its time `seconds`.
    instructions, elapsed = now.get("instructions"), now.get("elapsed_s") or now.get("seconds")
    return f"{show_count(instructions / elapsed)} instr/s" if instructions and elapsed else ""


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))
