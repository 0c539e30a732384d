"""How good forecasts are, beside what the best constant guess would have scored."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from mmulab.forecast.case import BASE, LARGE

Json = dict[str, Any]
# A saving is right within this of the timed one, or within its interval.
NEAR = 0.05


def saving(base: float, other: float) -> float:
    """The share of `base` that is saved."""
    return 1 - other / base


def known(cases: Sequence[Json]) -> list[Json]:
    """Those that were not left out."""
    return [case for case in cases if "timed" in case]


def pairs(cases: Sequence[Json], settings: Sequence[str] = (LARGE,)) -> list[Json]:
    """One row for each case and each of these settings: timed and told savings beside base pages."""
    rows = []
    for case in known(cases):
        for name, timed in case["timed"].items():
            if name in settings and timed["saves"]:
                told = saving(case["told"][BASE]["seconds"], case["told"][name]["seconds"])
                rows.append({"case": case["name"], "setting": name, **timed["saves"], "told": told})
    return rows


def is_right(row: Json) -> bool:
    """Within 5 points of the timed saving, or within its interval."""
    return bool(abs(row["told"] - row["saving"]) <= NEAR or row["low"] <= row["told"] <= row["high"])


def has_sign(row: Json) -> bool | None:
    """Whether the sign is right; None where the stopwatch does not show one above 3 %."""
    if abs(row["saving"]) <= 0.03 or row["low"] <= 0 <= row["high"]:
        return None
    return bool((row["told"] > 0) == (row["saving"] > 0))


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's, by ranks with ties shared; None of fewer than three."""
    if len(one) < 3:
        return None

    def ranks(values: Sequence[float]) -> np.ndarray:
        array = np.asarray(values)
        return np.array([((array < v).sum() + (array <= v).sum() - 1) / 2 for v in array])

    a, b = ranks(one), ranks(other)
    if a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def four_of_five(cases: Sequence[Json]) -> float:
    """How far the told saving is off at most for four of five, as a share."""
    errors = sorted(abs(row["told"] - row["saving"]) for row in pairs(cases))
    return float(np.quantile(errors, 0.8)) if errors else 1.0


def scores(cases: Sequence[Json]) -> Json:
    """All of them, over base pages and 2 MB pages: programs that have other settings too do not count more."""
    both = [(c["told"][s]["seconds"], c["timed"][s]["seconds"]) for c in known(cases) for s in (BASE, LARGE)]
    ratios = [told / timed for told, timed in both if timed]
    logs = [abs(math.log(r)) for r in ratios]
    seconds = [math.log(timed) for _, timed in both if timed]
    rows = pairs(cases)
    savings = [row["saving"] for row in rows]
    # The constant with the smallest mean error is the median.
    guess = statistics.median(savings) if savings else 0.0
    signs = [sign for row in rows if (sign := has_sign(row)) is not None]
    middle = statistics.median(seconds) if seconds else 0.0
    return {
        "runs": len(ratios),
        "within_quarter": sum(log <= math.log(1.25) for log in logs),
        "within_1_6": sum(log <= math.log(1.6) for log in logs),
        "mean_log_error": statistics.mean(logs) if logs else None,
        "constant_log_error": statistics.mean(abs(s - middle) for s in seconds) if seconds else None,
        "savings": len(rows),
        "right": sum(map(is_right, rows)),
        "mean_error": statistics.mean(abs(r["told"] - r["saving"]) for r in rows) if rows else None,
        "constant": guess,
        "constant_error": statistics.mean(abs(s - guess) for s in savings) if savings else None,
        "signs": len(signs),
        "right_signs": sum(signs),
        "rank_correlation": rank_correlation(savings, [row["told"] for row in rows]),
    }
