"""Group sizes side by side, for terminals."""

from rich.console import Console
from rich.markup import escape

from mmulab.reproduce.pte_coalescing import sparsity
from mmulab.reproduce.pte_coalescing.group_size import NAMES, Outcome
from mmulab.reproduce.pte_coalescing.sparsity import LARGE, SMALL
from mmulab.tables import plain
from mmulab.units import show_percent

GROUPS = (SMALL, LARGE)


def show(out: Console, outcome: Outcome) -> None:
    """Prints all of it."""
    plan = outcome.plan
    out.print(f"[bold]{escape(plan.machine)}[/] under [bold]{plan.policy}[/], groups of {SMALL} and of {LARGE} pages\n")
    for level in (1, 2):
        _cases(out, outcome, level)
    _sweep(out, outcome)


def _cases(out: Console, outcome: Outcome, level: int) -> None:
    title = f"L{level} misses per 1000 instructions, and how many fewer than without coalescing"
    table = plain(title=title, title_justify="left")
    table.add_column("", overflow="fold")
    for group in (0, *GROUPS):
        table.add_column(NAMES[group], justify="right", no_wrap=True)
    if level == 2:
        for group in GROUPS:
            table.add_column(f"hits coalesced, {NAMES[group]}", justify="right")
    for case in outcome.cases:
        saved = [f"{case.rate(g, level):.3f} ({show_percent(-case.saved(g, level), signed=True)})" for g in GROUPS]
        shares = [show_percent(case.coalesced(g)) for g in GROUPS] if level == 2 else []
        table.add_row(escape(case.name), f"{case.rate(0, level):.3f}", *saved, *shares)
    out.print(table)
    out.print()


def _sweep(out: Console, outcome: Outcome) -> None:
    title = "Random pages of a region, a share p of it touched: entries for each of its pages, L2 misses of a reference"
    table = plain(title=title, title_justify="left")
    names = [NAMES[g] for g in GROUPS]
    table.add_column("p", justify="right", no_wrap=True)
    for group in GROUPS:
        table.add_column(f"p^{group}", justify="right", no_wrap=True)
    for what in ("entries", "expected", "counted"):
        for name in names:
            table.add_column(f"{what}, {name}", justify="right")
    for p in outcome.sweep:
        values = [
            *(sparsity.coalesced(p.share, g) for g in GROUPS),
            *(sparsity.entries(p.share, g) for g in GROUPS),
            *(p.expected[g] for g in GROUPS),
            *(p.counted[g] for g in GROUPS),
        ]
        table.add_row(f"{p.share:.3f}", *(f"{value:.3f}" for value in values))
    out.print(table)
    found = {name: "never" if at is None else f"{at:.3f}" for name, at in outcome.crossovers().items()}
    out.print(
        f"\n{names[1]} groups miss less than {names[0]} ones from p = {found['counted']} on (expected: "
        f"{found['expected']}; for a TLB much smaller than the region: {found['small_tlb']}). They need fewer entries "
        f"from p = {found['entries']} on.",
        soft_wrap=not out.is_terminal,
    )
