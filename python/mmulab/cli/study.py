"""`mmulab study`: the main job."""

import io
import shlex
import shutil
import time
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import rich_click as click
from rich.console import Console

from mmulab import Failure, UserError, engine, guest
from mmulab.cli import completion, console
from mmulab.cli.common import (
    CONTEXT,
    Names,
    Partial,
    engine_options,
    error_option,
    existing_program,
    existing_trace,
    options_of,
    print_json,
    raise_if_partial,
    run_engine,
    set_option,
)
from mmulab.cli.record import TakesProgram, failure_of, make_recording, record_options, tell
from mmulab.result import Result, json_text, write_text
from mmulab.study import DEFAULT_POLICIES, Outcome, Plan, defaults
from mmulab.study import here as forecast_here
from mmulab.study.directory import DESCRIPTION, RECORDING, choose, refuse_loss
from mmulab.study.plan import BASELINE
from mmulab.units import show_count, show_seconds
from mmulab.visible import VisibleConsole


class TakesTraceOrProgram(TakesProgram):
    """Its usage line shows both."""

    program_piece = "[TRACE | [--] PROGRAM [ARGS]...]"

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The pieces of the usage line."""
        return ["[OPTIONS]", self.program_piece]


@click.command(cls=TakesTraceOrProgram, context_settings=CONTEXT)
@click.argument("trace", required=False, shell_complete=completion.trace)
@click.option(
    "--machines",
    type=Names(),
    help="Names or TOML files, or 'all' with base pages of 4 KB. Default: this computer's kind of processor and others "
    "of the program's instruction set, four at most.",
    shell_complete=completion.machines,
)
@click.option(
    "--policies",
    type=Names(),
    help=f"Names or TOML files, or 'all' that each machine can run. Default: {', '.join(DEFAULT_POLICIES)}.",
    shell_complete=completion.policies,
)
@click.option(
    "--code",
    "files",
    is_flag=True,
    help="Also run the other ways to larger pages for code: khugepaged on files, a tmpfs with huge pages, the hugetlb "
    "pool, and on Armv8 blocks of 64 KB (linux-code-khugepaged, -tmpfs, -hugetlb, -folios-contpte).",
)
@set_option
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Default: study-PROGRAM, numbered."
)
@click.option("--replace", is_flag=True, help="Write to DIR even if it holds another study, which is lost.")
@click.option("--json", "as_json", is_flag=True, help="Write all results as JSON in place of the tables.")
@click.option(
    "--here",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="This computer's machine file, by `mmulab probe`: forecast what 2 MB pages save here, and hold that against "
    f"the program's own time. Default: {forecast_here.DEFAULT}, if it is there.",
)
@click.option("--no-here", is_flag=True, help="Leave this computer out.")
@click.option("--no-time", is_flag=True, help="Forecast for this computer without running the program natively.")
@click.option("--try", "tries", is_flag=True, help="Also time the program with and without 2 MB pages, in pairs.")
@engine_options
@error_option
@record_options
@click.pass_obj
def study(
    program: list[str] | None,
    /,
    trace: str | None,
    machines: tuple[str, ...] | None,
    policies: tuple[str, ...] | None,
    files: bool,
    sets: tuple[str, ...],
    out: Path | None,
    replace: bool,
    as_json: bool,
    here: Path | None,
    no_here: bool,
    no_time: bool,
    tries: bool,
    **others: Any,
) -> None:
    """Say what address translation costs a program, and which page sizes would pay.

    Records PROGRAM (or takes TRACE), runs it on every machine under every policy in one pass, and writes a report:
    DIR/report.html, summary.txt, study.json and results/*.json. With PROGRAM, --skip is that of `mmulab record`.

    Example: mmulab study gcc -O2 -c big.c
    """
    if (trace is None) == (program is None):
        raise click.UsageError(
            ("give a trace or a program, not both" if trace else "nothing to study")
            + "\nhint: mmulab study TRACE, or mmulab study PROGRAM ARGS..."
        )
    if trace is not None:
        existing_trace(trace)
    elif program:
        existing_program(program[0])
    if tries and no_time:
        raise click.UsageError("--try times the program\nhint: leave out --no-time")
    described = _described_here(here, no_here, tries, program)
    options = options_of(others, touched=True, profile=True, code_windows=True)
    isa = None if machines and not files else _isa(trace, program, others)
    plan = Plan.make(trace or "", machines, policies, sets, options, isa, files)
    unfit = [name for name in DEFAULT_POLICIES if policies is None and name not in plan.policies]
    if unfit:
        console.warn(f"{', '.join(unfit)} left out: not for the page table of each machine")
    resolved = plan.resolved()  # before anything is recorded: a wrong name should not cost a recording
    replaces = refuse_loss(out, resolved, replace)
    directory = choose(out, _name(trace, program))
    failed = None
    if program is not None:
        recording = directory / RECORDING
        failed = failure_of(_record(program, recording, options.max_instructions, others, plan))
        # The recording begins there.
        plan = Plan(str(recording), plan.machines, plan.policies, plan.sets, replaced(options, skip=None))
        resolved["trace"] = plan.trace
    outcome = _run(plan, others["error"])
    stopped: list[Result] = []
    # A machine of the user's own is known by its file, not by the name that stands in its results.
    given = dict(zip(outcome.machines, plan.machines, strict=True))
    if (relinked := plan.relinked([given[machine] for machine in outcome.to_relink])) and relinked.machines:
        stopped = _relink(outcome, _results(relinked, others["error"], "running the program linked at 2 MB").results)
    if described is not None:
        argv = program if program and not no_time else None
        try:
            outcome.here = _here(plan, described, argv, tries, others)
        except (KeyboardInterrupt, Failure):
            # What the other machines came to is not lost with it.
            _write(directory, outcome, resolved)
            console.say(f"report, without this computer: {directory / 'report.html'}")
            raise
    _write(directory, outcome, resolved)
    if as_json:
        told = {"here": outcome.here.data()} if outcome.here else {}
        every = [*outcome.results, *(r for results in outcome.relinked.values() for r in results)]
        print_json({"results": [r.data for r in every], **told})
    else:
        _show(console.out(), outcome)
    for warning in outcome.warnings:
        console.warn(warning)
    again = ", in place of the earlier study" if replaces else ""
    console.say(f"report: {directory / 'report.html'}{again}")
    raise_if_partial([*outcome.results, *stopped])
    if failed:
        raise Partial(f"{outcome.program}: {failed}; the results in {directory} are of this failed run", False)


def _relink(outcome: Outcome, results: list[Result]) -> list[Result]:
    """Takes the program as linked at 2 MB, and returns what the user stopped of it. Not every recording can be linked
    anew: the study is whole without it."""
    outcome.relink([result for result in results if result.complete])
    for why in sorted(
        {r.ended_message for r in results if not r.complete and r.ended != "interrupted" and r.ended_message}
    ):
        console.say(f"not run as linked at 2 MB: {why}")
    return [result for result in results if result.ended == "interrupted"]


def _record(
    program: list[str], recording: Path, max_instructions: int | None, taken: dict[str, Any], plan: Plan
) -> dict[str, Any]:
    """Records, and says how to study what there is if that ends early. A directory made for nothing is removed."""
    try:
        found = make_recording(program, recording, max_instructions, taken)
        tell(found, recording)
        return found
    except Partial:
        chosen = ["--machines", ",".join(plan.machines), "--policies", ",".join(plan.policies)]
        again = ["mmulab", "study", str(recording), *chosen, *(word for s in plan.sets for word in ("--set", s))]
        console.say(f"study what was recorded with: {shlex.join(again)}")
        raise
    except BaseException:
        if not any(recording.parent.iterdir()):
            recording.parent.rmdir()
        raise


def _name(trace: str | None, program: list[str] | None) -> str:
    """By which a study is known: the program's name, or the trace's."""
    if program:
        return Path(program[0]).name
    return Path(str(trace)).stem if trace and ":" not in trace else str(trace)


def _described_here(given: Path | None, no_here: bool, tries: bool, program: list[str] | None) -> Path | None:
    """This computer's machine file; None if it is to be left out, or was not probed."""
    if no_here and (given or tries):
        raise click.UsageError("--no-here leaves this computer out\nhint: leave out --here and --try")
    if tries and not program:
        raise click.UsageError("--try times a program\nhint: give it after two dashes, in place of a trace")
    found = given or (forecast_here.DEFAULT if forecast_here.DEFAULT.exists() and not no_here else None)
    if found is None:
        if tries:
            raise UserError("--try: this computer is not described\nhint: run `mmulab probe` first")
        return None
    machine = engine.resolve(engine.Job(str(found), BASELINE))["machine"]
    if machine["core"].get("timing") is None:
        text = f"{found}: it has no core.timing, so nothing is forecast for it"
        if given is not None:
            raise UserError(f"{text}\nhint: leave out --here, or add that table (docs/reference/machine.md)")
        console.warn(text)
        return None
    if tries:
        forecast_here.trial_settings()  # before anything is run: what cannot be had should not cost a study
    return found


def _here(plan: Plan, machine: Path, argv: list[str] | None, tries: bool, taken: dict[str, Any]) -> forecast_here.Here:
    """The program on this computer: timed, forecast, and tried."""
    native: tuple[forecast_here.Native | None, str | None] = (None, "the program was not timed")
    keys = ("isa", "cpu", "page_size", "skip", "env", "files", "kernel")
    changed = [f"--{key.replace('_', '-')}" for key in keys if taken.get(key)]
    if argv is not None and changed:
        native = (None, f"it was recorded with {', '.join(changed)}, which a native run does not have")
    elif argv is not None:
        console.say(f"timing {argv[0]} on this computer, {forecast_here.RUNS + 1} times")
        native = forecast_here.time_natively(argv)
    with console.progress("forecasting", plan.options.max_instructions, closing=False) as on_progress:
        found = forecast_here.forecast(plan.trace, machine, native, plan.options, on_progress)
    if argv is None or not tries:
        return found
    with console.progress("timing", closing=False) as on_progress:
        tried = forecast_here.tried(argv, lambda share: on_progress({"fraction": share}))
    return replaced(found, tried=tried)


def _results(plan: Plan, error: float | None, doing: str) -> engine.Ran:
    with console.progress(doing, plan.options.max_instructions, closing=False) as on_progress:
        return run_engine(plan.trace, plan.jobs, plan.options, error, on_progress)


def _run(plan: Plan, error: float | None) -> Outcome:
    start = time.monotonic()
    ran = _results(plan, error, f"running {len(plan.jobs)} machines")
    outcome = Outcome(ran.results)
    outcome.recording = plan.trace
    outcome.code_windows = ran.code_windows
    seconds = time.monotonic() - start
    references = sum(r.references for r in ran.results)
    console.say(
        f"{show_count(references)} references through {len(ran.results)} machines in {show_seconds(seconds)}: "
        f"{show_count(references / max(seconds, 1e-9))} refs/s"
    )
    return outcome


def _write(directory: Path, outcome: Outcome, resolved: dict[str, Any]) -> None:
    # Imported here: the plots' library takes half a second that no other command should pay.
    from mmulab.study.report import html

    linked = [r for found in outcome.relinked.values() for r in found]
    # A linked program is another trace, so that its results are not to be compared with the others.
    for place, results in (("results", outcome.results), ("relinked", linked)):
        written = {result.save(directory / place).path for result in results}
        # Of a study that was here before: what is not of this one would be compared with it.
        for stale in {*(directory / place).glob("*.json")} - written:
            stale.unlink(missing_ok=True)
    write_text(directory / DESCRIPTION, json_text({**resolved, "trace_identity": outcome.results[0].trace_identity}))
    summary = VisibleConsole(file=io.StringIO(), width=console.PIPE_WIDTH, highlight=False, no_color=True)
    _show(summary, outcome, whole=True)
    assert isinstance(summary.file, io.StringIO)
    write_text(directory / "summary.txt", summary.file.getvalue())
    write_text(directory / "report.html", html(outcome))
    if outcome.code_windows is not None:
        write_text(directory / "code-windows.json", json_text(outcome.code_windows))
    if outcome.here is not None:
        write_text(directory / "here.json", json_text(outcome.here.data()))


def _isa(trace: str | None, program: list[str] | None, others: dict[str, Any]) -> str | None:
    """The instruction set of what is studied."""
    if trace is not None:
        return defaults.isa_of_trace(trace)
    found = shutil.which(program[0]) if program else None
    return others.get("isa") or (guest.isa_of(Path(found)) if found else None)


def _show(out: Console, outcome: Outcome, whole: bool = False) -> None:
    from mmulab.study import terminal

    terminal.show(out, outcome, whole)
