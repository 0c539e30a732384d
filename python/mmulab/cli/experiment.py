"""Commands made from declarations: an experiment's plan gives the options, their ranges, defaults and help.

dataclass field --kind--> click option --typed--> value --plan(...)--> run --Findings--> DIR, page, JSON, terminal
"""

import dataclasses
import inspect
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import rich_click as click

from mmulab.cli import completion, console
from mmulab.cli.common import (
    CONTEXT,
    Count,
    F,
    Names,
    Numbers,
    Partial,
    engine_options,
    existing_trace,
    in_place_of,
    options_of,
    print_json,
    raise_if_partial,
    set_option,
)
from mmulab.cli.probe import read_probe
from mmulab.cli.reshape import Allocator
from mmulab.cli.subject import policy_option
from mmulab.reproduce.shared import declare, kinds
from mmulab.reproduce.shared.experiment import Experiment, Findings, Session, Show
from mmulab.reproduce.shared.pages import fill
from mmulab.result import write_text
from mmulab.visible import VisibleConsole

_Directory = click.Path(file_okay=False, path_type=Path)


class _Trace(click.ParamType["str"]):
    """A trace that is there."""

    name = "FILE"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Refuses one that is not."""
        return existing_trace(str(value))


class _Probe(click.ParamType["dict[str, Any]"]):
    """The contents of a probe.json."""

    name = "FILE"

    def convert(self, value: Any, param: Any, ctx: Any) -> dict[str, Any]:
        """Reads it."""
        return value if isinstance(value, dict) else read_probe(Path(str(value)))


class _Instructions(Count):
    """A count with a least value."""

    def __init__(self, least: int) -> None:
        self.least = least

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Reads it."""
        count = super().convert(value, param, ctx)
        if count < self.least:
            self.fail(f"'{value}' is too small: give at least {self.least:,}", param, ctx)
        return count


class _Among(Names):
    """Things by their names."""

    def __init__(self, known: kinds.Among) -> None:
        self.known = known.known

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[Any, ...]:
        """Finds them."""
        if isinstance(value, tuple):
            return value
        return kinds.among(param.opts[0], super().convert(value, param, ctx), self.known)


def command_of(experiment: Experiment[Any]) -> click.Command:
    """The command that runs it."""

    def command(**taken: Any) -> None:
        _run(experiment, taken)

    command.__doc__ = inspect.getdoc(experiment.plan)
    for decorate in reversed([*_own(experiment.plan), *_common(experiment), *_engine(experiment.plan)]):
        command = decorate(command)
    return click.command(experiment.name, context_settings=CONTEXT)(command)


def _own(plan: type) -> Iterator[Callable[[F], F]]:
    for field, declared in declare.options_of(plan):
        if not isinstance(declared.kind, kinds.Engine):
            yield _option(field, declared)


def _engine(plan: type) -> Iterator[Callable[[F], F]]:
    if any(isinstance(declared.kind, kinds.Engine) for _, declared in declare.options_of(plan)):
        yield engine_options


def _common(experiment: Experiment[Any]) -> Iterator[Callable[[F], F]]:
    if experiment.fresh:
        yield click.option("--fresh", is_flag=True, help=experiment.fresh)
    yield click.option("--out", type=_Directory, metavar="DIR", help=experiment.out)
    if experiment.page:
        page = click.Path(dir_okay=False, path_type=Path)
        yield click.option("--page", type=page, metavar="FILE", help=experiment.page)
    yield click.option("--json", "as_json", is_flag=True, help=experiment.json)


def _option(field: "dataclasses.Field[Any]", declared: declare.Option) -> Callable[[F], F]:
    """The click option of a field."""
    default = declare.default_of(field)
    given: dict[str, Any] = {"help": declared.help, "required": declared.required}
    if not declared.required:
        given |= {"default": default, "show_default": declared.shown}
    kind = declared.kind
    match kind:
        case kinds.Flag(gives):
            given |= {"is_flag": True, "flag_value": gives}
        case kinds.Whole(least, most, count):
            given |= {"type": click.IntRange(least, most), "nargs": count}
        case kinds.Instructions(least):
            given |= {"type": _Instructions(least)}
        case kinds.Wholes(most):
            given |= {"type": Numbers(most)}
        case kinds.Names():
            given |= {"type": Names(), "show_default": ",".join(default) if declared.shown else False}
        case kinds.Among():
            given |= {"type": _Among(kind)}
        case kinds.Choice(words):
            given |= {"type": click.Choice(list(words))}
        case kinds.Trace(several):
            given |= {"type": _Trace(), "metavar": "FILE", "multiple": several, "shell_complete": completion.trace}
        case kinds.Machine():
            given |= {"shell_complete": completion.machine}
        case kinds.ThisMachine():
            given |= {"shell_complete": completion.machines}
        case kinds.Heap():
            given |= {"type": Allocator(), "default": default["kind"]}
        case kinds.Directory():
            given |= {"type": _Directory}
        case kinds.Probe():
            given |= {"type": _Probe(), "metavar": "FILE"}
        case kinds.Policy():
            return policy_option(default)
        case kinds.Changes():
            return set_option
        case kinds.Engine():
            return engine_options
    name = declared.name or field.name.replace("_", "-")
    return click.option(f"--{name}", field.name, **given)


def _run(experiment: Experiment[Any], taken: dict[str, Any]) -> None:
    out, page, as_json = taken.pop("out"), taken.pop("page", None), taken.pop("as_json")
    fresh = taken.pop("fresh", False)
    plan = plan_of(experiment.plan, taken)
    most = plan.options.max_instructions if "options" in {f.name for f in dataclasses.fields(plan)} else None
    with console.progress(experiment.running, most, closing=False) as on_progress:
        found = experiment.run(plan, Session(on_progress, console.say, fresh, out, page is not None))
    _finish(experiment, found, out, page, as_json)


def plan_of(plan: type, taken: dict[str, Any]) -> Any:
    """The plan that a command's options make."""
    fields: dict[str, Any] = {}
    for field, declared in declare.options_of(plan):
        fields[field.name] = options_of(taken) if isinstance(declared.kind, kinds.Engine) else taken[field.name]
    return plan(**fields)


def _finish(experiment: Experiment[Any], found: Findings, out: Path | None, page: Path | None, as_json: bool) -> None:
    """Keeps what was found in `out`, fills `page` if all was run, and prints. Raises Partial where not all was run."""
    for warning in found.warnings:
        console.warn(warning)
    if out:
        again = in_place_of(out / found.file, "an earlier run's")
        names = found.write(out)
        if found.show and found.shown_in:
            write_text(out / found.shown_in, _text(found.show))
            names.append(found.shown_in)
        console.say(f"wrote {out}/{_listed(names)}{again}")
    if page and found.unfinished is None:
        filled = f"wrote {fill(page, experiment.name, dict(found.tables))} tables of {page}"
        for suffix, plot in found.plots.items():
            beside = page.with_name(f"{page.stem}{suffix}.svg")
            write_text(beside, plot)
            filled += f", and {beside}"
        console.say(filled)
    if as_json:
        print_json(found.data)
    elif found.show:
        found.show(console.out())
    else:
        console.echo("\n\n".join(f"{name}\n\n{table}" for name, table in found.tables.items()))
    raise_if_partial(list(found.results))
    if found.unfinished is not None:
        raise Partial(found.unfinished, True)


def _text(show: Show) -> str:
    """What is printed for people, as a file."""
    text = io.StringIO()
    show(VisibleConsole(file=text, width=console.PIPE_WIDTH, highlight=False, no_color=True))
    return text.getvalue()


def _listed(names: list[str]) -> str:
    """Names of files, those of a folder as the folder."""
    shown = list(dict.fromkeys(f"{name.partition('/')[0]}/" if "/" in name else name for name in names))
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
