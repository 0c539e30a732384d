"""What an experiment found, as its commands keep it, put it into a page and show it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmulab.cli import console
from mmulab.cli.common import Partial, in_place_of, print_json
from mmulab.reproduce.pages import fill
from mmulab.result import json_text, write_text


def finish(
    experiment: str,
    tables: dict[str, str],
    data: Any,
    *,
    out: Path | None,
    page: Path | None,
    as_json: bool,
    complete: bool,
    plots: Mapping[str, str] | None = None,
    again: str = "run it again",
) -> None:
    """Keeps the tables, the data and the plots in `out`, fills `page` if all was run, and prints.

    `plots` are by what their files' names end with, after the experiment's or the page's: nothing, if there is but one.
    Raises Partial where not all was run: `again` says how to go on.
    """
    if out:
        again = in_place_of(out / f"{experiment}.json", "an earlier run's")
        write_text(out / f"{experiment}.md", "\n\n".join(f"## {n}\n\n{table}" for n, table in tables.items()) + "\n")
        write_text(out / f"{experiment}.json", json_text(data))
        for suffix, plot in (plots or {}).items():
            write_text(out / f"{experiment}{suffix}.svg", plot)
        console.say(f"wrote {out}/{experiment}.md" + (", .json and .svg" if plots else " and .json") + again)
    if page and complete:
        filled = f"wrote {fill(page, experiment, tables)} tables of {page}"
        for suffix, plot in (plots or {}).items():
            beside = page.with_name(f"{page.stem}{suffix}.svg")
            write_text(beside, plot)
            filled += f", and {beside}"
        console.say(filled)
    if as_json:
        print_json(data)
    else:
        console.echo("\n\n".join(f"{name}\n\n{table}" for name, table in tables.items()))
    if not complete:
        raise Partial(f"{experiment}: what was not run is left out; {again} to go on from there", True)
