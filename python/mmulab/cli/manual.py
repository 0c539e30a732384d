"""The manual and completion as a package installs them, made from the commands themselves.

    python -m mmulab.cli.manual DIR --> DIR/man/man1/mmulab.1, mmulab-study.1, ..
                                        DIR/bash-completion/completions/mmulab, and those of zsh and fish

scripts/build_backend.py puts them into the wheel below share/.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import rich_click as click

from mmulab import engine
from mmulab.cli.app import app
from mmulab.cli.completion import SHELLS, script
from mmulab.cli.lazy import LazyGroup

# Where shells look below a prefix's share/ (bash-completion, zsh and fish: their install rules).
COMPLETIONS = {
    "bash": "bash-completion/completions/mmulab",
    "zsh": "zsh/site-functions/_mmulab",
    "fish": "fish/vendor_completions.d/mmulab.fish",
}
EXIT_STATUS = (
    ("0", "Success."),
    ("1", "A failure, or a result of a part only."),
    ("2", "A mistake in what was asked for."),
    ("130", "Interrupted."),
)


def files() -> dict[str, str]:
    """All files by their path below share/."""
    found = {f"man/man1/{'-'.join(path)}.1": page(command, path) for path, command in _commands(app, ("mmulab",))}
    return {**found, **{COMPLETIONS[shell]: script(shell, app) for shell in SHELLS}}


def page(command: click.Command, path: tuple[str, ...]) -> str:
    """The manual page of a command, for man(1)."""
    ctx = click.Context(command, info_name=" ".join(path))
    name = "-".join(path)
    about = _paragraphs(command.help or "")
    usage = " ".join(command.collect_usage_pieces(ctx))
    lines = [
        f'.TH {name.upper()} 1 "" "mmulab {engine.version()}" "User Commands"',
        ".SH NAME",
        f"{_roff(name)} \\- {_roff(about[0].rstrip('.'))}" if about else _roff(name),
        ".SH SYNOPSIS",
        f".B {_roff(' '.join(path))}",
        _roff(usage),
        ".SH DESCRIPTION",
    ]
    for text in about:
        lines += [".PP", _roff(text)]
    options = [row for p in command.params if isinstance(p, click.Option) and (row := p.get_help_record(ctx))]
    if options:
        lines.append(".SH OPTIONS")
    for names, text in options:
        lines += [".TP", f".B {_roff(names)}", _roff(_flat(text)) or "\\&"]
    inside = [(inner, below) for below, inner in _commands(command, path) if len(below) == len(path) + 1]
    if inside:
        lines.append(".SH COMMANDS")
    for inner, below in inside:
        lines += [".TP", f".BR {_roff('-'.join(below))} (1)", _roff(_paragraphs(inner.help or "-")[0])]
    lines.append(".SH EXIT STATUS")
    for status, text in EXIT_STATUS:
        lines += [".TP", f".B {status}", text]
    others: list[tuple[str, ...]] = [("mmulab",)] if len(path) > 1 else []
    others += [path[:-1]] if len(path) > 2 else []
    if others:
        lines += [".SH SEE ALSO", ",\n".join(f".BR {_roff('-'.join(other))} (1)" for other in others)]
    return "\n".join(lines) + "\n"


def _commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and all below it, with the words that name each; none that help does not list."""
    yield path, command
    if isinstance(command, click.Group):
        inside = command.loaded() if isinstance(command, LazyGroup) else command.commands
        for name, inner in inside.items():
            if not inner.hidden:
                yield from _commands(inner, (*path, name))


def _paragraphs(text: str) -> list[str]:
    return [flat for part in text.split("\n\n") if (flat := _flat(part))]


def _flat(text: str) -> str:
    return " ".join(text.split())


def _roff(text: str) -> str:
    """A line of text, none of whose characters man(1) takes for a command."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", plain)


def main(directory: Path) -> None:
    """Writes all files below a directory."""
    for name, text in files().items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
