"""`mmulab probe`: a description of this computer, found out by timing."""

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import rich_click as click

from mmulab import UserError, _core, engine, probe
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, print_json
from mmulab.cli.numbers import Size
from mmulab.probe import modelled, report
from mmulab.result import json_text, write_text

Json = dict[str, Any]
# The layout of the JSON.
SCHEMA = 1

# The last CPU that a set of CPUs has room for (CPU_SETSIZE of glibc's sched.h).
CPU_MAX = 1023


@click.command("probe", context_settings=CONTEXT)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("probe-this-machine"),
    show_default=True,
    help="Directory for this-machine.toml and probe.json (figures and curves).",
)
@click.option("--quick", is_flag=True, help="Measure a few seconds only: fewer points and repeats.")
@click.option(
    "--repeats", type=click.IntRange(1, 1000), help="Measurements of each point. Default: 9; with --quick, 3."
)
@click.option(
    "--memory", type=Size("64M", "1T", "1M"), help="Use at most this much memory. Default: 1G; with --quick, 512M."
)
@click.option("--cpu", type=click.IntRange(0, CPU_MAX), help="Measure on this CPU. Default: the current one.")
@click.option(
    "--from",
    "source",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Measure nothing: read the curves from FILE, a probe.json.",
)
@click.option(
    "--curves",
    "compares",
    is_flag=True,
    help="Also run the chases of caches and TLBs on the description, in the simulator, and draw both curves into "
    "curves.svg. Takes a minute or two.",
)
@click.option("--json", "as_json", is_flag=True, help="Write figures and curves as JSON instead of the table.")
def command(
    out: Path,
    quick: bool,
    repeats: int | None,
    memory: int | None,
    cpu: int | None,
    source: Path | None,
    compares: bool,
    as_json: bool,
) -> None:
    """Describe this computer by timing: its caches, TLBs, page walks and memory, and a machine file for `mmulab run`.

    Needs neither root nor performance counters. Close other programs first: the interval of each figure shows what they
    disturbed. The machine file inherits from the nearest shipped machine what timing cannot find out, and marks it.

    Example: mmulab probe --quick
    """
    found = read_probe(source) if source is not None else _measure(_effort(quick, repeats, memory), cpu)
    found = {**found, **probe.figures(found["curves"])}
    # Curves are kept even if what follows is interrupted.
    write_text(out / "probe.json", json_text(found))
    machine = out / "this-machine.toml"
    description = probe.described(found)
    write_text(machine, description.toml)
    found["walks"] = list(description.walks.compared)
    write_text(out / "probe.json", json_text(found))
    beside: dict[str, list[modelled.Point]] = {}
    if compares:
        with console.progress("simulating", closing=False) as on_progress:
            beside = modelled.run(found["curves"], machine, lambda share: on_progress({"fraction": share}))
        found["modelled"] = modelled.data(beside)
        write_text(out / "probe.json", json_text(found))
        write_text(out / "curves.svg", modelled.plot(beside))
    if as_json:
        print_json(found)
    else:
        report.print_probe(console.out(), found)
        if beside:
            console.out().print(report.modelled(beside))
    noisy = report.noisy(found)
    if noisy:
        worst = max(noisy, key=lambda name: noisy[name])
        console.warn(
            f"repeats scatter: the middle half of curve {worst} by {noisy[worst]:.0%}, and {len(noisy)} of "
            f"{len(found['noise'])} curves by more than {report.NOISY:.0%}. Other programs, or neighbours on the host, "
            "were busy"
        )
    drawn = f", {out / 'curves.svg'}" if compares else ""
    console.say(f"wrote {machine}{drawn} and {out / 'probe.json'}; try: mmulab run {machine} --trace FILE")


def _effort(quick: bool, repeats: int | None, memory: int | None) -> probe.Effort:
    base = probe.Effort.quick() if quick else probe.Effort()
    given = {"repeats": repeats, "memory": memory}
    return probe.Effort(**{**vars(base), **{key: value for key, value in given.items() if value is not None}})


def _measure(effort: probe.Effort, cpu: int | None) -> Json:
    on = _core.probe_pin(cpu)
    system = probe.describe(effort.memory)
    when = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    with console.progress("probing", closing=False) as on_progress:
        curves = probe.run(effort, lambda name, share: on_progress({"fraction": share, "curve": name}))
    system["load_average_after"] = os.getloadavg()[0]
    about = {"schema": SCHEMA, "version": engine.version(), "when": when, "cpu": on}
    return {**about, "effort": vars(effort), "system": system, "curves": curves}


def read_probe(path: Path) -> Json:
    """A probe.json. Raises UserError for another file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}\nhint: give a probe.json that `mmulab probe` wrote") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not JSON ({error})\nhint: give a probe.json that `mmulab probe` wrote") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not {"curves", "system", "when"} <= found.keys():
        raise UserError(
            f"{path}: not a probe of layout {SCHEMA}\nhint: give a probe.json that this version of `mmulab probe` wrote"
        )
    return found
