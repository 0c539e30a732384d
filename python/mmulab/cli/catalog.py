"""`mmulab machines`, `policies` and `generators`: what can be named on the command line."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import rich_click as click
from rich.measure import Measurement
from rich.syntax import Syntax
from rich.table import Table

from mmulab import UserError, engine, units
from mmulab.cli import completion, console
from mmulab.cli.common import CONTEXT, print_json, set_option
from mmulab.cli.named import NamedGroup
from mmulab.cli.ranges import range_text
from mmulab.tables import WIDE, plain

# A machine whose page table has what any policy may ask for, such as the contiguous bit.
ANY_POLICY = "neoverse-n1"


def _listing(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    out = console.out()
    whole = _table(rows, with_files=True)
    # A path that is cut helps nobody: `--json` has it.
    fits = Measurement.get(out, out.options.update(width=WIDE), whole).maximum <= out.width
    out.print(whole if fits else _table(rows, with_files=False))


def _table(rows: list[dict[str, Any]], with_files: bool) -> Table:
    table = plain()
    table.add_column("name", no_wrap=True)
    table.add_column("title")
    if with_files:
        table.add_column("file", style="dim")
    for row in rows:
        cells = [row["name"], row.get("title", ""), str(row.get("path", ""))]
        table.add_row(*cells[: len(table.columns)])
    return table


def _show(kind: str, name: str, rows: list[dict[str, Any]], as_json: bool, whole: bool) -> None:
    # What is shown is the half that was asked for.
    job = engine.Job(name, "linux-4k") if kind == "machine" else engine.Job(ANY_POLICY, name)
    if as_json:
        print_json(engine.resolve(job)[kind])
        return
    found = {row["name"]: row.get("path") for row in rows}
    path = Path(name) if "/" in name or name.endswith(".toml") else Path(str(found.get(name) or ""))
    if not path.is_file():
        # Let the engine word the error: it knows the nearest name.
        engine.resolve(job)
        raise UserError(f"{name}: no such {kind}\nhint: `mmulab {kind}s list` lists what there is")
    text = engine.whole_file(kind, name) if whole else path.read_text(encoding="utf-8")
    out = console.out()
    if out.is_terminal:
        # Wrapped: what is cut off would be sources and reasons, which stand on long lines.
        out.print(Syntax(text, "toml", theme="ansi_dark", background_color="default", word_wrap=True))
    else:
        click.echo(text, nl=False)


_JSON = click.option("--json", "as_json", is_flag=True, help="Write JSON.")
_WHOLE = click.option("--whole", is_flag=True, help="Put in what the file inherits from its `base`.")


@click.group(cls=NamedGroup, context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def machines(ctx: click.Context) -> None:
    """The machines there are, each a TOML file with the source of every number."""
    if ctx.invoked_subcommand is None:
        _listing(engine.machines(), as_json=False)


@machines.command("list", context_settings=CONTEXT)
@_JSON
def machines_list(as_json: bool) -> None:
    """List them."""
    _listing(engine.machines(), as_json)


@machines.command("show", context_settings=CONTEXT)
@click.argument("name", shell_complete=completion.machine)
@_WHOLE
@_JSON
def machines_show(name: str, whole: bool, as_json: bool) -> None:
    """Show one machine's file; as JSON, with every default filled in."""
    _show("machine", name, engine.machines(), as_json, whole)


@machines.command("fit", context_settings=CONTEXT)
@click.option(
    "--area-of",
    "machine",
    required=True,
    metavar="MACHINE",
    help="Whose TLBs' area.",
    shell_complete=completion.machine,
)
@click.option(
    "--design",
    metavar="DESIGN",
    help="mix, mix-merged, mix+colt, hash-rehash, skew, zen, colt, colt++ or ideal. Without, only the area.",
)
@click.option(
    "--group",
    "groups",
    type=click.IntRange(1, 512),
    nargs=2,
    default=engine.MIX_GROUPS,
    show_default=True,
    help="MIX: superpages of a bundle, L1 and L2.",
)
@set_option
@_JSON
def machines_fit(
    machine: str, design: str | None, groups: tuple[int, int], sets: tuple[str, ...], as_json: bool
) -> None:
    """Propose TLBs of another design for loads and stores that take no more area than a machine's.

    Prints their tables for a machine file, and as comments the area of both by array, in cells of static memory.

    Example: mmulab machines fit --area-of haswell-mix-baseline --design mix
    """
    found = engine.fit(machine, design, groups, sets)
    if as_json:
        print_json(found)
        return
    for title, part in ((machine, found), (f"{design} in its place", found["fitted"])):
        if part is None:
            continue
        click.echo(f"# {title}")
        for area in part["area"]:
            shape = f"{area['sets']} sets of {area['ways']}"
            click.echo(
                f"#   {area['name']:<12} {shape:<18} {area['entry_bits']:>4} bits each {area['cells']:>10,.0f} cells"
            )
    if found["fitted"]:
        click.echo()
        click.echo(units.toml_tables("tlb", found["fitted"]["tlb"]), nl=False)


@click.group(cls=NamedGroup, context_settings=CONTEXT, invoke_without_command=True)
@click.option("--table", "as_table", is_flag=True, help="Compare them: fault sizes, allocation, promotion, hints.")
@_JSON
@click.pass_context
def policies(ctx: click.Context, as_table: bool, as_json: bool) -> None:
    """The operating system's page policies there are.

    Example: mmulab policies --table
    """
    if ctx.invoked_subcommand is not None:
        if as_table or as_json:
            raise UserError(f"--table or --json before '{ctx.invoked_subcommand}': leave one of them out")
        return
    if not as_table:
        _listing(engine.policies(), as_json)
        return
    rows = engine.policy_table()
    if as_json:
        print_json(rows)
        return
    console.out().print(_compared(rows))


def _compared(rows: list[dict[str, Any]]) -> Table:
    """A row for each policy, with the columns by which papers compare them."""
    table = plain()
    table.add_column("policy", no_wrap=True)
    for title in (
        "transparent",
        "fault sizes",
        "allocation",
        "translations",
        "promotes to",
        "how",
        "hints",
        "virtualised",
    ):
        table.add_column(title)
    for row in rows:
        cells = [
            "yes" if row["transparent"] else "no",
            ", ".join(row["fault_sizes"]),
            row["allocation"],
            ", ".join(row["translation_sizes"]),
            ", ".join(row["promotion_sizes"]) or "-",
            "; ".join(row["promotion"]) or "-",
        ]
        table.add_row(row["name"], *cells, row["hints"], row["virtualised"])
    return table


@policies.command("list", context_settings=CONTEXT)
@_JSON
def policies_list(as_json: bool) -> None:
    """List them."""
    _listing(engine.policies(), as_json)


@policies.command("show", context_settings=CONTEXT)
@click.argument("name", shell_complete=completion.policy)
@_WHOLE
@_JSON
def policies_show(name: str, whole: bool, as_json: bool) -> None:
    """Show one policy's file; as JSON, with every default filled in."""
    _show("policy", name, engine.policies(), as_json, whole)


@click.command(context_settings=CONTEXT)
@click.argument("name", required=False)
@_JSON
def generators(name: str | None, as_json: bool) -> None:
    """Programs that need no recording: gen:NAME?key=value&key=value stands wherever a trace does.

    With NAME, only that one.
    """
    found = engine.generators()
    if name is not None:
        name = name.removeprefix("gen:").partition("?")[0]
        found = {name: _generator(found, name)}
    if as_json:
        print_json(found)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("generator", "key", "default", "meaning"):
        table.add_column(column, no_wrap=column != "meaning")
    for name, about, keys in generator_rows(found):
        table.add_row(f"[bold]{name}[/]", "", "", about)
        for key, kind, default, meaning in keys:
            table.add_row("", key, default, f"{meaning} ({kind})")
    commons = (("all but gpu-*", "And these, whichever it is.", COMMON_KEYS), ("all of gpu-*", "And these.", GPU_KEYS))
    for group, about, keys in commons:
        if any(each.startswith("gpu-") == (keys is GPU_KEYS) for each in found):
            table.add_row(f"[bold]{group}[/]", "", "", about)
            for key, kind, default, meaning in keys:
                table.add_row("", key, default, f"{meaning} ({kind})")
    console.out().print(table)


def _generator(found: engine.Json, name: str) -> engine.Json:
    if name not in found:
        near = get_close_matches(name, found, n=1)
        hint = f"did you mean {near[0]}?" if near else f"these are {', '.join(found)}"
        raise UserError(f"{name}: no such generator\nhint: {hint}")
    schema: engine.Json = found[name]
    return schema


# What every generator takes besides its own keys: key, type and range, default, meaning.
COMMON_KEYS = [
    (
        "part",
        "K/N",
        "0/1",
        "K/N: part K (from 0) of N of the work, as N threads would divide it; together the parts are the whole, "
        "whichever order they run in.",
    ),
    ("populate", "boolean", "false", "Whether all pages of the arrays are there when they are mapped, in order."),
    ("init", "boolean", "false", "Whether the arrays are filled first, by the first thread, a store for each word."),
    (
        "threads",
        "integer, 1 to 1024",
        "1",
        "Threads that do the work; not of pointer-chase, code-chain, svm, freqmine, astar, events and "
        "mcf, in which each step depends on the one before.",
    ),
    ("quantum", "integer, 1 to 1099511627776", "64", "Rounds that a thread does when it is its turn."),
]
# What generators of GPU programs all assume.
GPU_ASSUMED = "Each load or store is assumed to be the last of 4 instructions (instructions)."
# What generators of GPU programs take instead.
GPU_KEYS = [
    ("cores", "integer, 1 to 1024", "16", "Shader cores that the program runs on."),
    (
        "warps",
        "integer, 1 to 1024",
        "32",
        "Warps of a core, at least those of a block; `gpu.warps` of the machine must be the same.",
    ),
    (
        "instructions",
        "integer, 1 to 31",
        "4",
        "Instructions that each load or store of a warp is the last of: assumed, alike of all programs.",
    ),
    ("populate", "boolean", "true", "Whether all pages of the arrays are there, in order: the host copied its input."),
]


def generator_rows(found: engine.Json) -> list[tuple[str, str, list[tuple[str, str, str, str]]]]:
    """Name, purpose and keys (name, type and range, default, meaning) of each generator."""
    rows = []
    for name, schema in found.items():
        keys = [
            (key, _kind(field), str(field.get("default", "")), " ".join(str(field.get("description", "")).split()))
            for key, field in schema.get("properties", {}).items()
        ]
        about = " ".join(str(schema.get("description", "")).split())
        rows.append((name, f"{about} {GPU_ASSUMED}" if name.startswith("gpu-") else about, keys))
    return rows


def _kind(field: dict[str, Any]) -> str:
    return f"{'size' if '$ref' in field else field['type']}{range_text(field)}"
