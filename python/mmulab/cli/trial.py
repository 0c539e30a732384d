"""`mmulab try`: the stopwatch. A program timed natively under several page settings, in alternation."""

import os
import re
import signal
from pathlib import Path
from types import FrameType
from typing import Any

import rich_click as click

from mmulab import Failure, UserError, engine, mosmodel, paths, perf_map, stopwatch
from mmulab.cli import completion, console
from mmulab.cli.common import CONTEXT, Names, Partial, Percent, existing_program, print_json
from mmulab.cli.mosaics import Ask, Asked, model, show
from mmulab.result import json_text, write_text
from mmulab.stopwatch import late, report
from mmulab.stopwatch.mosaics import Pool
from mmulab.stopwatch.process import Program
from mmulab.study.here import machine_of

Json = dict[str, Any]
# The layout of the JSON.
SCHEMA = 1
_ALL = "; ".join(f"{s.name}: {s.about}" for s in stopwatch.SETTINGS if s.size_kb in (None, 64))


class Pattern(click.ParamType["re.Pattern[str]"]):
    """A regular expression with one group."""

    name = "REGEX"

    def convert(self, value: Any, param: Any, ctx: Any) -> re.Pattern[str]:
        """Compiles it."""
        if isinstance(value, re.Pattern):
            return value
        try:
            found = re.compile(str(value))
        except re.error as error:
            self.fail(f"'{value}' is not a regular expression: {error}", param, ctx)
        if found.groups != 1:
            self.fail(f"'{value}' must have one group, the number of seconds: 'took ([0-9.]+) s'", param, ctx)
        return found


@click.command("try", context_settings=CONTEXT)
@click.option(
    "--settings",
    type=Names(),
    default="4k,thp",
    show_default=True,
    help=f"What to compare; the first is what the others are held against. {_ALL}; 16k to 1m likewise.",
)
@click.option(
    "--pairs", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Run each this many times."
)
@click.option(
    "--until",
    type=Percent("a width of an interval: write percent of wall time, like 3%"),
    help="Stop sooner, when the 95 % interval of every saving is this narrow.",
)
@click.option(
    "--mosaics",
    type=click.IntRange(2, 1000),
    help="In place of --settings, compare this many layouts of the program's memory: 2 MB pages for parts of it. From "
    "6 on, simulate the same layouts and fit a model of the program's time to them.",
)
@click.option(
    "--machine",
    help="With --mosaics: the machine that stands for this computer. Default: what `mmulab probe` wrote.",
    shell_complete=completion.machines,
)
@click.option(
    "--forecast",
    "asked",
    type=Asked(),
    multiple=True,
    help="With --mosaics: also say how long the program would take under this policy, and with these keys of the "
    "machine otherwise (linux-thp,tlb.L2-DTLB.entries=6144). Repeatable.",
)
@click.option("--no-model", is_flag=True, help="With --mosaics: only time them.")
@click.option("--bench", metavar="COMMAND", help="The program is a server: time this client, a shell command.")
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Begin the client when this port listens. Default: after 1 s."
)
@click.option(
    "--time",
    "time_in",
    type=Pattern(),
    help="Let the time count that the program prints, not that of the whole run: a regular expression whose group is "
    "the number of seconds.",
)
@click.option("--stdin", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The program's input.")
@click.option(
    "--perf-map",
    "maps",
    is_flag=True,
    help="After each run whose code was moved, add the names of its functions to /tmp/perf-PID.map, for a perf that "
    "watched it.",
)
@click.option("--system", is_flag=True, help="Change the system's settings where needed, and put them back (root).")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write everything to this file as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON instead of the table.")
@click.pass_obj
def command(
    program: list[str] | None,
    settings: tuple[str, ...],
    pairs: int,
    until: float | None,
    mosaics: int | None,
    machine: str | None,
    asked: tuple[tuple[str, tuple[str, ...]], ...],
    no_model: bool,
    bench: str | None,
    port: int | None,
    time_in: re.Pattern[str] | None,
    stdin: Path | None,
    maps: bool,
    system: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Time PROGRAM on this computer under several page settings in alternation, and say what each saves.

    No other program is touched (but with --system), and neither root nor performance counters are needed. What the
    program writes is dropped.

    Example: mmulab try --settings 4k,thp --until 3% -- ./my-program --its arguments
    """
    if not program:
        raise click.UsageError("no program\nhint: mmulab try PROGRAM ARGS...")
    if port is not None and bench is None:
        raise click.UsageError("--port is for servers\nhint: give the client with --bench COMMAND")
    existing_program(program[0])
    if not paths.try_library().exists():
        raise Failure(f"{paths.try_library()}: it is missing\nhint: `make build` puts it there")
    if mosaics is not None and bench is not None:
        raise click.UsageError("--mosaics is for programs that end by themselves\nhint: leave out --bench")
    if time_in is not None and bench is not None:
        raise click.UsageError(
            "--time reads what the program prints, and of a server the client's time counts\nhint: leave out one"
        )
    if mosaics is None and (machine is not None or asked or no_model):
        raise click.UsageError("--machine, --forecast and --no-model are about mosaics\nhint: give --mosaics N")
    if maps and not any(s.moves_code for s in stopwatch.SETTINGS if s.name in settings and mosaics is None):
        moving = ", ".join(setting.name for setting in stopwatch.SETTINGS if setting.moves_code)
        raise click.UsageError(f"--perf-map names code that was moved\nhint: with --settings give one of {moving}")
    what = Program(program, stdin, bench, port, time_in)
    ask = None
    if mosaics is not None and mosaics >= mosmodel.FEWEST and not no_model:
        ask = Ask(machine_of(machine), asked)
        ask.check()
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    pool = None
    if mosaics is None:
        chosen = stopwatch.find(settings, system)
    else:
        # What 2 MB pages need, mosaics need.
        stopwatch.find(("4k", "thp"), system)
        pool = stopwatch.mosaics.pool(what)
        chosen = stopwatch.mosaics.settings(pool, mosaics)
    unnamed: list[str] = []
    with console.progress("timing", closing=False) as on_progress:

        def after(done: int, _state: Json) -> None:
            on_progress({"fraction": done / pairs})

        def name(report: Json) -> None:
            try:
                if maps:
                    perf_map.of_report(report)
            except (UserError, Failure) as error:
                # What was timed is kept whatever happens to names.
                unnamed.append(str(error).splitlines()[0])

        found = stopwatch.measure(what, chosen, stopwatch.Limits(pairs, until), system, after, name)
    for text in dict.fromkeys(unnamed):
        console.warn(f"--perf-map: {text}")
    about = {
        "schema": SCHEMA,
        "version": engine.version(),
        "program": program,
        "bench": bench,
        "time": time_in and time_in.pattern,
    }
    here = {
        "load_average": os.getloadavg()[0],
        "cpus": os.cpu_count() or 1,
        "free_page_reporting": late.reports_free_pages(),
    }
    found = {**about, **here, **found}
    if ask is not None and pool is not None and found["ended"] == "complete":
        found["model"] = _model(what, pool, chosen, found, ask)
    _finish(found, chosen, out, as_json)


def _model(what: Program, pool: Pool, settings: list[stopwatch.Setting], found: Json, ask: Ask) -> Json | None:
    """What was timed is kept whatever happens to its model."""
    try:
        return model(what, pool, settings, found, ask)
    except Failure as failure:
        console.warn(f"no model: {failure}")
        return None
    except KeyboardInterrupt:
        found["ended"] = "interrupted"
        return None


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _finish(found: Json, settings: list[stopwatch.Setting], out: Path | None, as_json: bool) -> None:
    if out is not None:
        write_text(out, json_text(found))
    if as_json:
        print_json(found)
    else:
        report.print_found(console.out(), found)
        if found.get("model"):
            show(console.out(), settings, found["model"])
    for text in report.remarks(found):
        console.warn(text)
    if found["counters"]:
        console.say(f"no performance counters ({found['counters']}): times only")
    done = len(found["settings"][0]["runs"])
    if found["ended"] == "interrupted":
        raise Partial(f"interrupted after {done} pairs", interrupted=True)
    if found["ended"] != "complete":
        kept = f"the {done} pairs before it are kept" if done else "no pair was finished"
        raise Failure(f"{found['ended']}\nhint: {kept}; a program that is timed must end with exit code 0")
