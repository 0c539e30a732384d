"""`mmulab workloads`: real programs as the papers ran them, recorded by recipe."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import rich_click as click
from rich.table import Table
from rich.text import Text

from mmulab import Failure, UserError, engine
from mmulab.cli import completion, console
from mmulab.cli.common import CONTEXT, Count, F, Intervals, in_place_of, print_json
from mmulab.cli.named import NamedGroup
from mmulab.engine import ProgressCallback
from mmulab.result import file_name
from mmulab.tables import plain
from mmulab.units import show_bytes, show_count
from mmulab.workloads import install, table
from mmulab.workloads.allocators import ALLOCATORS
from mmulab.workloads.check import check
from mmulab.workloads.recipe import Recipe
from mmulab.workloads.record import Options, record

STANDING = {
    "faithful": "as in the paper, but for versions",
    "reduced": "the paper's program, with less work or in other surroundings",
    "own": "no paper ran it",
}

# Most characters of a recording's name, of the 255 that file systems take.
NAME_MOST = 150

_JSON = click.option("--json", "as_json", is_flag=True, help="Write JSON.")
_NAME = click.argument("name", shell_complete=completion.workload)
_SET = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a parameter of the workload (`mmulab workloads show NAME` lists them). Repeatable.",
)
_RECORDING: list[Callable[[Any], Any]] = [
    click.option("--port", type=click.IntRange(1, 65535), help="The port a server listens on. Default: a free one."),
    click.option(
        "--allocator", type=click.Choice(list(ALLOCATORS)), help="Give the program another malloc, by LD_PRELOAD."
    ),
    click.option("--no-install", is_flag=True, help="Install and fetch nothing: say what is missing, and end."),
]


def _recording(function: F) -> F:
    for option in reversed(_RECORDING):
        function = option(function)
    return function


def _progress(total: int) -> AbstractContextManager[ProgressCallback]:
    return console.progress("recording", total, closing=False)


@click.group(cls=NamedGroup, context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def workloads(ctx: click.Context) -> None:
    """Real programs as the papers ran them: installed, started, driven, recorded and put away, by a recipe."""
    if ctx.invoked_subcommand is None:
        _listing(as_json=False)


@workloads.command("list", context_settings=CONTEXT)
@_JSON
def workloads_list(as_json: bool) -> None:
    """List them."""
    _listing(as_json)


def _listing(as_json: bool) -> None:
    found = [Recipe.load(row["name"]) for row in engine.workloads()]
    rows = [
        {
            "name": each.name,
            "title": each.json["title"],
            "standing": each.json["standing"],
            "generated": each.trace is not None,
            "mix": each.mix is not None,
            "missing": [] if each.trace else install.missing_packages(each),
            "refused": each.json.get("refused"),
            "path": str(each.path),
        }
        for each in found
    ]
    if as_json:
        print_json(rows)
        return
    listing = plain()
    listing.add_column("name", no_wrap=True)
    listing.add_column("title")
    listing.add_column("standing", no_wrap=True)
    listing.add_column("to install")
    for row in rows:
        lacks = "cannot be recorded here" if row["refused"] else ", ".join(row["missing"])
        listing.add_row(row["name"], row["title"], row["standing"], lacks)
    console.out().print(listing)


@workloads.command("show", context_settings=CONTEXT)
@_NAME
@_SET
@_JSON
def workloads_show(name: str, sets: tuple[str, ...], as_json: bool) -> None:
    """Show a workload: the papers' runs and reports, its parameters and requirements, and the recorded part."""
    recipe = Recipe.load(name, sets)
    if as_json:
        print_json({**recipe.json, "path": str(recipe.path)})
        return
    out = console.out()
    rows = plain()
    rows.show_header = False
    rows.add_column(no_wrap=True)
    rows.add_column()
    for key, value in _shown(recipe):
        rows.add_row(key, Text(value))
    out.print(rows)
    if recipe.json["parameter"]:
        out.print()
        out.print(_parameters(recipe))


def _parameters(recipe: Recipe) -> Table:
    parameters = plain()
    for column in ("parameter", "value", "paper's", "meaning"):
        parameters.add_column(column, no_wrap=column != "meaning")
    for key, each in recipe.json["parameter"].items():
        parameters.add_row(key, Text(str(each["default"])), Text(str(each.get("paper", ""))), Text(each["about"]))
    return parameters


def _shown(recipe: Recipe) -> list[tuple[str, str]]:
    said = recipe.json
    rows = [
        ("workload", f"{recipe.name}: {said['title']}"),
        ("what it is", " ".join(said["about"].split())),
        ("standing", f"{said['standing']}: {STANDING[said['standing']]}"),
        ("because", " ".join(said["why"].split())),
    ]
    for paper in said["paper"]:
        stated = "; ".join(f"{key} {value}" for key, value in paper["stated"].items())
        rows.append((paper["source"], paper["ran"] + (f" [states: {stated}]" if stated else "")))
    if said.get("refused"):
        return [*rows, ("cannot be recorded", said["refused"]), ("file", str(recipe.path))]
    part = ("part", f"{show_count(recipe.instructions)} instructions after {show_count(recipe.skip)}")
    if recipe.mix:
        return [*rows, *_mixed(recipe), ("file", str(recipe.path))]
    if recipe.trace:
        return [*rows, ("generated", recipe.trace), part, ("file", str(recipe.path))]
    needs = [f"{p['package']}{'' if install.is_there(p) else ' (missing)'}" for p in install.packages(recipe)]
    needs += [f"npm {each}" for each in said["install"]["npm"]]
    needs += [f"crate {each['name']} {each['version']}" for each in said["install"]["crate"]]
    needs += [f"maven {each['artifact']}" for each in said["install"]["maven"]]
    rows.append(("needs", ", ".join(needs)))
    rows += [("before", " ".join(step["run"])) for step in said["setup"]]
    rows.append(("recorded", " ".join(recipe.record["run"])))
    if recipe.server:
        rows += [("driven by", " ".join(step["run"])) for step in recipe.server["drive"]]
    return [*rows, part, ("file", str(recipe.path))]


def _mixed(recipe: Recipe) -> list[tuple[str, str]]:
    said = recipe.json["mix"]
    apart = {"processes": "processes of one system", "machines": "each in a virtual machine of its own"}[said["as"]]
    cores = f", on {said['cores']} cores" if said.get("cores") else ""
    ends = {
        "all": "until all have ended",
        "first": "until the first ends",
        "restart": "until all have ended once, those that end before starting again",
    }
    quantum = engine.fill_braces(said["quantum"], recipe.parameters)
    rows = [
        ("mixed", f"{apart}, in turns of {quantum} {said['unit']}{engine.fill_braces(cores, recipe.parameters)}"),
        ("ends", ends[said["end"]]),
    ]
    try:
        members = recipe.mixed()["members"]
    except UserError as missing:
        return [*rows, ("members", str(missing))]
    for each in members:
        part = f"{show_count(each['instructions'])} instructions" if each["instructions"] else "all"
        after = f", {show_count(each['after'])} later" if each["after"] else ""
        trace = each["trace"] if not each["trace"].startswith("mix:{") else "a mix itself"
        rows.append(("member", f"{each['name']}: {trace} ({part}{after})"))
    return [*rows, ("run it by", f"mmulab run MACHINE --trace mix:{recipe.name}")]


@workloads.command("record", context_settings=CONTEXT)
@_NAME
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Default: NAME.mmt; with --set or --allocator, these in the name.",
)
@_SET
@click.option("--skip", type=Count(), help="Begin after this many instructions. Default: the recipe's.")
@click.option("--max-instructions", type=Count(), help="Stop when this many are recorded. Default: the recipe's.")
@click.option(
    "--intervals", type=Intervals(), help="Record the first LENGTH of every EVERY instructions, such as 10M/500M."
)
@click.option("--fixed-layout", is_flag=True, help="Turn address randomisation off, so that recordings repeat.")
@click.option("--heap", is_flag=True, help="Also record what the program asks of its allocator.")
@_recording
@_JSON
def workloads_record(
    name: str,
    output: Path | None,
    sets: tuple[str, ...],
    max_instructions: int | None,
    no_install: bool,
    as_json: bool,
    **taken: Any,
) -> None:
    """Install, start, drive and record a workload, and leave nothing behind but its trace.

    Example: mmulab workloads record redis --set clients=4
    """
    recipe = Recipe.load(name, sets)
    options = Options(instructions=max_instructions, may_install=not no_install, **taken)
    target = output or default_output(recipe.name, sets, options.allocator)
    replaces = in_place_of(target, "an earlier file")
    found = record(recipe, target.resolve(), options, console.say, _progress)
    if as_json:
        print_json(found)
    size = show_bytes(target.stat().st_size)
    console.say(f"recorded {show_count(found['instructions'])} instructions to {target} ({size}){replaces}")
    wanted = max_instructions or recipe.instructions
    if found["instructions"] < wanted:
        console.warn(f"the program ended before {show_count(wanted)} instructions were recorded")
    for warning in [*found["warnings"], *found["lost"]]:
        console.warn(str(warning))


def default_output(name: str, sets: Sequence[str], allocator: str | None) -> Path:
    """NAME.mmt, or with what was changed: a recording of other parameters is another recording."""
    changes = [*sets, *([allocator] if allocator else [])]
    return Path(file_name("--".join([name, *changes]))[:NAME_MOST] + ".mmt")


@workloads.command("check", context_settings=CONTEXT)
@_NAME
@_SET
@_recording
@_JSON
def workloads_check(name: str, sets: tuple[str, ...], no_install: bool, as_json: bool, **taken: Any) -> None:
    """Record a short part of a workload and see whether its pages are what its recipe expects.

    One that is generated is compared with a recording of the same algorithm as a program of its own. Of a mix, all
    members must be there.
    """
    recipe = Recipe.load(name, sets)
    found = check(recipe, Options(may_install=not no_install, **taken), console.say, _progress)
    if as_json:
        print_json(found)
    elif recipe.trace:
        console.echo(found["summary"])
    else:
        rows = plain()
        for column in ("figure", "found", "expected", ""):
            rows.add_column(column, justify="left" if column in ("figure", "") else "right")
        for each in found["figures"]:
            expected = f"at least {each['least']:,}"
            if each["most"] is not None:
                expected = f"{each['least']:,} to {each['most']:,}"
            verdict = "within" if each["ok"] else "OUTSIDE"
            rows.add_row(each["figure"].replace("_", " "), f"{each['found']:,}", expected, verdict)
        console.out().print(rows)
    if recipe.trace:
        if not found["ok"]:
            raise Failure(
                f"{name}: {found['summary'] if recipe.mix else 'the generated and the recorded references differ'}"
            )
        return
    if not found["all_mapped"]:
        raise Failure(f"{name}: the recording refers to memory that it does not map")
    if not found["ok"]:
        outside = ", ".join(each["figure"] for each in found["figures"] if not each["ok"])
        raise Failure(f"{name}: not what its recipe expects: {outside}")


@workloads.command("table", context_settings=CONTEXT)
@click.argument("names", nargs=-1, shell_complete=completion.workload)
@click.option(
    "--traces",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/workloads"),
    show_default=True,
    help="Where recordings are kept; one that is there is not made again.",
)
@click.option("--max-instructions", type=Count(), help="Record no more than this of each.")
@_recording
@_JSON
def workloads_table(
    names: tuple[str, ...], traces: Path, max_instructions: int | None, no_install: bool, as_json: bool, **taken: Any
) -> None:
    """Record all workloads (or those NAMEd) and write a page of what they are, beside what the papers state.

    This is how docs/results/workloads.md is made: mmulab workloads table > docs/results/workloads.md
    """
    recipes = [Recipe.load(row["name"]) for row in engine.workloads() if not names or row["name"] in names]
    known = {recipe.name for recipe in recipes}
    recipes += [Recipe.load(name) for name in names if name not in known]
    traces.mkdir(parents=True, exist_ok=True)
    options = Options(instructions=max_instructions, may_install=not no_install, **taken)
    rows = table.measure(recipes, traces.resolve(), options, console.say, _progress)
    if as_json:
        print_json(rows)
    else:
        console.echo(table.page(rows, recipes), nl=False)
