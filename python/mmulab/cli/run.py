"""`mmulab run`: one machine, one policy, one trace."""

from pathlib import Path
from typing import Any

import rich_click as click

from mmulab import engine
from mmulab.cli import console
from mmulab.cli.common import (
    CONTEXT,
    check_option,
    engine_options,
    existing_trace,
    options_of,
    print_json,
    raise_if_partial,
    set_option,
)
from mmulab.cli.subject import machine_argument, policy_option, trace_option
from mmulab.study.plan import BASELINE
from mmulab.tables import print_perf, print_result


@click.command(context_settings=CONTEXT)
@machine_argument
@trace_option
@policy_option(BASELINE)
@set_option
@click.option("--json", "as_json", is_flag=True, help="Write the whole result as JSON.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Also keep the result there."
)
@click.option("--perf-names", is_flag=True, help="Print the counts under the names of the machine's own perf events.")
@click.option("--profile", is_flag=True, help="Keep costs by block of code and by 2 MB of memory (in the JSON).")
@click.option("--touched", is_flag=True, help="Track every page touched, so that bloat can be told.")
@check_option
@engine_options
def run(
    machine: str,
    trace: str,
    policy: str,
    sets: tuple[str, ...],
    as_json: bool,
    out: Path | None,
    perf_names: bool,
    profile: bool,
    touched: bool,
    check: str | None,
    **others: Any,
) -> None:
    """Run a trace on MACHINE (a name that `mmulab machines` lists, or a TOML file) and count.

    Example: mmulab run zen3-5900x --trace prog.mmt --policy linux-thp --set tlb.STLB.entries=4096
    """
    options = options_of(others, profile=profile, touched=touched, check=check)
    job = engine.Job(machine, policy, sets)
    with console.progress("running", options.max_instructions) as hear:
        ran = engine.run(existing_trace(trace), [job], options, hear)
    for result in ran.results:
        result.check()
        for warning in result.warnings:
            console.warn(warning)
        if out:
            console.say(f"wrote {result.save(out)}")
        if as_json:
            print_json(result.data)
        elif perf_names:
            print_perf(console.out(), result)
        else:
            print_result(console.out(), result)
    raise_if_partial(ran.results)
