"""The study as one HTML file that needs nothing else: styles, plots and the few lines of script are inside."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from mmulab.pages import render
from mmulab.result import LEVEL_NAMES, LEVELS
from mmulab.study import plots, strip
from mmulab.study.code import REMAP
from mmulab.study.instructions import by_kind
from mmulab.study.outcome import Outcome
from mmulab.study.places import SOURCES, WORTH, Region
from mmulab.study.plan import BASELINE
from mmulab.study.terminal import QUICK, RESIDENT
from mmulab.study.verdict import of
from mmulab.study.words import Words
from mmulab.tables import BLOCKS
from mmulab.units import show_percent

TOP_PROGRAMS = 40
TOP_REGIONS = 25
# A region of a smaller share of stalls has no row, unless another page size saves in it.
ROW = 0.001
TOP_FUNCTIONS = SOURCES
TOP_BLOCKS = 10
TOP_EDGES = 20


def html(outcome: Outcome) -> str:
    """The report."""
    totals = _totals(outcome)
    return render(
        "mmulab.study",
        "report.html.j2",
        {"LEVELS": LEVELS, "LEVEL_NAMES": LEVEL_NAMES, "BASELINE": BASELINE, "REMAP": REMAP, "o": outcome},
        words=Words(),
        plots={name: Markup(draw(outcome)) for name, draw in _PLOTS.items()},
        sizes=list(dict.fromkeys(s for r in outcome.results for s, b in r.mapped_by_size.items() if b)),
        blocks=BLOCKS,
        tops={
            "programs": TOP_PROGRAMS,
            "functions": TOP_FUNCTIONS,
            "blocks": TOP_BLOCKS,
            "edges": TOP_EDGES,
        },
        verdict=of(outcome),
        has_freebsd=any(r.data["policy"].get("freebsd") for r in outcome.results),
        memory_rows=outcome.alike(lambda r: (r.resident_peak, r.bloat, r.read_around, r.table_peak)),
        size_rows=outcome.alike(lambda r: (sorted(r.mapped_by_size.items()), r.zero_mapped)),
        fragmentation_rows=outcome.alike(lambda r: (r.fmfi_target, r.fmfi) if r.policy == BASELINE else None),
        resident_words=RESIDENT,
        quick_words=QUICK,
        worth=show_percent(WORTH, digits=2),
        totals=totals,
        regions={
            machine: _worth_a_row(found, totals[machine]["regions"]) for machine, found in outcome.regions.items()
        },
        jump_kinds=by_kind,
        code_strip=Markup(strip.svg(outcome.strip)) if outcome.strip else "",
        code_words=strip.words(outcome.strip) if outcome.strip else "",
        data_strip=Markup(strip.svg(outcome.data_strip)) if outcome.data_strip else "",
        data_words=strip.words(outcome.data_strip) if outcome.data_strip else "",
        identities=sum(1 for r in outcome.results for _ in r.identities()),
    )


_PLOTS = {
    "misses": plots.misses,
    "time": plots.time,
    "accesses": plots.accesses,
    "residency": plots.residency,
    "sizes": plots.page_sizes,
}


def _worth_a_row(regions: Sequence[Region], total: int) -> list[Region]:
    """The regions that cost something, or gain something, and never none: rows of next to nothing hide the others."""
    found = [r for r in regions if r.cost[BASELINE] >= ROW * total or r.gain]
    return (found or list(regions[:1]))[:TOP_REGIONS]


def _totals(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """What shares are shares of, by machine; never zero."""
    return {
        machine: {
            "programs": sum(p.cycles for p in outcome.programs[machine]) or 1,
            "regions": sum(r.cost[BASELINE] for r in outcome.regions[machine]) or 1,
            "functions": sum(f.cycles for f in outcome.functions[machine]) or 1,
            "blocks": sum(r.cost[BASELINE] for r in outcome.regions[machine]) or 1,
        }
        for machine in outcome.machines
    }
