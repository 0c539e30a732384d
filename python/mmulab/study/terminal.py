"""A study for the terminal, and as summary.txt."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from mmulab.result import LEVELS, Result
from mmulab.study.code import REMAP
from mmulab.study.instructions import by_kind
from mmulab.study.outcome import Outcome
from mmulab.study.plan import BASELINE
from mmulab.study.strip import words
from mmulab.study.verdict import Verdict, of
from mmulab.tables import GAP, WIDE, plain
from mmulab.units import shorten, show_bytes, show_count, show_percent, show_rate

TOP_PROGRAMS = 8
TOP_REGIONS = 8
TOP_FUNCTIONS = 8
# The one definition of memory in a report.
QUICK = (
    "Shares of time are the quick model's and no forecast: it assumes how much overlaps, and data have no caches. "
    "Regions' best page sizes go by stalls that it does not hide, what a policy saves at most by all. --timing models "
    "the core."
)
RESIDENT = "Resident: private pages and the page cache, each frame once, at the peak. Zero pages take no memory."
# C++ names can fill a screen; the report has them whole.
NAME_WIDTH = 58
NAME_LEAST = 20
PROGRAM_WIDTH = 110
# The width of a terminal from which the table of regions names policies.
NAMES_FROM = 110


def show(out: Console, outcome: Outcome, whole: bool = False) -> None:
    """Prints the verdict and what it rests on. Where nothing is to be gained, tables are noise: only with `whole`."""
    base = outcome.results[0]
    program = escape(shorten(outcome.program, min(PROGRAM_WIDTH, out.width)))
    changed = f" ({escape(', '.join(base.changes))})" if base.changes else ""
    out.print(f"[bold]{program}[/]{changed}", soft_wrap=True)
    out.print(f"{show_count(base.instructions)} instructions, {show_count(base.references)} references")
    if base.uncounted:
        out.print(base.uncounted, soft_wrap=True)
    out.print()
    for result in outcome.partial:
        why = escape(f"{result.label} ({result.ended}): {result.ended_message}")
        out.print(f"[bold yellow]PARTIAL[/] {why}", soft_wrap=True)
    verdict = of(outcome)
    _verdict(out, verdict)
    if verdict.is_over and not whole:
        return
    first = next(iter(outcome.machines))
    _regions(out, outcome, first)
    _functions(out, outcome, first)
    _programs(out, outcome, first)
    _machines(out, outcome)
    _instructions(out, outcome, first)
    for line in outcome.by_machine() if whole else ():
        out.print(line, markup=False, soft_wrap=not out.is_terminal)
    if outcome.is_quick:
        out.print(f"[dim]{QUICK}[/]", soft_wrap=not out.is_terminal)


def _verdict(out: Console, verdict: Verdict) -> None:
    if not verdict.steps:
        # Whole lines for programs, whole words for people.
        out.print(verdict.nothing, markup=False, soft_wrap=not out.is_terminal)
        return
    for step in verdict.steps:
        out.print(f"[bold]{escape(step.do)}[/]", soft_wrap=not out.is_terminal)
        rows = Table.grid(padding=(0, 2, 0, 0))
        rows.add_column(no_wrap=True)
        rows.add_column()
        for label, text in step.rows:
            rows.add_row(f"  {label}", escape(text))
        out.print(rows, soft_wrap=not out.is_terminal)
        for label, line in step.how:
            # Lines to paste stay whole.
            out.print(f"  {label:<8}{line}", markup=False, highlight=False, soft_wrap=True)
        out.print()


Column = tuple[str, Callable[[Result], str]]
# Rows of results below a title.
Groups = list[tuple[str, list[Result]]]


def _machines(out: Console, outcome: Outcome) -> None:
    def saves(r: Result) -> str:
        return "" if r.policy == BASELINE else show_percent(outcome.gain(r).user)

    def rate(level: str) -> Callable[[Result], str]:
        return lambda r: show_rate(r.mpki(level))

    misses_and_walks: list[Column] = [
        *((head, rate(level)) for head, level in zip(("L1I misses", "L1D", "L2I", "L2D"), LEVELS, strict=True)),
        ("accesses\nper walk", lambda r: show_rate(r.accesses_per_walk)),
    ]
    time: list[Column] = [
        ("translation\nof user time", lambda r: show_percent(r.translation_share)),
        ("saves of\nuser time", saves),
    ]
    memory: list[Column] = [
        ("resident", lambda r: show_bytes(r.resident_peak)),
        ("bloat", lambda r: _bytes_or_dash(r.bloat)),
        ("read-\naround", lambda r: _bytes_or_dash(r.read_around)),
        ("page\ntables", lambda r: show_bytes(r.table_peak)),
    ]
    each: Groups = [(machine, outcome.with_relinked(machine)) for machine in outcome.machines]
    tables = [(each, misses_and_walks)]

    def table(groups: Groups, columns: list[Column]) -> Table:
        return _machine_table(groups, columns, outcome.row_name)

    # As few tables as the width allows, with what belongs together side by side; rows that are equal for machines once.
    alike = outcome.alike(lambda r: [show(r) for _, show in memory])
    of_memory = each if len(alike) == len(each) else [(_title(outcome, m), rows) for m, rows in alike]
    for groups, columns in ((each, time), (of_memory, memory)):
        together = [*tables[-1][1], *columns]
        wide = Measurement.get(out, out.options.update(width=WIDE), table(groups, together)).maximum
        if groups is tables[-1][0] and wide <= out.width:
            tables[-1] = (groups, together)
        else:
            tables.append((groups, columns))
    for groups, columns in tables:
        out.print(table(groups, columns))
        if len(tables) > 1:
            out.print()
    out.print("[dim]Misses are per 1000 instructions. Misses, walks and memory are counted; time is modelled.[/]")
    out.print(f"[dim]{RESIDENT}[/]\n")


def _title(outcome: Outcome, machines: Sequence[str]) -> str:
    """What a group of machines is called."""
    every = 1 < len(machines) == len(outcome.machines)
    return "all machines" if every else ", ".join(machines)


def _machine_table(groups: Groups, columns: list[Column], name_of: Callable[[Result], str]) -> Table:
    table = plain()
    table.add_column("machine / policy", no_wrap=True)
    for head, _ in columns:
        table.add_column(head, justify="right", no_wrap=True)
    for title, results in groups:
        table.add_row(f"[bold]{title}[/]")
        for r in results:
            name = f"  {name_of(r)}" + ("" if r.complete else " (partial)")
            table.add_row(name, *(show(r) for _, show in columns))
    return table


def _bytes_or_dash(value: int | None) -> str:
    return "–" if value is None else show_bytes(value)


def _programs(out: Console, outcome: Outcome, machine: str) -> None:
    """Which programs ran, if several did: shells and launchers among them."""
    found = outcome.programs[machine]
    if len(found) < 2:
        return
    total = sum(p.cycles for p in found) or 1
    rows = [
        (
            f"{p.path or p.name}{f' ({p.role})' if p.role else ''}",
            show_percent(p.cycles / total),
            show_count(p.walks),
            show_count(p.processes),
        )
        for p in found[:TOP_PROGRAMS]
    ]
    _named(out, f"Programs that ran\n({machine})", ("share of\nstalls", "walks", "processes"), rows)


def _regions(out: Console, outcome: Outcome, machine: str) -> None:
    found = outcome.regions[machine]
    total = sum(r.cost[BASELINE] for r in found) or 1
    rows = []
    for r in found[:TOP_REGIONS]:
        memory = f"{'+' if r.extra_memory > 0 else ''}{show_bytes(r.extra_memory)}" if r.extra_memory else "="
        saves = show_percent(r.gain_share) if r.gain else "–"
        share = show_percent(r.cost[BASELINE] / total)
        code = show_percent(r.huge_share(REMAP), digits=0) if r.is_code and REMAP in r.mapped else "–"
        # On a narrow terminal without the policy's name, which the report has.
        size = r.advice if out.width >= NAMES_FROM else r.page_size
        rows.append((r.name, share, show_count(r.walks[BASELINE]), size, saves, memory, code))
    heads = (
        "share of\nstalls",
        "walks",
        "best\npage size",
        "saves of\nuser time",
        "resident\nmemory",
        "code in\n2M pages",
    )
    title = "Regions of highest cost" if out.width >= NAMES_FROM else "Regions"
    _named(out, f"{title}\n({machine})", heads, rows)


def _functions(out: Console, outcome: Outcome, machine: str) -> None:
    found = outcome.functions[machine]
    total = sum(f.cycles for f in found) or 1
    rows = [
        (f.name, show_percent(f.cycles / total), show_count(f.walks), show_count(f.misses))
        for f in found[:TOP_FUNCTIONS]
    ]
    _named(out, f"Functions of highest cost\n({machine})", ("share of\nstalls", "walks", "L1 misses"), rows)
    for path, why in outcome.without_functions[:TOP_FUNCTIONS]:
        out.print(f"[dim]Functions of {escape(path)} are not known: {escape(why)}.[/]", soft_wrap=not out.is_terminal)
    if outcome.nameless_code:
        out.print(f"[dim]{escape(outcome.nameless_code)}[/]\n", soft_wrap=not out.is_terminal)


def _instructions(out: Console, outcome: Outcome, machine: str) -> None:
    """Where instruction misses come from, in a sentence or two; the report has the tables."""
    found = outcome.instructions[machine]
    if not found.total:
        return
    shares = [f"{origin} {show_percent(misses.misses / found.total)}" for origin, misses in found.origins]
    kinds = [f"{kind} {show_percent(n / found.total)}" for kind, n in by_kind(found.edges).items() if n]
    lines = [f"Instruction misses: {', '.join(shares)}; met by {', '.join(kinds)}."]
    if outcome.strip:
        lines.append(f"Code over time: {words(outcome.strip)}")
    for line in lines:
        out.print(line, markup=False, soft_wrap=not out.is_terminal)
    out.print()


def _named(out: Console, title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A table whose rows begin with a name, cut to what the other columns leave of the width."""
    if not rows:
        return
    columns = zip(heads, *(row[1:] for row in rows), strict=True)
    beside = sum(max(len(line) for text in column for line in text.split("\n")) + GAP for column in columns)
    width = min(NAME_WIDTH, max(NAME_LEAST, out.width - beside - GAP))
    table = plain()
    table.add_column(title, no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for name, *cells in rows:
        table.add_row(escape(shorten(name, width)), *cells)
    out.print(table)
    out.print()
