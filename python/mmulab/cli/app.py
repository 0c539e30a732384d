"""The `mmulab` command: its groups of commands, and what becomes of errors."""

import os
import sys
import traceback
from typing import NoReturn

import rich_click as click
from click.exceptions import Exit, NoArgsIsHelpError

from mmulab import Failure, UserError, engine
from mmulab.cli import (
    catalog,
    compare,
    completion,
    console,
    contiguity,
    docs,
    elf,
    explain,
    leshy,
    microbench,
    pages,
    probe,
    record,
    reproduce,
    run,
    study,
    trace,
    trial,
    workloads,
)
from mmulab.cli.common import CONTEXT, Partial
from mmulab.stopping import as_ctrl_c

# After `--` stands a program with arguments of its own; these are the commands that take one.
TAKE_PROGRAM = ("record", "study", "try")

INTERRUPTED = 130

click.rich_click.COMMAND_GROUPS = {
    "mmulab": [
        {"name": "The main job", "commands": ["study", "compare"]},
        {"name": "Its steps", "commands": ["record", "trace", "run", "explain", "leshy"]},
        {"name": "Experiments", "commands": ["microbench", "contiguity", "pages", "reproduce"]},
        {"name": "This computer", "commands": ["try", "probe"]},
        {"name": "What there is", "commands": ["machines", "policies", "generators", "workloads", "completion"]},
        {"name": "Files of programs", "commands": ["elf"]},
    ]
}


@click.group(context_settings=CONTEXT, no_args_is_help=True)
@click.version_option(engine.build(), prog_name="mmulab")
def app() -> None:
    """What address translation costs a real program, and which of its regions should be mapped with which page size.

    Begin with: mmulab study -- PROGRAM ARGS...
    """


for command in (
    study.study,
    compare.compare,
    record.record,
    trace.trace,
    run.run,
    explain.explain,
    leshy.command,
    contiguity.command,
    pages.command,
    microbench.microbench,
    probe.command,
    trial.command,
    reproduce.reproduce,
    catalog.machines,
    catalog.policies,
    catalog.generators,
    workloads.workloads,
    elf.elf,
    completion.completion,
    docs.docs,
):
    app.add_command(command)


def split_program(argv: list[str]) -> tuple[list[str], list[str] | None]:
    """Parts mmulab's own arguments from the program after `--`, None if there is no `--`."""
    if argv and argv[0] in TAKE_PROGRAM and "--" in argv:
        at = argv.index("--")
        return argv[:at], argv[at + 1 :]
    return argv, None


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


def main() -> NoReturn:
    """The console script."""
    code = invoke(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
