"""`mmulab record`: what a program refers to, recorded while it runs under QEMU."""

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click

from mmulab import UserError, engine, guest, paths
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, Count, F, Intervals, Partial, in_place_of, print_json
from mmulab.cli.numbers import Size
from mmulab.units import parse_bytes, show_bytes, show_count

ISAS = ("x86-64", "aarch64", "riscv64")
PAGE_SIZES = ("16K", "64K")


class Variable(click.ParamType["tuple[str, str]"]):
    """An environment variable: NAME=VALUE."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        """Reads it."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"'{value}' sets no variable: write NAME=VALUE", param, ctx)
        return name, text


_RECORD_OPTIONS: list[Callable[[Any], Any]] = [
    click.option("--isa", type=click.Choice(ISAS), help="The program's instruction set. Default: read from its file."),
    click.option("--cpu", metavar="MODEL", help="QEMU's CPU model, for programs that trip over emulated extensions."),
    click.option(
        "--page-size",
        type=click.Choice(PAGE_SIZES),
        help="The size of a base page that PROGRAM sees, as on a kernel for aarch64 that has it. Default: 4K.",
    ),
    click.option("--fixed-layout", is_flag=True, help="Turn address randomisation off, so that recordings repeat."),
    click.option(
        "--env",
        "env",
        type=Variable(),
        multiple=True,
        help="Set an environment variable of the program, such as LD_PRELOAD=libjemalloc.so.2. Repeatable.",
    ),
    click.option("--qemu", metavar="FILE", help="The qemu-user to run. Default: found in PATH."),
    click.option(
        "--sites",
        is_flag=True,
        help="Name large blocks of memory and anonymous mappings by the function that asked for them.",
    ),
]


def record_options(function: F) -> F:
    """The options of a recording, which study has too."""
    for option in reversed(_RECORD_OPTIONS):
        function = option(function)
    return function


class GuestFile(click.ParamType["tuple[Path, Path]"]):
    """A file or directory that the guest has: HOST[=GUEST]."""

    name = "HOST[=GUEST]"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[Path, Path]:
        """Reads it."""
        if isinstance(value, tuple):
            return value
        host, _, inside = str(value).partition("=")
        if not Path(host).exists():
            self.fail(f"{host}: no such file or directory", param, ctx)
        absolute = Path(host).absolute()
        if inside and not Path(inside).is_absolute():
            self.fail(f"'{inside}': a path in the guest begins with a slash", param, ctx)
        return absolute, Path(inside) if inside else absolute


class Mthp(click.ParamType["tuple[str, str]"]):
    """When transparent pages of a size between 4K and 2M are given: SIZE=WHEN."""

    name = "SIZE=WHEN"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        """Reads it."""
        if isinstance(value, tuple):
            return value
        size, _, when = str(value).partition("=")
        found = parse_bytes(size)
        if not found or found < 2**13 or found & (found - 1):
            self.fail(f"'{value}': write a size of pages and when they are given, such as 64K=always", param, ctx)
        if when not in guest.MTHP:
            self.fail(f"'{value}': pages are given {', '.join(guest.MTHP[:-1])} or {guest.MTHP[-1]}", param, ctx)
        return guest.mthp(found, when)


class Tuned(click.ParamType["tuple[str, str]"]):
    """A file of the guest's kernel and what is written to it: FILE=VALUE."""

    name = "FILE=VALUE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        """Reads it."""
        if isinstance(value, tuple):
            return value
        path, equals, text = str(value).partition("=")
        if not equals or not path.startswith("/"):
            self.fail(f"'{value}': write a path in the guest and a value: /proc/sys/vm/swappiness=10", param, ctx)
        return path, text


_SYSTEM_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--system",
        is_flag=True,
        help="Record a whole system that runs PROGRAM: Linux under qemu-system, its kernel too.",
    ),
    click.option(
        "--kernel", type=click.Path(dir_okay=False, exists=True), help="Its vmlinuz. Default: Debian's is fetched."
    ),
    click.option(
        "--memory", type=Size("64M", "1T", "1M"), help="The system's memory; its files are in it, too. Default: 1G."
    ),
    click.option("--thp", type=click.Choice(guest.THP), help="When the system gives transparent huge pages."),
    click.option(
        "--mthp",
        "mthp",
        type=Mthp(),
        multiple=True,
        help="When it gives pages of a size between 4K and 2M, such as 64K=always: from Linux 6.8 on. Repeatable.",
    ),
    click.option(
        "--memhog",
        type=click.IntRange(1, 95),
        metavar="PERCENT",
        help="Occupy this percentage of the guest's free memory, at random places.",
    ),
    click.option(
        "--memhog-chunk", type=Size("4K", "1G", "4K"), help="What is held lies in chunks of this size. Default: 2M."
    ),
    click.option(
        "--tune",
        "tune",
        type=Tuned(),
        multiple=True,
        help="Write VALUE to FILE, below /sys or /proc/sys in the system, before PROGRAM starts. Repeatable.",
    ),
    click.option(
        "--file",
        "files",
        type=GuestFile(),
        multiple=True,
        help="A file or directory the system has, besides PROGRAM and its libraries. Repeatable.",
    ),
    click.option("--ready", metavar="COMMAND", help="PROGRAM serves once this succeeds in the system."),
    click.option(
        "--client",
        "clients",
        metavar="COMMAND",
        multiple=True,
        help="Drives PROGRAM in the system: recording begins and ends with it. Repeatable.",
    ),
    click.option("--user-only", is_flag=True, help="Leave out what the kernel itself refers to."),
]


def system_options(function: F) -> F:
    """The options of a recording of a whole system."""
    for option in reversed(_SYSTEM_OPTIONS):
        function = option(function)
    return function


_SYSTEM_KEYS = (
    "kernel",
    "memory",
    "thp",
    "mthp",
    "memhog",
    "memhog_chunk",
    "tune",
    "files",
    "ready",
    "clients",
    "user_only",
)


def _system(program: str, taken: dict[str, Any]) -> tuple[dict[str, Any], str] | None:
    """What the engine takes of them, and the system's instruction set; nothing if a program is recorded alone."""
    given = [
        f"--{key.rstrip('s') if key in ('files', 'clients') else key.replace('_', '-')}"
        for key in _SYSTEM_KEYS
        if taken.get(key)
    ]
    if not taken.get("system"):
        if given:
            raise click.UsageError(f"{given[0]} is for a whole system\nhint: add --system")
        return None
    if taken.get("heap"):
        raise click.UsageError("--heap does not apply to a whole system: its recording contains no heap objects")
    if taken.get("page_size"):
        raise click.UsageError(
            "--page-size does not apply to a whole system: its kernel has the pages it was built for"
        )
    if taken.get("sites"):
        raise click.UsageError("--sites does not apply to a whole system: only a program alone preloads the library")
    found = shutil.which(program)
    isa = str(taken.get("isa") or (guest.isa_of(Path(found)) if found else guest.NATIVE))
    if isa not in guest.ISAS:
        raise click.UsageError(f"--isa {isa} is not for a whole system: {' and '.join(guest.ISAS)} are")
    if taken.get("ready") and not taken.get("clients"):
        raise click.UsageError("--ready says that PROGRAM serves\nhint: name with --client who uses it")
    if taken.get("memhog_chunk") and not taken.get("memhog"):
        raise click.UsageError("--memhog-chunk says how memory is held\nhint: say with --memhog how much")
    vmlinuz = Path(taken["kernel"]) if taken.get("kernel") else guest.kernel(console.say, isa)
    return guest.options(
        vmlinuz=vmlinuz,
        isa=isa,
        memory_mb=int(taken["memory"]) // 2**20 if taken.get("memory") else None,
        thp=taken.get("thp"),
        tune=[*(taken.get("mthp") or ()), *(taken.get("tune") or ())],
        memhog=taken.get("memhog"),
        memhog_chunk=taken.get("memhog_chunk"),
        files=taken.get("files") or (),
        ready=shlex.split(taken.get("ready") or ""),
        clients=[shlex.split(each) for each in taken.get("clients") or ()],
        user_only=bool(taken.get("user_only")),
    ), isa


class TakesProgram(click.RichCommand):
    """A command with a program and its arguments, which its usage line shows."""

    program_piece = "[--] PROGRAM [ARGS]..."

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The pieces of the usage line."""
        return [*super().collect_usage_pieces(ctx), self.program_piece]


def make_recording(
    program: list[str], output: Path, max_instructions: int | None, taken: dict[str, Any]
) -> dict[str, Any]:
    """Records `program` to `output`; what to do first is said if something is missing."""
    if not program:
        raise click.UsageError("no program to record\nhint: mmulab record PROGRAM ARGS...")
    elsewhere = any(Path(program[0]).is_relative_to(inside) for _, inside in taken.get("files") or ())
    if shutil.which(program[0]) is None and not elsewhere:
        raise UserError(f"{program[0]}: no such program\nhint: give a path, or a name that is in PATH")
    qemu = taken.get("qemu")
    if qemu is not None and shutil.which(qemu) is None:
        raise UserError(f"--qemu {qemu}: no such program\nhint: give a path, or a name that is in PATH")
    system = _system(program[0], taken)
    plugin = paths.plugin()
    if not plugin.exists():
        raise UserError(f"{plugin}: the recorder's plugin is not there\nhint: build it with `make build`")
    if not output.parent.is_dir():
        raise UserError(f"{output.parent}: no such directory\nhint: create it, or choose another with -o")
    wanted = {key: taken.get(key) for key in ("skip", "intervals", "isa", "cpu", "qemu", "page_size")}
    spec = {
        "output": str(output),
        "command": program,
        "plugin": str(plugin),
        "fixed_layout": bool(taken.get("fixed_layout")),
        "max_instructions": max_instructions,
        "env": [list(pair) for pair in taken.get("env") or ()],
        "heap": str(paths.heap_library()) if taken.get("heap") else None,
        "sites": str(paths.sites_library()) if taken.get("sites") else None,
        **wanted,
    }
    if system is not None:
        spec["system"], spec["isa"] = system
    with console.progress("recording", max_instructions) as on_progress:
        return engine.record({key: value for key, value in spec.items() if value is not None}, on_progress)


def failure_of(found: dict[str, Any]) -> str | None:
    """How the recorded program failed; nothing if it did not, or was stopped."""
    status = int(found.get("exit_status") or 0)
    ended = found.get("ended")
    if ended == "signal":
        return f"signal {status - 128} ended it" if status > 128 else "a signal ended it"
    return f"it ended with status {status}" if ended == "exited" and status else None


def tell(found: dict[str, Any], output: Path, replaces: str = "") -> None:
    """What was recorded, and what was lost. Raises Partial if that is not what was asked for."""
    size = output.stat().st_size if output.exists() else 0
    instructions = int(found.get("instructions") or 0)
    per = f", {size / instructions:.3f} bytes an instruction" if instructions else ""
    rate = found.get("instructions_per_s")
    speed = f", {show_count(rate)} instructions/s" if rate else ""
    console.say(
        f"recorded {show_count(instructions)} instructions to {output} ({show_bytes(size)}{per}{speed}){replaces}"
    )
    if names := found.get("code_names"):
        console.say(f"kept names of code that the program made: {', '.join(map(str, names))}")
    status = found.get("exit_status")
    if status and found.get("ended") != "interrupted":
        console.warn(f"the program ended with status {status}")
    for warning in [*found.get("warnings", []), *found.get("lost", [])]:
        console.warn(str(warning))
    stopped = {"interrupted": "interrupted", "disk-full": "the disk is full"}.get(str(found.get("ended")))
    if stopped:
        raise Partial(f"{output} holds what was recorded so far ({stopped})", stopped == "interrupted")


@click.command(cls=TakesProgram, context_settings=CONTEXT)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Default: PROGRAM.mmt."
)
@click.option("--max-instructions", type=Count(), help="Stop the program when this many are recorded.")
@click.option(
    "--heap", is_flag=True, help="Also record what the program asks of its allocator, for --heap of run and study."
)
@click.option(
    "--skip",
    type=Count(),
    help="Begin after this many instructions; the trace tells which pages and heap objects were in use then.",
)
@click.option(
    "--intervals",
    type=Intervals(),
    help="Record the first LENGTH of every EVERY instructions, such as 10M/500M; of the rest, only the pages in use.",
)
@record_options
@system_options
@click.option("--json", "as_json", is_flag=True, help="Write what was recorded as JSON.")
@click.pass_obj
def record(
    program: list[str] | None, /, output: Path | None, max_instructions: int | None, as_json: bool, **taken: Any
) -> None:
    """Run PROGRAM under QEMU and record what it refers to and what it does to its address space.

    Threads and children are recorded too. PROGRAM's standard output appears on standard error: standard output is for
    mmulab's own data. Example: mmulab record -o ls.mmt -- ls -l /usr
    """
    program = program or []
    target = output or Path(f"{Path(program[0]).name if program else 'program'}.mmt")
    replaces = in_place_of(target, "an earlier file")
    found = make_recording(program, target, max_instructions, taken)
    if as_json:
        print_json(found)
    tell(found, target, replaces)
