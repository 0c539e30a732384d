"""The table of 13 columns for terminals, spreadsheets and browsers."""

import csv
import io
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from mmulab.reproduce.pte_coalescing import published
from mmulab.reproduce.pte_coalescing.columns import COLUMNS, GROUPS, Column
from mmulab.reproduce.pte_coalescing.counters import ROWS
from mmulab.reproduce.pte_coalescing.directions import Difference
from mmulab.reproduce.pte_coalescing.table import Table, blocks, shown
from mmulab.tables import plain
from mmulab.visible import VisibleConsole


def show(out: Console, table: Table, workload: str | None = None) -> None:
    """Prints it: at once where it fits, by binary and processor where the paper's figures stand beside."""
    first = table.results[COLUMNS[0].key]
    out.print(f"[bold]{escape(table.program)}[/]: {first.instructions:,} instructions\n", soft_wrap=True)
    for result in table.partial:
        out.print(f"[bold yellow]PARTIAL[/] {escape(f'{result.label} ({result.ended})')}", soft_wrap=True)
    if workload:
        out.print(f"In brackets: {published.WORKLOADS[workload]}.\n", soft_wrap=True)
    if workload or (out.is_terminal and out.width < WIDE):
        for about, columns in blocks():
            _print(out, about, columns, table, published.table(workload) if workload else None)
    else:
        for key, about in GROUPS.items():
            out.print(f"{key}: {about}")
        _print(out, "", COLUMNS, table, None)
    for note in table.notes:
        out.print(escape(note), soft_wrap=not out.is_terminal)
    if workload:
        _differences(out, *table.differences(workload))


def _print(
    out: Console, about: str, columns: Sequence[Column], table: Table, paper: published.Published | None
) -> None:
    text = plain()
    text.add_column(about or "counter", no_wrap=True)
    for column in columns:
        text.add_column(column.config if about else column.key, justify="right", no_wrap=True)
    for row in ROWS:
        cells = []
        for column in columns:
            cell = shown(table.values[column.key][row])
            cells.append(cell if paper is None else f"{cell} ({shown(paper[column.key][row])})")
        text.add_row(row, *cells)
    wide = VisibleConsole(
        file=out.file, width=max(out.width, WIDE), highlight=False, no_color=out.no_color, soft_wrap=False
    )
    wide.print(text)
    out.print()


# All thirteen columns beside their rows' names.
WIDE = 175


def _differences(out: Console, found: Sequence[Difference], made: int) -> None:
    out.print(
        f"\nOf {made} comparisons, {made - len(found)} go the same way as the paper's. The others:", soft_wrap=True
    )
    for about, rows in grouped(found):
        out.print(f"\n{escape(about)}", soft_wrap=True)
        for row in rows:
            out.print(f"  {escape(row)}", soft_wrap=True)


def grouped(found: Sequence[Difference]) -> list[tuple[str, list[str]]]:
    """Differences in words: what is compared and why it differs, with the rows that do."""
    groups: dict[str, list[str]] = {}
    for d in found:
        why = d.explanation or "No explanation found"
        about = f"{d.what} ({d.start} to {d.end}). {why[0].upper()}{why[1:]}."
        ours, paper = (" to ".join(shown(v) for v in pair) for pair in (d.ours, d.paper))
        opposite = "; the other way" if d.is_opposite else ""
        groups.setdefault(f"{about[0].upper()}{about[1:]}", []).append(f"{d.row}: {ours} (paper: {paper}){opposite}")
    return list(groups.items())


def as_csv(table: Table, workload: str | None = None) -> str:
    """A line a row; with a workload each column is followed by the paper's."""
    paper = published.table(workload) if workload else None
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = [c.key for c in COLUMNS]
    writer.writerow(["counter", *(name for k in keys for name in ([k, f"{k} paper"] if paper else [k]))])
    for row in ROWS:
        cells = []
        for key in keys:
            value = table.values[key][row]
            cells.append("" if value is None else f"{value:.6f}")
            if paper:
                cells.append(f"{paper[key][row]:.3f}")
        writer.writerow([row, *cells])
    return text.getvalue()


def as_html(table: Table, workload: str | None = None) -> str:
    """One page that needs nothing else."""
    from mmulab.pages import render

    return render(
        "mmulab.reproduce.pte_coalescing",
        "table.html.j2",
        {"shown": shown, "grouped": grouped},
        t=table,
        blocks=blocks(),
        rows=ROWS,
        paper=published.table(workload) if workload else None,
        beside=published.WORKLOADS[workload] if workload else None,
        differences=table.differences(workload) if workload else None,
    )
