"""What an experiment found, as its commands keep it, put it into a page and show it."""

from pathlib import Path
from typing import Any

from mmulab.cli import console
from mmulab.cli.common import Partial, print_json
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
    plot: str | None = None,
    again: str = "run it again",
) -> None:
    """Keeps the tables, the data and the plot in `out`, fills `page` if all was run, and prints.

    Raises Partial where not all was run: `again` says how to go on.
    """
    if out:
        write_text(out / f"{experiment}.md", "\n\n".join(f"## {n}\n\n{table}" for n, table in tables.items()) + "\n")
        write_text(out / f"{experiment}.json", json_text(data))
        if plot is not None:
            write_text(out / f"{experiment}.svg", plot)
        console.say(f"wrote {out}/{experiment}.md" + (" and .json" if plot is None else ", .json and .svg"))
    if page and complete:
        filled = f"wrote {fill(page, experiment, tables)} tables of {page}"
        if plot is not None:
            write_text(page.with_suffix(".svg"), plot)
            filled += f", and {page.with_suffix('.svg')}"
        console.say(filled)
    if as_json:
        print_json(data)
    else:
        print("\n\n".join(f"{name}\n\n{table}" for name, table in tables.items()))
    if not complete:
        raise Partial(f"{experiment}: what was not run is left out; {again} to go on from there", True)
