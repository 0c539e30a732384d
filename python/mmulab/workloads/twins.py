"""Holds each generator against a recording of itself: the same algorithm as a program of its own, in real memory."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from mmulab import UserError, engine, paths

Json = engine.Json


@dataclass(frozen=True)
class Side:
    """What one of the two has: instructions, and loads and stores by where they go."""

    instructions: int
    arrays: int
    elsewhere: int
    stack: int

    @property
    def share_elsewhere(self) -> float:
        """The share of loads and stores that are not the algorithm's: stack, runtime, C library."""
        return self.elsewhere / max(1, self.arrays + self.elsewhere)


@dataclass(frozen=True)
class Twins:
    """A recording beside its generator, from where the data are ready."""

    generator: str
    same_pages: bool
    """Every load and store of the arrays is of the same page, in the same order."""
    same_addresses: bool
    """Of the same address, too."""
    difference: str | None
    """Where they part, if they do."""
    recorded: Side
    generated: Side

    def summary(self) -> str:
        """One line on it."""
        how = "the same addresses" if self.same_addresses else "the same pages" if self.same_pages else self.difference
        ratio = self.generated.instructions / max(1, self.recorded.instructions)
        return (
            f"{self.generator}: {how} in {self.recorded.arrays} loads and stores of its arrays; recorded "
            f"{self.recorded.share_elsewhere:.1%} elsewhere ({self.recorded.stack} of {self.recorded.elsewhere} to the "
            f"stack); {ratio:.2f} times the instructions recorded"
        )


def check(generator: str, directory: Path | None = None) -> Twins:
    """Records the algorithm of `generator` (`gen:NAME?key=value`) as a program and holds the two against each other.

    The recording goes to `directory`, or is thrown away. Raises UserError when something is not there to do it with.
    """
    program, plugin = paths.kernel(), paths.plugin()
    for needed in (program, plugin):
        if not needed.exists():
            raise UserError(f"{needed}: not there\nhint: build it with `make build`")
    with tempfile.TemporaryDirectory() as aside:
        output = (directory or Path(aside)) / "twin.mmt"
        name, _, keys = generator.removeprefix("gen:").partition("?")
        found = engine.record(
            {
                "output": str(output),
                "command": [str(program), name, *filter(None, keys.split("&"))],
                "plugin": str(plugin),
                "fixed_layout": True,
                "env": [],
            }
        )
        if found.get("exit_status"):
            raise UserError(f"{generator}: its program ended with status {found['exit_status']}")
        return _twins(generator, engine.twins(str(output), generator))


def _twins(generator: str, told: Json) -> Twins:
    parts = told["difference"]
    difference = (
        f"after {parts['after']} alike, {parts['recorded'] or 'nothing'} was recorded and "
        f"{parts['generated'] or 'nothing'} generated"
        if parts
        else None
    )
    sides = (Side(**told[side]) for side in ("recorded", "generated"))
    return Twins(generator, told["same_pages"], told["same_addresses"], difference, *sides)
