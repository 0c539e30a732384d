"""`mmulab compare`: results side by side."""

from pathlib import Path

import rich_click as click

from mmulab import UserError
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, print_json
from mmulab.result import Result
from mmulab.study.plan import BASELINE
from mmulab.tables import comparison, plain

# Results side by side in one table, at most; and what the figures' names and each result take of the width.
COLUMNS = 4
NAMES_WIDTH = 32
RESULT_WIDTH = 22


@click.command(context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="RESULT RESULT...", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Compare results of different traces all the same.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def compare(files: tuple[Path, ...], force: bool, as_json: bool) -> None:
    """Put results side by side, with differences to the first.

    RESULT is a file that run or study wrote, or a study's directory. Of several studies, each machine under each
    policy is compared by itself.
    """
    loaded = [(given, result) for given in files for result in _load(given)]
    results = [result for _, result in loaded]
    if len(results) < 2:
        raise click.UsageError("one result cannot be compared\nhint: give two or more files, or a study's directory")
    for result in results:
        result.check()
    _refuse_different_traces(results, force)
    several = sum(given.is_dir() for given in files) > 1 and len({r.pair for r in results}) < len(results)
    labels = _headings(loaded, with_study=several)
    if as_json:
        rows = [
            {"group": group, "figure": name, "values": dict(zip(labels, cells, strict=True))}
            for group, named in comparison(results, labels)
            for name, cells in named
        ]
        print_json(rows)
        return
    columns = side_by_side(console.out().width)
    blocks = _blocks_of_studies(results, columns) if several else _blocks(results, columns)
    for at, block in enumerate(blocks):
        if at:
            console.out().print()
        _print(block, [labels[results.index(r)] for r in block])
    for result in results:
        if not result.complete:
            console.warn(f"{result.label} is partial ({result.ended}): {result.ended_message}")


def _headings(loaded: list[tuple[Path, Result]], with_study: bool) -> list[str]:
    """A heading for each result, no two equal: label and study; where two are equal, also file and place."""
    labels = [" / ".join([r.pair, *([str(given)] if with_study else []), *r.changes]) for given, r in loaded]
    for distinct in ([str(r.path) for _, r in loaded], [f"({at})" for at in range(1, len(loaded) + 1)]):
        twice = {label for label in labels if labels.count(label) > 1}
        labels = [f"{a} / {b}" if a in twice else a for a, b in zip(labels, distinct, strict=True)]
    return labels


def side_by_side(width: int) -> int:
    """How many results a terminal of this width has room for."""
    return min(COLUMNS, max(2, (width - NAMES_WIDTH) // RESULT_WIDTH))


def _blocks(results: list[Result], columns: int) -> list[list[Result]]:
    """Results that fit on one screen side by side, each block led by what its others are compared to.

    Many results of several machines are compared within each machine, fewer with the first of all.
    """
    by_machine: dict[str, list[Result]] = {}
    for result in results:
        by_machine.setdefault(result.machine, []).append(result)
    if len(results) > columns and all(len(same) > 1 for same in by_machine.values()):
        return [block for same in by_machine.values() for block in _columns(same, columns)]
    return _columns(results, columns)


def _blocks_of_studies(results: list[Result], columns: int) -> list[list[Result]]:
    """What several studies have in common, each machine under each policy by itself; what only one has is told."""
    by_pair: dict[str, list[Result]] = {}
    for result in results:
        by_pair.setdefault(result.pair, []).append(result)
    alone = [pair for pair, same in by_pair.items() if len(same) == 1]
    if alone:
        console.warn(f"in one study only, and not compared: {', '.join(alone)}")
    return [block for same in by_pair.values() if len(same) > 1 for block in _columns(same, columns)]


def _columns(results: list[Result], columns: int) -> list[list[Result]]:
    first, *others = results
    step = columns - 1
    return [[first, *others[i : i + step]] for i in range(0, len(others), step)]


def _print(results: list[Result], labels: list[str]) -> None:
    out = console.out()
    table = plain()
    table.add_column("", no_wrap=True)
    for label in labels:
        table.add_column(label.replace(" / ", "\n"), justify="right")
    for group, named in comparison(results, labels):
        table.add_row(f"[dim]{group}[/]")
        for name, cells in named:
            table.add_row(f"  {name}", *cells)
    out.print(table)


def _load(given: Path) -> list[Result]:
    if not given.is_dir():
        return [Result.load(given)]
    inner = given / "results" if (given / "results").is_dir() else given
    found = sorted(p for p in inner.glob("*.json") if p.name != "study.json")
    if not found:
        raise UserError(f"{given}: no result files in it\nhint: give a directory that study or `run --out` wrote")
    # The baseline leads its machine's results.
    return sorted(map(Result.load, found), key=lambda r: (r.machine, r.policy != BASELINE, r.policy, r.changes))


def _refuse_different_traces(results: list[Result], force: bool) -> None:
    traces: dict[tuple[str, int, int], Result] = {}
    for result in results:
        traces.setdefault((result.trace_identity, result.instructions, result.references), result)
    if len(traces) < 2:
        return
    listed = "".join(
        f"\n  {r.path}: {r.trace['name']}, {instructions:,} instructions, {references:,} references ({identity})"
        for (identity, instructions, references), r in traces.items()
    )
    if force:
        console.warn(f"the results are of different traces; only figures per instruction or per walk compare:{listed}")
        return
    raise UserError(f"the results are of different traces:{listed}\nhint: add --force to compare them all the same")
