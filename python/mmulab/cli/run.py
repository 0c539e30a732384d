"""`mmulab run`: one machine, one policy, one trace."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import rich_click as click

from mmulab import UserError, engine
from mmulab.cli import console
from mmulab.cli.common import (
    CONTEXT,
    check_option,
    engine_options,
    error_option,
    existing_trace,
    options_of,
    print_json,
    raise_if_partial,
    run_engine,
    set_option,
)
from mmulab.cli.guests import guest_options, guest_sets
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
@click.option("--touched", is_flag=True, help="Track every page accessed, so that the result has the bloat.")
@click.option(
    "--fault-latency",
    is_flag=True,
    help="Keep the time of every page fault, by kind and size: its distribution, and what it is made of.",
)
@click.option(
    "--code-residency",
    is_flag=True,
    help="Show how much of the code is in memory at the end: how many of the 32 clusters of 64 KB of each 2 MB.",
)
@click.option(
    "--misses",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the references that missed the TLBs to FILE (.mmt or .mmtx): a trace to walk again, without TLBs, "
    "under other page tables.",
)
@click.option(
    "--hints",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Give the kernel the page sizes that `mmulab leshy --out FILE` selected, as the program maps the memory. "
    'Policies with hints.from = "page-sizes" obey them.',
)
@check_option
@guest_options
@engine_options
@error_option
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
    fault_latency: bool,
    code_residency: bool,
    check: str | None,
    misses: Path | None,
    hints: Path | None,
    **others: Any,
) -> None:
    """Run a trace on MACHINE (a name that `mmulab machines` lists, or a TOML file) and count.

    Example: mmulab run zen3-5900x --trace prog.mmt --policy linux-thp --set tlb.STLB.entries=4096
    """
    vms = tuple(existing_trace(vm) for vm in others["vms"])
    own = {"profile": profile, "touched": touched, "fault_latency": fault_latency, "code_residency": code_residency}
    options = options_of(others, **own, check=check, vms=vms, quantum=others["quantum"])
    if hints is not None:
        options = replace(options, reshape={**(options.reshape or {}), "hints": engine.hints(str(hints))})
    job = engine.Job(machine, policy, guest_sets(others) + sets, others["host_policy"])
    with console.progress("running", options.max_instructions) as on_progress:
        if misses is None:
            results = run_engine(existing_trace(trace), [job], options, others["error"], on_progress).results
        elif others["error"] is not None:
            raise UserError("--misses writes those of a whole run: leave out --error")
        else:
            result, written = engine.misses(existing_trace(trace), job, options, str(misses), on_progress)
            results = [result]
    if misses is not None:
        console.say(f"wrote {misses}: {written['references']:,} references that walk, {written['bytes']:,} bytes")
    for result in results:
        result.check()
        for warning in result.warnings:
            console.warn(warning)
        if out:
            saved = result.save(out)
            again = ", in place of the earlier result of the same description" if saved.replaced else ""
            console.say(f"wrote {saved.path}{again}")
        if as_json:
            print_json(result.data)
        elif perf_names:
            print_perf(console.out(), result)
        else:
            print_result(console.out(), result)
    raise_if_partial(results)
