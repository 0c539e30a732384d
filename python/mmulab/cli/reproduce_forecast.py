"""`mmulab reproduce forecast`: forecasts of time held against a stopwatch, on this computer."""

from pathlib import Path
from typing import Any

import rich_click as click

from mmulab.cli import completion, console, programs
from mmulab.cli.common import CONTEXT, Names, Partial, print_json, set_option
from mmulab.cli.probe import read_probe
from mmulab.result import json_text, write_text


@click.command("forecast", context_settings=CONTEXT)
@click.option(
    "--probe",
    "probed",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="probe.json of `mmulab probe`, of the same hour. What neighbours on the host take (clock, share of the core, "
    "third-level cache) is measured anew around each program.",
)
@click.option(
    "--machine",
    shell_complete=completion.machines,
    help="A description of this computer, in place of --probe: the same for all programs.",
)
@set_option
@click.option("--cases", type=Names(), help="Only these programs. Default: all.")
@click.option(
    "--pairs", type=click.IntRange(6, 1000), default=60, show_default=True, help="Most pairs of runs of a program."
)
@click.option(
    "--max-instructions", type=click.IntRange(1_000_000), help="Model this many instructions of a program at most."
)
@programs.work_option("build/forecast")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the processor's JSON there, and forecast.md of all processors' files in it.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON instead of the page's section.")
def forecast(
    probed: Path | None,
    machine: str | None,
    sets: tuple[str, ...],
    cases: tuple[str, ...] | None,
    pairs: int,
    max_instructions: int | None,
    work: Path,
    out: Path | None,
    as_json: bool,
) -> None:
    """Time programs on this computer under 4K and 2 MB pages, model the same on its description, and say how far the
    model is off.

    Timing alternates until the 95 % interval of the saving is below 3 points, or --pairs are done. Recordings take some
    GB of disk, and all of it an hour. Stop other programs meanwhile.

    Example: mmulab reproduce forecast --probe probe-this-machine/probe.json --out docs/results
    """
    from mmulab import forecast as experiment
    from mmulab.forecast import page, told
    from mmulab.forecast.cases import find
    from mmulab.stopwatch import Limits

    if (probed is None) == (machine is None):
        raise click.UsageError(
            "give --probe FILE, or --machine in its place\nhint: `mmulab probe` writes probe-this-machine/probe.json"
        )
    found_here = read_probe(probed) if probed is not None else None
    described = machine if machine is not None else str(_described(work, found_here or {}))
    model = told.Model(described, sets, max_instructions)
    plan = experiment.Settled(find(cases or ()), model, Limits(pairs, 0.03), found_here, work)
    with console.progress("timing and modelling", closing=False) as hear:
        found = experiment.run(plan, lambda share: hear({"fraction": share}))
    if out is not None:
        name = out / page.file_name(found["processor"])
        write_text(name, json_text(found))
        write_text(out / "forecast.md", page.write(out))
        console.say(f"wrote {name} and {out}/forecast.md")
    if as_json:
        print_json(found)
    else:
        console.echo(page.section(found))
    if not found["complete"]:
        raise Partial(f"interrupted after {len(found['cases'])} programs; run it again to go on from there", True)


def _described(work: Path, found: dict[str, Any]) -> Path:
    """The machine file that a probe's figures make."""
    from mmulab import probe

    path = work / "this-machine.toml"
    write_text(path, probe.described({**found, **probe.figures(found["curves"])}).toml)
    return path
