"""`mmulab leshy`: page sizes for the parts of a program's memory, selected from a profile of its TLB misses."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rich_click as click

from mmulab import UserError
from mmulab.cli import completion, console
from mmulab.cli.common import (
    CONTEXT,
    engine_options,
    existing_trace,
    in_place_of,
    options_of,
    print_json,
    raise_if_partial,
    set_option,
)
from mmulab.cli.numbers import Real
from mmulab.cli.subject import policy_option
from mmulab.engine import Job, Json
from mmulab.leshy.optimum import optimum
from mmulab.leshy.plot import heat_map
from mmulab.leshy.profile import MACHINE, POLICY, Profile, Selection, ask, is_profile, profiled, sampling, select
from mmulab.result import address
from mmulab.study.places import size_bytes
from mmulab.tables import plain
from mmulab.units import show_bytes

# The share of the misses to cover, in 1/100000 (paper 3, section IV-D: 99.99 %).
TARGET = 99_990
WHOLE = 100_000
# Entries of a TLB, at most.
ENTRIES_MAX = 1 << 30
# Hints that the table lists.
SHOWN = 20
SIZES = ("4K", "64K", "2M", "32M", "1G")


class Share(click.ParamType["int"]):
    """A share of the misses such as 99.99%, as 1/100000."""

    name = "PERCENT"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Reads it."""
        if isinstance(value, int):
            return value
        try:
            share = round(float(str(value).strip().removesuffix("%")) * WHOLE / 100)
        except (ValueError, OverflowError):
            share = 0
        if not 0 < share <= WHOLE:
            self.fail(
                f"'{value}' is not a share of the misses: give more than 0% and at most 100%, as 99.99%", param, ctx
            )
        return share


class Entries(click.ParamType["dict[str, Any]"]):
    """Entries for all page sizes (1280), or for some (4K,2M=1536)."""

    name = "N|SIZES=N"

    def convert(self, value: Any, param: Any, ctx: Any) -> Json:
        """Reads it."""
        if isinstance(value, dict):
            return value
        sizes, _, count = str(value).rpartition("=")
        if not count.isdecimal() or not 0 < int(count) <= ENTRIES_MAX:
            self.fail(f"'{value}': give 1 to {ENTRIES_MAX} entries, or sizes with entries, as 4K,2M=1536", param, ctx)
        return {"sizes": list(_sizes(sizes)) if sizes else list(SIZES), "entries": int(count)}


def _sizes(text: str) -> tuple[str, ...]:
    found = tuple(part.strip().upper() for part in text.split(","))
    if wrong := [size for size in found if size not in SIZES]:
        raise click.BadParameter(f"'{wrong[0]}' is not a page size: give {', '.join(SIZES)}")
    return found


@click.command("leshy", context_settings=CONTEXT)
@click.argument("subject", metavar="TRACE|PROFILE", shell_complete=completion.trace)
@click.option(
    "--machine",
    default=MACHINE,
    show_default=True,
    help="The machine that a trace is profiled on.",
    shell_complete=completion.machine,
)
@policy_option(POLICY)
@set_option
@click.option(
    "--entries",
    type=Entries(),
    multiple=True,
    help="TLB entries to use: for all sizes, or for some sizes of a split TLB (repeatable). Default: those of the "
    "machine's last level.",
)
@click.option(
    "--target", type=Share(), default=TARGET, show_default="99.99%", help="Share of the sampled misses to cover."
)
@click.option(
    "--slack",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="Percent of the entries to use.",
)
@click.option(
    "--method",
    type=click.Choice(["artifact", "paper", "optimum"]),
    default="paper",
    show_default=True,
    help="How sizes are selected: the published artifact's heuristic, the paper's Algorithm 1, or integer programming.",
)
@click.option(
    "--weight",
    type=click.Choice(["misses", "latency"]),
    default="misses",
    show_default=True,
    help="What a miss counts for: one, or the cycles of its walk.",
)
@click.option("--sizes", metavar="A,B", help=f"Page sizes to select from, of {', '.join(SIZES)}. Default: all but 1G.")
@click.option(
    "--period",
    type=click.IntRange(1, 1_000_000_000),
    default=1,
    show_default=True,
    help="Sample one of this number of misses (the paper's artifact: 1024). From 256 on, at random intervals.",
)
@click.option(
    "--sample-cycles",
    type=Real(0.0, 1e7),
    default=0.0,
    show_default=True,
    help="Cycles that each sample takes from the program. No source states them.",
)
@click.option(
    "--sampler",
    type=click.Choice(["misses", "accessed"]),
    default="misses",
    show_default=True,
    help="Select by sampled TLB misses, or by how often the accessed bit of each page was set.",
)
@click.option(
    "--accessed-ms",
    type=Real(0.000_001, 1e9),
    help="Also read and clear accessed bits, once in each interval of this length in simulated milliseconds. Default "
    "with --plot and --sampler accessed: 1.",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the hints as JSON.")
@click.option(
    "--save", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Also keep the profile of misses."
)
@click.option(
    "--save-accessed",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also keep the profile of accessed bits.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw misses by 2 MB of memory, accessed bits beside them, and the hints (SVG).",
)
@click.option(
    "--time-limit",
    type=Real(1.0, 1e6),
    default=60.0,
    show_default=True,
    help="Seconds that --method optimum searches before it gives its best selection with a bound.",
)
@click.option("--json", "as_json", is_flag=True, help="Write the hints as JSON on stdout.")
@engine_options
def command(subject: str, method: str, sampler: str, as_json: bool, **given: Any) -> None:
    """Select a page size for each part of a program's memory, so that few TLB entries cover nearly all TLB misses.

    Profiles TRACE on a machine, or takes a PROFILE that --save wrote. The selected sizes are hints for `mmulab run
    --hints`, most important first.

    Example: mmulab leshy 'gen:gups?footprint=1G' --period 1024 --method artifact --out gups.hints
    """
    asked = ask(
        method=method if method != "optimum" else None,
        sizes=None if given["sizes"] is None else list(_sizes(given["sizes"])),
        budgets=list(given["entries"]) or None,
        target=given["target"],
        slack=given["slack"],
        weight=given["weight"],
    )
    with _profile(subject, sampler, given) as profile:
        by = profile.accessed if sampler == "accessed" else profile.misses
        if by is None:
            raise UserError("this profile has no accessed bits: give a trace, or the file of --save-accessed")
        made = optimum(by, asked, given["time_limit"]) if method == "optimum" else select(by, asked)
        if given["out"] is not None:
            again = in_place_of(given["out"], "the file")
            _write(given["out"], made.file())
            console.say(f"wrote {given['out']}: {len(made.hints):,} hints{again}")
        if given["plot"] is not None:
            again = in_place_of(given["plot"], "the file")
            _write(given["plot"], heat_map(profile.misses, profile.accessed, made.hints))
            console.say(f"wrote {given['plot']}{again}")
        if as_json:
            print_json(made.data["file"])
        else:
            _print(made)
        if profile.result is not None:
            raise_if_partial([profile.result])


@contextmanager
def _profile(subject: str, sampler: str, given: dict[str, Any]) -> Iterator[Profile]:
    """The profile of the subject: a file, or that of a run."""
    if is_profile(subject):
        yield Profile(Path(subject), Path(subject) if sampler == "accessed" else None)
        return
    wants_accessed = sampler == "accessed" or given["plot"] is not None or given["save_accessed"] is not None
    accessed_ms = given["accessed_ms"] or (1.0 if wants_accessed else None)
    samples = sampling(given["period"], given["sample_cycles"], accessed_ms)
    options = options_of(given, sampling=samples)
    job = Job(given["machine"], given["policy"], given["sets"])
    with (
        console.progress("profiling", options.max_instructions) as on_progress,
        profiled(existing_trace(subject), job, options, given["save"], given["save_accessed"], on_progress) as profile,
    ):
        assert profile.result is not None
        profile.result.check()
        for warning in profile.result.warnings:
            console.warn(warning)
        yield profile


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def _print(made: Selection) -> None:
    out, source = console.out(), made.data["file"]["source"]
    sizes = ", ".join(f"{count:,} of {size}" for size, count in made.by_size.items())
    out.print(
        f"{sum(made.by_size.values()):,} entries of {source['entries']:,} cover {made.covered:.3%} of "
        f"{made.data['total']:,} {_unit(source)}: {sizes}; {show_bytes(made.bytes)}"
    )
    if made.data["raised"] is not None:
        out.print(f"The target needs more entries than the TLB has: they were raised to {made.data['raised']:,}.")
    if made.gap is not None:
        out.print(
            "No selection is smaller." if made.gap == 0 else f"No selection is smaller by more than {made.gap:.3%}."
        )
    if not made.hints:
        out.print("Pages of the smallest size suffice: there is nothing to hint.")
        return
    table = plain()
    for name in ("size", "mapping", "offset", "address", "misses", "cycles"):
        table.add_column(name, justify="left" if name == "mapping" else "right")
    for hint in made.hints[:SHOWN]:
        start, offset = address(hint["start"]), int(hint["offset"])
        where = f"{'-' if offset < 0 else ''}{abs(offset):#x}"
        table.add_row(
            hint["size"], _named(hint["mapping"]), where, f"{start:#x}", f"{hint['misses']:,}", f"{hint['cycles']:,}"
        )
    out.print(table)
    if (more := len(made.hints) - SHOWN) > 0:
        rest = sum(size_bytes(hint["size"]) for hint in made.hints[SHOWN:])
        out.print(f"and {more:,} more, {show_bytes(rest)} together; --json and --out have all of them")


def _unit(source: Json) -> str:
    if source["sampler"] == "accessed":
        return "accesses seen in epochs"
    return "cycles of sampled walks" if source["weight"] == "latency" else "sampled misses"


def _named(mapping: Json) -> str:
    """A mapping as a reader knows it: with its number from the second of its name on."""
    return str(mapping["name"]) + (f" (number {mapping['nth'] + 1})" if mapping["nth"] else "")
