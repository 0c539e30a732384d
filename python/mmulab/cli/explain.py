"""`mmulab explain`: every reference told in full."""

import sys
from typing import Any

import rich_click as click

from mmulab import engine
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, Count, check_option, existing_trace, raise_if_partial, set_option
from mmulab.cli.guests import guest_options, guest_sets
from mmulab.cli.numbers import whole_option
from mmulab.cli.reshape import reshape_of, reshape_options
from mmulab.cli.subject import machine_argument, policy_option, trace_option
from mmulab.study.plan import BASELINE
from mmulab.units import show_count
from mmulab.visible import visible_json


@click.command(context_settings=CONTEXT)
@machine_argument
@trace_option
@policy_option(BASELINE)
@set_option
@click.option(
    "--max-instructions",
    type=Count(),
    help="Stop after this many instructions. The narration is some 200 bytes a reference: give a limit.",
)
@click.option(
    "--tables",
    is_flag=True,
    help="Draw the page tables at the end, with rights, accessed (a) and dirty (d) bits; print no reference.",
)
@click.option("--unmapped", type=click.Choice(["fault", "map", "stop"]), help="As of `mmulab run`.")
@click.option("--seed", type=whole_option("seed"), help="Seed of everything random.")
@check_option
@guest_options
@reshape_options
def explain(
    machine: str,
    trace: str,
    policy: str,
    sets: tuple[str, ...],
    max_instructions: int | None,
    tables: bool,
    unmapped: str | None,
    seed: int | None,
    check: str | None,
    **others: Any,
) -> None:
    """Print what happened to each memory reference, as one JSON object per line.

    Keys: i, pid, kind, va, pa, failed, size, l1, l2, walk, walks, joined, fault, filled, events, cycles. The page
    docs/reference/explain.md describes each. The engine is the one `mmulab run` uses, so the counters of both agree.
    """
    options = engine.Options(
        unmapped=unmapped,
        max_instructions=max_instructions,
        seed=seed,
        check=check,
        reshape=reshape_of(others),
        vms=tuple(existing_trace(vm) for vm in others["vms"]),
        quantum=others["quantum"],
    )
    job = engine.Job(machine, policy, guest_sets(others) + sets, others["host_policy"])
    if tables:
        drawing, result = engine.draw_tables(existing_trace(trace), job, options)
        console.echo(drawing, nl=False)
    else:
        result = engine.explain(existing_trace(trace), job, options, lambda line: _write(line.rstrip("\n")))
    result.check()
    for warning in result.warnings:
        console.warn(warning)
    console.say(f"{show_count(result.references)} references, {show_count(result.walk_count)} walks")
    raise_if_partial([result])


def _write(line: str) -> None:
    sys.stdout.write(visible_json(line))
    sys.stdout.write("\n")
