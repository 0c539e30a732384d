"""Options of experiments: `option` declares one at a field of a plan; those that several plans have stand here.

A field without such a declaration is for programs that build the plan themselves, and not on the command line.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import engine
from mmulab.reproduce.shared.kinds import (
    Changes,
    Directory,
    Engine,
    Flag,
    Instructions,
    Kind,
    Machine,
    Policy,
    ThisMachine,
    Trace,
)

_KEY = "option"


@dataclass(frozen=True)
class Option:
    """How a field stands on the command line."""

    kind: Kind
    help: str | None = None
    # Its name there without the dashes, where it is not the field's.
    name: str = ""
    # Whether the help shows the field's default.
    shown: bool = False
    required: bool = False


def option(
    default: Any, kind: Kind, help: str | None = None, *, name: str = "", shown: bool = False, required: bool = False
) -> Any:
    """A field of a plan that is an option of its command."""
    metadata = {_KEY: Option(kind, help, name, shown, required)}
    if required:
        return dataclasses.field(metadata=metadata)
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def options_of(plan: type) -> Iterator[tuple["dataclasses.Field[Any]", Option]]:
    """The fields of a plan that are options, in their order."""
    for field in dataclasses.fields(plan):
        if _KEY in field.metadata:
            yield field, field.metadata[_KEY]


def default_of(field: "dataclasses.Field[Any]") -> Any:
    """What a field holds that was not given; None of one that must be given."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def trace(help: str, required: bool = False) -> Any:
    """`--trace`."""
    return option(None, Trace(), help, required=required)


def recorded() -> Any:
    """`--recorded`: recordings beside the programs that stand for paper 4's."""
    return option((), Trace(several=True), "A recording to have among paper 4's programs. Repeatable.")


def quick(help: str = "Small programs, in seconds: to see what it does.") -> Any:
    """`--quick`."""
    return option(False, Flag(), help)


def machine(default: str, help: str) -> Any:
    """`--machine`."""
    return option(default, Machine(), help, shown=True)


def this_machine(help: str) -> Any:
    """`--machine`, of experiments that time programs on this computer."""
    return option(None, ThisMachine(), help)


def policy(default: str) -> Any:
    """`--policy`."""
    return option(default, Policy(), "The operating system's page policy.", shown=True)


def sets() -> Any:
    """`--set`."""
    return option((), Changes(), name="set")


def engine_options() -> Any:
    """`--max-instructions`, `--seed` and all others that `mmulab run` has."""
    return option(engine.Options, Engine())


def work(default: str) -> Any:
    """`--work`, of experiments that time programs on this computer."""
    return option(
        Path(default),
        Directory(),
        "Where recordings and timings are kept; what is there is not made again.",
        shown=True,
    )


def at_most(default: int | None, help: str) -> Any:
    """`--max-instructions`, of experiments that time programs on this computer."""
    return option(default, Instructions(1_000_000), help, name="max-instructions", shown=default is not None)
