"""What came of it, as plots."""

from mmulab.reproduce.mix import tlb_plots
from mmulab.reproduce.mix.suite import Outcome


def plots(outcome: Outcome) -> dict[str, str]:
    """Figure 16, and Figures 12 and 13, by what their files' names end with; what there are rows of."""
    if not outcome.rows:
        return {}
    kinds = {
        "natively": lambda row: not row.regime.vms,
        "in virtual machines": lambda row: bool(row.regime.vms),
    }
    native = [r.regime.name for r in outcome.rows if not r.regime.vms and r.regime.policy == "linux-thp"]
    virtual = [r.regime.name for r in outcome.rows if r.regime.vms]
    panels = {
        "huge pages, natively": [(name, "2M") for name in dict.fromkeys(native)],
        "in virtual machines": [(name, "2M") for name in dict.fromkeys(virtual)],
        "of one size": [(name, size) for name, size in (("2 MB", "2M"), ("1 GB", "1G")) if outcome.under(name)],
    }
    shown = {title: lines for title, lines in panels.items() if lines}
    drawn = {"-energy": tlb_plots.tradeoffs(outcome, kinds)}
    return drawn | ({"-contiguity": tlb_plots.distributions(outcome, shown)} if shown else {})
