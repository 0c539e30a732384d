"""Tables of experiments within pages that people write: each stands between two marks."""

from pathlib import Path

from mmulab import UserError
from mmulab.result import write_text


def marks(experiment: str, name: str) -> tuple[str, str]:
    """What a table stands between."""
    return f"<!-- {name}: written by mmulab reproduce {experiment} -->", f"<!-- end of {name} -->"


def fill(page: Path, experiment: str, tables: dict[str, str]) -> int:
    """Replaces the tables that `page` has marks for; how many these are."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{page}: {error.strerror}\nhint: give a page with marks such as {marks(experiment, 'NAME')}"
        ) from None
    filled = 0
    for name, table in tables.items():
        begin, end = marks(experiment, name)
        before, found, rest = text.partition(begin)
        if not found:
            continue
        _, closed, after = rest.partition(end)
        if not closed:
            raise UserError(f"{page}: '{begin}' has no '{end}' after it")
        text = f"{before}{begin}\n{table}\n{end}{after}"
        filled += 1
    if not filled:
        named = ", ".join(tables)
        raise UserError(
            f"{page}: no place for a table of {experiment} ({named})\nhint: mark one with {begin} and {end}"
        )
    write_text(page, text)
    return filled
