"""A study for the terminal, and as summary.txt."""

from rich.console import Console

from mmulab.result import LEVELS
from mmulab.study.outcome import Outcome
from mmulab.study.plan import BASELINE
from mmulab.tables import plain
from mmulab.units import show_bytes, show_count, show_percent, show_rate

TOP_REGIONS = 8
TOP_FUNCTIONS = 8
# C++ names can fill a screen; the report has them whole.
NAME_WIDTH = 58


def show(out: Console, outcome: Outcome) -> None:
    """Prints all of it."""
    base = outcome.results[0]
    out.print(f"[bold]{shorten(outcome.program, 110)}[/]", markup=True, soft_wrap=True)
    out.print(f"{show_count(base.instructions)} instructions, {show_count(base.references)} references\n")
    for result in outcome.partial:
        out.print(f"[bold yellow]PARTIAL[/] {result.label} ({result.ended}): {result.ended_message}", soft_wrap=True)
    _machines(out, outcome)
    first = next(iter(outcome.machines))
    _regions(out, outcome, first)
    _functions(out, outcome, first)
    for line in outcome.verdict():
        out.print(line, soft_wrap=True)


def shorten(text: str, width: int) -> str:
    """Cuts the middle out of a text that is too long."""
    if len(text) <= width:
        return text
    tail = width // 3
    return f"{text[: width - tail - 1]}…{text[-tail:]}"


def _machines(out: Console, outcome: Outcome) -> None:
    table = plain()
    table.add_column("machine / policy", no_wrap=True)
    heads = (
        "L1I misses",
        "L1D",
        "L2I",
        "L2D",
        "accesses\nper walk",
        "translation\nof user time",
        "saves of\nuser time",
        "resident",
        "bloat",
        "page\ntables",
    )
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for machine, results in outcome.machines.items():
        table.add_row(f"[bold]{machine}[/]")
        for r in results:
            gain = "" if r.policy == BASELINE else show_percent(outcome.gain(r).user)
            bloat = "–" if r.bloat is None else show_bytes(r.bloat)
            name = f"  {r.policy}" + ("" if r.complete else " (partial)")
            rates = [show_rate(r.mpki(level)) for level in LEVELS]
            table.add_row(
                name,
                *rates,
                show_rate(r.accesses_per_walk),
                show_percent(r.translation_share),
                gain,
                show_bytes(r.resident_peak),
                bloat,
                show_bytes(r.table_peak),
            )
    out.print(table)
    out.print("[dim]Misses are per 1000 instructions. Misses, walks and memory are counted; time is modelled.[/]\n")


def _regions(out: Console, outcome: Outcome, machine: str) -> None:
    found = outcome.regions[machine]
    if not found:
        return
    total = sum(r.cost[BASELINE] for r in found) or 1
    table = plain()
    table.add_column(f"Regions that cost most ({machine})", no_wrap=True)
    for head in ("cost", "walks", "pays", "saves of\nuser time", "memory"):
        table.add_column(head, justify="right", no_wrap=True)
    for r in found[:TOP_REGIONS]:
        memory = f"{'+' if r.extra_memory > 0 else ''}{show_bytes(r.extra_memory)}" if r.extra_memory else "="
        saves = show_percent(r.gain_share) if r.gain else "–"
        share = show_percent(r.cost[BASELINE] / total)
        table.add_row(
            shorten(_escape(r.name), NAME_WIDTH), share, show_count(r.walks[BASELINE]), r.advice, saves, memory
        )
    out.print(table)
    out.print()


def _functions(out: Console, outcome: Outcome, machine: str) -> None:
    found = outcome.functions[machine]
    if not found:
        return
    total = sum(f.cycles for f in found) or 1
    table = plain()
    table.add_column(f"Functions that cost most ({machine})", no_wrap=True)
    for head in ("cost", "walks", "misses"):
        table.add_column(head, justify="right", no_wrap=True)
    for f in found[:TOP_FUNCTIONS]:
        name = shorten(_escape(f.name), NAME_WIDTH)
        table.add_row(name, show_percent(f.cycles / total), show_count(f.walks), show_count(f.misses))
    out.print(table)
    out.print()


def _escape(text: str) -> str:
    return text.replace("[", "\\[")
