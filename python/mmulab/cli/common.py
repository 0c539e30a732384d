"""Options and helpers that several commands share."""

import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click

from mmulab import Failure, UserError, engine, sampling, units
from mmulab.cli.argv import ELF, begins_as
from mmulab.cli.numbers import COUNT_MAX, real_option, whole_option
from mmulab.cli.reshape import reshape_of, reshape_options
from mmulab.engine import Job, Options, ProgressCallback, Ran, mix_of
from mmulab.engine import trace as find_trace
from mmulab.result import Result, json_text

# What a trace is called that says how its thread blocks are dealt out.
ACCEL_SIM = "accel-sim:"

# Threads that run machines, at most; more than there are machines are not used.
THREADS_MAX = 1024

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 120}

F = TypeVar("F", bound=Callable[..., Any])


class Partial(Exception):
    """The command wrote what it had, but that is not all that was asked for."""

    def __init__(self, message: str, interrupted: bool) -> None:
        """`interrupted`: by the user, rather than by damage or lack of memory."""
        super().__init__(message)
        self.interrupted = interrupted


def raise_if_partial(results: list[Result]) -> None:
    """Raises Partial if any run did not come to its end, and Failure if all did and their trace has a damaged one."""
    short = [r for r in results if not r.complete]
    if short and all(r.ended == "trace-end-damaged" for r in short):
        raise Failure(f"{short[0].ended_message}\nhint: `mmulab trace convert` writes a whole copy of it")
    if short:
        reasons = sorted({f"{r.ended}: {r.ended_message}" if r.ended_message else r.ended for r in short})
        which = "all figures" if len(short) == len(results) else ", ".join(r.label for r in short)
        raise Partial(
            f"{which} cover only what ran ({'; '.join(reasons)})", any(r.ended == "interrupted" for r in short)
        )


class Count(click.ParamType["int"]):
    """A count, such as 2000000, 500k or 10M (powers of 1000), of as much as the engine can count."""

    name = "COUNT"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Reads it."""
        if isinstance(value, int):
            return value
        count = units.parse_count(str(value))
        if count is None:
            self.fail(
                f"'{value}' is not a count; write a number, optionally with k, M or G (10^3, 10^6, 10^9)", param, ctx
            )
        if count > COUNT_MAX:
            self.fail(f"'{value}' is too large: give 0 to {COUNT_MAX}", param, ctx)
        return count


class Intervals(click.ParamType["tuple[int, int]"]):
    """Intervals of a run in instructions: LENGTH/EVERY, such as 10M/500M."""

    name = "LENGTH/EVERY"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        """Reads it."""
        if isinstance(value, tuple):
            return value
        first, _, second = str(value).partition("/")
        length, every = units.parse_count(first), units.parse_count(second)
        if not length or not every or not length < every <= COUNT_MAX:
            self.fail(f"'{value}': write how many of how many instructions, such as 10M/500M", param, ctx)
        return length, every


class Percent(click.ParamType["float"]):
    """A share like 3%, more than 0 and less than all."""

    name = "PERCENT"

    def __init__(self, meant: str, least: float = 0.0, most: float = 1.0) -> None:
        """`meant`: what it is and how to write it, said of a mistake. `least` and `most`: bounds, as shares."""
        self.meant, self.least, self.most = meant, least, most

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Reads it as a share."""
        if isinstance(value, float):
            return value
        try:
            share = float(str(value).strip().removesuffix("%")) / 100
        except ValueError:
            share = 0.0
        if not (0 < share < 1 and self.least <= share <= self.most):
            self.fail(f"'{value}' is not {self.meant}", param, ctx)
        return share


class Names(click.ParamType["tuple[str, ...]"]):
    """Names separated by commas."""

    name = "A,B"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Reads them."""
        if isinstance(value, tuple):
            return value
        names = tuple(part.strip() for part in str(value).split(",") if part.strip())
        if not names:
            self.fail("give at least one name", param, ctx)
        return names


class Numbers(click.ParamType["tuple[int, ...]"]):
    """Whole numbers separated by commas, from 0 to a most."""

    name = "N,N"

    def __init__(self, most: int) -> None:
        self.most = most

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        """Reads them."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isdecimal() and int(part) <= self.most for part in parts):
            self.fail(f"{value!r}: give whole numbers from 0 to {self.most}, separated by commas", param, ctx)
        return tuple(map(int, parts))


def existing_program(name: str) -> None:
    """Refuses a program that cannot be started, before anything is done for it."""
    if shutil.which(name) is not None:
        return
    if Path(name).is_file():
        raise UserError(f"{name}: not a program: it may not be executed\nhint: make it so with `chmod +x {name}`")
    raise UserError(f"{name}: no such program\nhint: give a path, or a name that is in PATH")


def in_place_of(path: Path, what: str) -> str:
    """The end of a sentence that says what was written: that `path` was there already. Ask before writing."""
    return f", in place of {what} that was there" if path.exists() else ""


def print_json(value: Any) -> None:
    """Writes data on stdout as JSON."""
    sys.stdout.write(json_text(value))


_ENGINE_OPTIONS = [
    click.option(
        "--unmapped",
        type=click.Choice(["fault", "map", "stop"]),
        help="A reference to memory that is not mapped: count a fault, map memory there, or stop the run. "
        "Default: fault if the trace contains mappings, else map.",
    ),
    click.option(
        "--skip",
        type=Count(),
        help="Run this many instructions first and leave them out of all counts: TLBs, caches and page tables are in "
        "use when counts begin.",
    ),
    click.option("--max-instructions", type=Count(), help="Stop after this many instructions, those of --skip aside."),
    click.option(
        "--base-cpi", type=real_option("base_cpi"), help="Cycles per instruction without translation, measured by you."
    ),
    click.option(
        "--savable",
        type=real_option("savable"),
        help="Count this fraction of walk cycles as stall time for walks, instead of modelling how much of them the "
        "core hides.",
    ),
    click.option(
        "--timing",
        is_flag=True,
        default=None,
        help="Model time by the machine's out-of-order core (core.timing), with data and code in its caches. "
        "Default: a base CPI and stalls, a quick look.",
    ),
    click.option("--seed", type=whole_option("seed"), help="Seed of everything random: placement in memory."),
    click.option(
        "--threads",
        type=click.IntRange(1, THREADS_MAX),
        help="Threads that run machines. Default: as many as are useful.",
    ),
]


def engine_options(function: F) -> F:
    """The options every command that runs machines has."""
    function = reshape_options(function)
    for option in reversed(_ENGINE_OPTIONS):
        function = option(function)
    return function


def options_of(taken: dict[str, Any], **fixed: Any) -> Options:
    """The engine's options out of a command's."""
    if taken.get("error") is not None and not taken["timing"]:
        raise UserError("--error is of the time that --timing models: give both, or neither")
    names = ("unmapped", "skip", "max_instructions", "base_cpi", "savable", "timing", "seed", "threads")
    return Options(**{name: taken[name] for name in names}, reshape=reshape_of(taken), **fixed)


def run_engine(
    trace: str, jobs: Sequence[Job], options: Options, error: float | None, on_progress: ProgressCallback | None
) -> Ran:
    """Runs all jobs: in time by samples if an error is given."""
    if error is None:
        return engine.run(trace, jobs, options, on_progress)
    return sampling.run(trace, jobs, options, error, on_progress)


def error_option(function: F) -> F:
    """`--error`, as run and study take it."""
    return click.option(
        "--error",
        type=Percent("an error of the time: write percent, from 0.01% to 50%", 0.0001, 0.5),
        help="With --timing: run only samples in time, as many as an error of this share of the time needs (1%, with "
        "95 % confidence). Counts stay exact.",
    )(function)


def check_option(function: F) -> F:
    """`--check`, as run and explain take it."""
    return click.option(
        "--check",
        type=click.Choice(["translations"]),
        help="After every reference and event, check the TLBs and the page tables. No TLB may hold a stale "
        "translation, and the page tables must equal those of the same run without coalescing. Several times slower.",
    )(function)


def set_option(function: F) -> F:
    """`--set`, as run, explain and study take it."""
    return click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change a key of the machine (tlb.STLB.entries=2048) or policy (policy.thp.zero_page=false). Repeatable.",
    )(function)


def _file_of(trace: str) -> str:
    """The file of a trace that may say how it is read: `accel-sim:FILE?cores=16`."""
    return trace.removeprefix(ACCEL_SIM).partition("?")[0] if trace.startswith(ACCEL_SIM) else trace


def existing_trace(trace: str) -> str:
    """Refuses a missing trace file or mix, and a program, before anything else is done; `gen:` texts pass."""
    if mix_of(trace) is not None:
        find_trace(trace)
        return trace
    if trace.startswith("gen:"):
        return trace
    file = Path(_file_of(trace))
    is_there = file.exists()
    if begins_as(file, (ELF,)) if is_there else shutil.which(trace) is not None:
        name = shlex.quote(_file_of(trace))
        raise click.UsageError(
            f"{trace}: a program, not a trace\nhint: `mmulab study {name}` records it and says what to do; or record "
            f"it with `mmulab record -o {shlex.quote(file.name)}.mmt -- {name}`, and give {file.name}.mmt"
        )
    if not is_there:
        raise click.UsageError(
            f"{trace}: no such trace\nhint: record one with `mmulab record -o FILE -- PROGRAM ARGS...`, "
            "or use a generator such as 'gen:gups?footprint=1G' (`mmulab generators`), "
            "or a mix such as mix:two-gups (`mmulab workloads`)"
        )
    return trace
