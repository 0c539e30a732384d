"""What commands of experiments share: options, and the choice of a trace or of what stands for paper 4's programs."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from mmulab import engine
from mmulab.cli import completion, console
from mmulab.cli.common import F, existing_trace
from mmulab.reproduce import all_page_sizes

if TYPE_CHECKING:
    from mmulab.reproduce.cells import Store
    from mmulab.reproduce.mix.programs import Program

TRACE = click.option(
    "--trace",
    metavar="FILE",
    help="A trace of any format, or gen:NAME?key=value. Default: what stands for paper 4's programs.",
    shell_complete=completion.trace,
)
RECORDED = click.option(
    "--recorded",
    multiple=True,
    metavar="FILE",
    help="A recording to have among paper 4's programs. Repeatable.",
    shell_complete=completion.trace,
)
QUICK = click.option("--quick", is_flag=True, help="Paper 4's programs small, in seconds: to see what it does.")
MACHINE = click.option(
    "--machine",
    default=all_page_sizes.BASELINE,
    show_default=True,
    help="Whose TLBs, and whose area.",
    shell_complete=completion.machine,
)
OUT = click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Also keep everything there."
)
PAGE = click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also put the tables into this page, between its marks.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Write JSON in place of the tables.")


def work_option(default: str) -> Callable[[F], F]:
    """`--work`, of commands that time programs."""
    return click.option(
        "--work",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(default),
        show_default=True,
        help="Where recordings and timings are kept; what is there is not made again.",
    )


def only_without_trace(**options: Any) -> None:
    """Refuses options, by their names, that are for the paper's programs."""
    for name, given in options.items():
        if given:
            raise click.UsageError(f"--{name} is for the paper's programs: leave out --trace, or --{name}")


def recordings(files: Iterable[str]) -> "tuple[Program, ...]":
    """Recordings, as programs."""
    from mmulab.reproduce.mix import programs

    return tuple(programs.recorded(Path(existing_trace(file))) for file in files)


def store(hear: engine.ProgressCallback, fresh: bool) -> "Store":
    """Where runs are kept, which tells the user of each."""
    from mmulab.reproduce.cells import Figures, Store

    def told(done: int, of: int, name: str, figures: Figures) -> None:
        console.say(f"{done}/{of} {name}: {figures.walks:,} walks")

    return Store(told, hear, fresh)
