"""Which words of a command line are mmulab's, and which are the program's that it records, times or studies.

    mmulab study --machines all ls -la           the first word that is not an option is the program
    mmulab study --machines all -- ls -la        two dashes say so themselves
    mmulab study prog.mmt --machines all         a trace is not a program

As with `perf stat`, everything behind the program's name is the program's.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import rich_click as click

# How an ELF file begins, and files that Linux can start.
ELF = b"\x7fELF"
_PROGRAMS = (ELF, b"#!")


def split(argv: Sequence[str], command: click.Command, takes_trace: bool) -> tuple[list[str], list[str] | None]:
    """The words behind the command's name in two: mmulab's own, and the program with its arguments, None without one.

    `takes_trace`: the first word that is not an option may name a trace.
    """
    at = _first_word(argv, command)
    if at is None:
        return list(argv), None
    if argv[at] == "--":
        return list(argv[:at]), list(argv[at + 1 :])
    if takes_trace and not _is_program(argv[at]):
        if "--" in argv[at:]:
            at = argv.index("--", at)
            return list(argv[:at]), list(argv[at + 1 :])
        return list(argv), None
    return list(argv[:at]), [_path(argv[at]), *argv[at + 1 :]]


def _first_word(argv: Sequence[str], command: click.Command) -> int | None:
    """Where the first word stands that is neither an option nor an option's value, or `--`."""
    values = {
        name: 0 if option.is_flag or option.count else option.nargs
        for option in command.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }
    at = 0
    while at < len(argv):
        word = argv[at]
        if word == "--" or not word.startswith("-") or word == "-":
            return at
        # `--out=DIR` and `-oFILE` bring their value along.
        at += 1 + values.get(word, 0)
    return None


def _is_program(word: str) -> bool:
    """Whether a word that may name a trace names a program."""
    file = Path(word)
    if not file.exists():
        return ":" not in word and shutil.which(word) is not None
    return begins_as(file, _PROGRAMS)


def begins_as(file: Path, beginnings: tuple[bytes, ...]) -> bool:
    """Whether a file that can be read begins with one of these."""
    try:
        with file.open("rb") as opened:
            return opened.read(max(map(len, beginnings))).startswith(beginnings)
    except OSError:
        return False


def _path(word: str) -> str:
    """A program's name as the system finds it: one in this directory by its path, unless PATH has it."""
    if "/" not in word and shutil.which(word) is None and Path(word).is_file():
        return f"./{word}"
    return word
