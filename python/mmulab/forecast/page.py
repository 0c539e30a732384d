"""The page of forecasts: a section for each processor, of the JSON files that runs left."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmulab.forecast import scores
from mmulab.forecast.case import BASE, LARGE
from mmulab.stopwatch.report import seconds

Json = dict[str, Any]
# Settings beside base pages and 2 MB pages, as the page names them.
OTHERS = {"64k": "64 KB (mTHP)", "code": "code in 2 MB"}
HEAD = """# Forecasts beside a stopwatch

Each program below was timed on a computer and modelled on that computer's description, which `mmulab probe` wrote in
the same hour. The tables set modelled beside timed. This page is made by a command; a run on another computer adds a
section:

```console
$ mmulab probe --out probe-this-machine
$ mmulab reproduce forecast --probe probe-this-machine/probe.json --out docs/results
```

**Time** of a kernel is what it takes once its data are ready and each page of them was read once
([why](forecast-causes.md#memory-that-the-host-gives-late); some rows are [older](forecast-causes.md#page-by-page)).
Time of other programs is their time in user mode. *Ratio* is modelled over timed. **Saved** is what 2 MB pages save of
it, with the 95 % interval of the stopwatch's pairs; *told* is the difference of two modelled runs. No constant is
fitted to these programs.

Timing alternates until the interval is narrower than 3 points (*ended by* interval), or all pairs are done (pairs), or
the time for a program is over (seconds). A last table has other page sizes for some programs: 64 KB pages, and code on
2 MB pages.

Neighbours on the host change a virtual machine from one minute to the next, so their part is measured anew around each
program. **Core** is the clock, the instructions in flight with a load of memory, and the units for adds that were left.
"""


def file_name(processor: Json) -> str:
    """A processor's file, by vendor, family and model."""
    vendor = processor["vendor"].lower().replace("authentic", "").replace("genuine", "")
    return f"forecast-{vendor or processor['isa']}-{processor['family']:x}-{processor['model']:x}.json"


def write(directory: Path) -> str:
    """The page of all processors' files in a directory."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("forecast-*.json"))]
    return "\n".join([HEAD, *(section(one) for one in found)])


def section(found: Json) -> str:
    """One processor."""
    processor = found["processor"]
    hypervisor = processor["hypervisor"]
    title = f"## {processor['name']}, family {processor['family']:x}h model {processor['model']:x}h"
    where = f"In a virtual machine ({hypervisor}). " if hypervisor else ""
    source = found["machine"].get("virtual", {}).get("source", "")
    return "\n".join(
        [
            title,
            "",
            f"{where}Run on {found['when']} with mmulab {found['version']}. {source}",
            "",
            *_score_lines(scores.scores(found["cases"])),
            "",
            *_times(found["cases"]),
            "",
            *_savings(found["cases"]),
            "",
            *_others(found["cases"]),
        ]
    )


def _score_lines(s: Json) -> list[str]:
    def error(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    def points(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f} points"

    rank = s["rank_correlation"]
    return [
        "| what | wanted | found |",
        "|---|---|--:|",
        f"| modelled time within 25 % | two thirds | {s['within_quarter']} of {s['runs']} |",
        f"| modelled time within a factor of 1.6 | all | {s['within_1_6']} of {s['runs']} |",
        f"| mean error of time (logarithm); of the best constant | half of it | {error(s['mean_log_error'])}; "
        f"{error(s['constant_log_error'])} |",
        f"| saving within 5 points or its interval | 20 of 24 | {s['right']} of {s['savings']} |",
        f"| mean error of savings; of the best constant ({100 * s['constant']:.1f} %) | half of it | "
        f"{points(s['mean_error'])}; {points(s['constant_error'])} |",
        f"| right sign, where the stopwatch shows one above 3 % | all | {s['right_signs']} of {s['signs']} |",
        f"| rank correlation of savings | 0.8 | {'-' if rank is None else f'{rank:.2f}'} |",
    ]


def _times(cases: Sequence[Json]) -> list[str]:
    rows = [
        "| program | bound by | core | 4K timed | told | ratio | THP timed | told | ratio | pairs | ended by |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for case in cases:
        if "timed" not in case:
            rows.append(f"| {case['name']} | {case['bound']} | {case['left_out']} | | | | | | | | |")
            continue
        cells = [case["name"], case["bound"], _core(case.get("neighbours")), *_time(case, BASE), *_time(case, LARGE)]
        base = case["timed"][BASE]
        rows.append(f"| {' | '.join(cells)} | {base['pairs']} | {base.get('stopped', 'pairs')} |")
    return rows


def _time(case: Json, setting: str) -> tuple[str, str, str]:
    """Timed, told, ratio."""
    timed, told = case["timed"][setting], case["told"][setting]
    spread = f" (±{50 * timed['spread']:.0f} %)"
    ratio = told["seconds"] / timed["seconds"] if timed["seconds"] else float("nan")
    return seconds(timed["seconds"]) + spread, seconds(told["seconds"]), f"{ratio:.2f}"


def _others(cases: Sequence[Json]) -> list[str]:
    """Other settings of pages: times and savings in one table; nothing if there are none."""
    rows = [
        "| program | pages | timed | told | ratio | saved, timed | 95 % interval | told | right |",
        "|---|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    of = {case["name"]: case for case in cases}
    for row in scores.pairs(cases, tuple(OTHERS)):
        cells = [row["case"], OTHERS[row["setting"]], *_time(of[row["case"]], row["setting"]), *_saved(row)]
        rows.append(f"| {' | '.join(cells)} |")
    return [*rows, ""] if len(rows) > 2 else []


def _saved(row: Json) -> tuple[str, str, str, str]:
    """Timed, its interval, told, right."""
    interval = f"{100 * row['low']:.1f} to {100 * row['high']:.1f} %"
    right = "yes" if scores.is_right(row) else "no"
    return f"{100 * row['saving']:.1f} %", interval, f"{100 * row['told']:.1f} %", right


def _core(left: Json | None) -> str:
    """What neighbours left of a core."""
    return "" if left is None else f"{left['frequency_mhz'] / 1000:.2f} GHz, {left['window']}, {left['int_units']:.2g}"


def _savings(cases: Sequence[Json]) -> list[str]:
    rows = ["| program | saved, timed | 95 % interval | told | right |", "|---|--:|--:|--:|---|"]
    rows += [f"| {' | '.join((row['case'], *_saved(row)))} |" for row in scores.pairs(cases)]
    return rows
