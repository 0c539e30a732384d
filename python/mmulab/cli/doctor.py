"""`mmulab doctor`: what works on this computer, and what is missing."""

import rich_click as click

from mmulab import Failure
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, print_json


@click.command("doctor", context_settings=CONTEXT)
@click.option("--json", "as_json", is_flag=True, help="Write JSON instead of lines.")
def command(as_json: bool) -> None:
    """Say what of mmulab works on this computer, and what to install or allow for the rest.

    Changes nothing. Exit code 1 if the main job, `mmulab study PROGRAM`, cannot be done.
    """
    # Imported here: `mmulab --help` has no need of it.
    from mmulab import doctor

    found = doctor.findings()
    if as_json:
        print_json({"ready": doctor.is_ready(found), "findings": [one.data() for one in found]})
    else:
        for one in found:
            mark = "ok" if one.works else ("MISSING" if one.weight == doctor.NEEDED else "-")
            console.echo(f"{mark:<8} {one.what}: {one.found}")
            if not one.works:
                console.echo(f"{'':<8}   for: {one.serves}")
            if one.remedy:
                console.echo(f"{'':<8}   remedy: {one.remedy}")
    if not doctor.is_ready(found):
        missing = ", ".join(one.what for one in found if one.weight == doctor.NEEDED and not one.works)
        raise Failure(f"nothing can be recorded and studied here: {missing}\nhint: the remedies stand above")
    if not as_json:
        console.say("\nthe main job works here: mmulab study PROGRAM ARGS...")
