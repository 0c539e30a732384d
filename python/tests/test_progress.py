"""The line that moves while a command works: no estimate where none exists, and a label for each time."""

import io
import re

from rich.console import Console

from mmulab.cli import progress


def _line(**update: object) -> str:
    """What one task's line shows."""
    out = Console(file=io.StringIO(), width=160, force_terminal=True, color_system=None)
    bar = progress.bar(out, is_shown=True)
    task = bar.add_task("recording", total=None, done="", rate="")
    bar.update(task, **update)  # type: ignore[arg-type]
    out.print(bar.get_renderable())
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_a_recording_shows_instructions_their_rate_and_what_elapsed() -> None:
    """Nobody knows how long a program takes: nothing is said of what is left."""
    now = {"instructions": 123_456_789, "seconds": 10.0}
    assert (progress.done(now), progress.rate(now)) == ("123 M instructions", "12.3 M instr/s")
    line = _line(done=progress.done(now), rate=progress.rate(now))
    assert "123 M instructions" in line
    assert "12.3 M instr/s" in line
    assert "0:00:00 elapsed" in line
    assert "left" not in line
    assert "-:--" not in line
    assert "%" not in line


def test_a_known_share_has_an_estimate() -> None:
    """Once there is a rate to make it of."""
    out = Console(file=io.StringIO(), width=160, force_terminal=True, color_system=None)
    at = [0.0]
    bar = progress.bar(out, is_shown=True)
    bar.get_time = lambda: at[0]
    task = bar.add_task("running", total=None, done="", rate="")
    for step in range(1, 5):
        at[0] = 10.0 * step
        bar.update(task, total=1.0, completed=0.1 * step, done="", rate="")
    out.print(bar.get_renderable())
    assert isinstance(out.file, io.StringIO)
    line = out.file.getvalue()
    assert re.search(r"40% .*0:00:40 elapsed, 0:01:00 left", line), line


def test_rates_are_of_references_where_these_are_known() -> None:
    assert progress.rate({"refs_per_s": 30e6, "instructions": 5, "elapsed_s": 1.0}) == "30 M refs/s"
    assert progress.rate({"instructions_per_s": 4.5e6}) == "4.5 M instr/s"
    assert progress.rate({}) == progress.done({}) == ""
