"""How long the runs are that superpages lie in: paper 4's figures 9 to 13, as tables."""

from mmulab import contiguity
from mmulab.markdown import grid
from mmulab.reproduce.mix.outcome import Outcome, Q, R

# Lengths of runs: a line of the table, the sets of an L1, the paper's "80+", the sets of an L2.
RUNS = (8, 16, 80, 128)
SUPERPAGES = ("2M", "1G")
NONE = "–"


def size_of(regime: str) -> str:
    """The superpages that a regime is about."""
    return "1G" if regime.startswith("1 GB") else "2M"


def of_size(outcome: Outcome[Q, R], regime: str, size: str) -> dict[str, contiguity.Row]:
    """The pages of a size under a regime, by program; of those that have any."""
    found = {row.program.name: _by_size(row) for row in outcome.under(regime)}
    return {name: of[size] for name, of in found.items() if size in of and of[size].pages}


def _by_size(row: R) -> dict[str, contiguity.Row]:
    return {one.size: one for one in contiguity.rows_of(row.runs())}


def in_superpages(row: R) -> float:
    """Of what is mapped, what superpages map."""
    return sum(one.share for name, one in _by_size(row).items() if name in SUPERPAGES)


def in_runs_of(row: contiguity.Row, least: int) -> float:
    """Of the pages, those in runs of this length or more."""
    return sum(length * count for length, count in row.lengths.items() if length >= least) / row.pages


def averages(outcome: Outcome[Q, R]) -> str:
    """Means over the programs, by regime."""
    rows = []
    for regime in outcome.regimes:
        share = f"{outcome.mean(regime, in_superpages):.0%}"
        some = list(of_size(outcome, regime, size_of(regime)).values())
        if not some:
            rows.append([regime, share, *([NONE] * (2 + len(RUNS)))])
            continue
        found = sorted(one.average for one in some)
        longer = [f"{sum(in_runs_of(one, length) for one in some) / len(some):.0%}" for length in RUNS]
        rows.append([regime, share, f"{sum(found) / len(found):,.1f}", f"{found[0]:,.1f}–{found[-1]:,.1f}", *longer])
    longer = [f"in runs of {n} or more" for n in RUNS]
    return grid(("pages", "in superpages", "average contiguity", "of the programs", *longer), rows)


def by_program(outcome: Outcome[Q, R]) -> str:
    """The average contiguity of each program's superpages (figure 11)."""
    rows = []
    for regime in outcome.regimes:
        found = of_size(outcome, regime, size_of(regime))
        if found:
            cells = [f"{found[name].average:,.1f}" if name in found else NONE for name in outcome.programs]
            rows.append([regime, *cells])
    return grid(("pages", *outcome.programs), rows)
