"""The `mmulab` command: its groups of commands, and what becomes of errors."""

import os
import sys
import traceback

import rich_click as click
from click.exceptions import Exit, NoArgsIsHelpError

from mmulab import Failure, UserError, engine
from mmulab.cli import console
from mmulab.cli.argv import split
from mmulab.cli.common import CONTEXT, Partial
from mmulab.cli.lazy import LazyGroup
from mmulab.stopping import as_ctrl_c

# Commands that take a program with arguments of its own, and whether it may be a trace instead.
TAKE_PROGRAM = {"record": False, "study": True, "try": False}

INTERRUPTED = 130

click.rich_click.COMMAND_GROUPS = {
    "mmulab": [
        {"name": "The main job", "commands": ["study", "compare"]},
        {"name": "Its steps", "commands": ["record", "trace", "run", "explain", "leshy"]},
        {"name": "Experiments", "commands": ["sweep", "results", "microbench", "contiguity", "pages", "reproduce"]},
        {"name": "This computer", "commands": ["try", "probe", "doctor"]},
        {"name": "What there is", "commands": ["machines", "policies", "generators", "workloads", "completion"]},
        {"name": "Files of programs", "commands": ["elf", "reorder"]},
    ]
}


# Where the function of each command stands.
COMMANDS = {
    name: f"mmulab.cli.{place}"
    for name, place in {
        "study": "study:study",
        "compare": "compare:compare",
        "record": "record:record",
        "trace": "trace:trace",
        "run": "run:run",
        "explain": "explain:explain",
        "leshy": "leshy:command",
        "sweep": "sweep:command",
        "results": "results:results",
        "contiguity": "contiguity:command",
        "pages": "pages:command",
        "microbench": "microbench:microbench",
        "probe": "probe:command",
        "try": "trial:command",
        "reproduce": "reproduce:reproduce",
        "machines": "catalog:machines",
        "policies": "catalog:policies",
        "generators": "catalog:generators",
        "workloads": "workloads:workloads",
        "elf": "elf:elf",
        "reorder": "reorder:command",
        "doctor": "doctor:command",
        "completion": "completion:completion",
        "docs": "docs:docs",
    }.items()
}


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        console.echo(f"mmulab, version {engine.build()}")
        ctx.exit()


@click.group(cls=LazyGroup, places=COMMANDS, context_settings=CONTEXT, no_args_is_help=True)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version and exit."
)
def app() -> None:
    """What address translation costs a real program, and which of its regions should be mapped with which page size.

    Begin with: mmulab study PROGRAM ARGS...
    """


def split_program(argv: list[str]) -> tuple[list[str], list[str] | None]:
    """Parts mmulab's own arguments from the program and its arguments, None if there is none."""
    if not argv or argv[0] not in TAKE_PROGRAM:
        return argv, None
    command = app.get_command(click.Context(app), argv[0])
    if command is None:
        return argv, None
    own, program = split(argv[1:], command, TAKE_PROGRAM[argv[0]])
    return [argv[0], *own], program


def invoke(argv: list[str]) -> int:
    """Runs one command and says what it exits with. No traceback reaches the user unless asked for."""
    own, program = split_program(argv)
    try:
        with as_ctrl_c():
            app.main(args=own, prog_name="mmulab", standalone_mode=False, obj=program)
    except Exit as end:
        return end.exit_code
    except Partial as partial:
        console.warn(f"partial: {partial}")
        return INTERRUPTED if partial.interrupted else 1
    except (KeyboardInterrupt, click.Abort):
        console.fail("interrupted: nothing was finished")
        return INTERRUPTED
    except NoArgsIsHelpError as nothing:
        nothing.show()
        return 2
    except click.UsageError as mistake:
        path = mistake.ctx.command_path if mistake.ctx else "mmulab"
        console.fail(f"{mistake.format_message()}\nhint: `{path} --help` lists what it takes")
        return 2
    except click.ClickException as mistake:
        console.fail(mistake.format_message())
        return 2
    except UserError as mistake:
        console.fail(str(mistake))
        return 2
    except Failure as failure:
        console.fail(str(failure))
        return 1
    except BrokenPipeError:
        # The reader of stdout has what it wanted (`| head`). Nothing more may be written there, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except BaseException as defect:
        return _defect(defect)
    return 0


def _defect(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if os.environ.get("MMULAB_TRACEBACK"):
        traceback.print_exc()
    message = " ".join(str(error).split()) or type(error).__name__
    console.fail(
        f"internal: {type(error).__name__}: {message}\n"
        "hint: this is a defect of mmulab; set MMULAB_TRACEBACK=1 and repeat the command to see where, and report it"
    )
    return 1
