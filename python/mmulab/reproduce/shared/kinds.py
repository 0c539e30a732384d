"""Kinds of options: what a field of a plan may hold, apart from how a command line writes it (`mmulab.cli.options`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mmulab import UserError

T = TypeVar("T")


@dataclass(frozen=True)
class Flag:
    """True if it is given; with `gives=False` false if it is given."""

    gives: bool = True


@dataclass(frozen=True)
class Whole:
    """A whole number in a range; `count` of them, separated by blanks."""

    least: int
    most: int | None = None
    count: int = 1


@dataclass(frozen=True)
class Instructions:
    """A number of instructions, such as 300M, of at least `least`."""

    least: int


@dataclass(frozen=True)
class Wholes:
    """Whole numbers from 0 to `most`, separated by commas."""

    most: int


@dataclass(frozen=True)
class Names:
    """Names, separated by commas."""


@dataclass(frozen=True)
class Among:
    """Names of things that there are, separated by commas. The plan gets the things."""

    known: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True)
class Choice:
    """One of these words."""

    words: Sequence[str]


@dataclass(frozen=True)
class Trace:
    """A trace of any format, or a generator; `several` if the option may be repeated."""

    several: bool = False


@dataclass(frozen=True)
class Machine:
    """A machine, by name or file."""


@dataclass(frozen=True)
class ThisMachine:
    """A description of the computer that mmulab runs on, by name or file."""


@dataclass(frozen=True)
class Policy:
    """A page policy, by name or file."""


@dataclass(frozen=True)
class Changes:
    """Changes of a machine or policy: KEY=VALUE, repeated."""


@dataclass(frozen=True)
class Heap:
    """A heap allocator with its parameters."""


@dataclass(frozen=True)
class Directory:
    """A directory, made if need be."""


@dataclass(frozen=True)
class Probe:
    """A probe.json that `mmulab probe` wrote. The plan gets its contents."""


@dataclass(frozen=True)
class Engine:
    """All options of the engine, as `mmulab run` has them. The plan gets an `engine.Options`."""


Kind = (
    Flag
    | Whole
    | Instructions
    | Wholes
    | Names
    | Among
    | Choice
    | Trace
    | Machine
    | ThisMachine
    | Policy
    | Changes
    | Heap
    | Directory
    | Probe
    | Engine
)


def among(option: str, names: Sequence[str], known: Mapping[str, T]) -> tuple[T, ...]:
    """What the names stand for, in their order. A name with a comma may come in its parts, as a list on the command
    line has it. Raises UserError for a name that is not known."""
    by_parts = {tuple(part.strip() for part in name.split(",")): value for name, value in known.items()}
    found, rest = [], [part.strip() for name in names for part in name.split(",")]
    while rest:
        most = next((n for n in range(len(rest), 0, -1) if tuple(rest[:n]) in by_parts), 0)
        if not most:
            raise UserError(f"{option}: there is no '{rest[0]}'\nhint: give some of {'; '.join(known)}")
        found.append(by_parts[tuple(rest[:most])])
        del rest[:most]
    return tuple(found)
