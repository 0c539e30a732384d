"""The exact optimum of Equation 1 of paper 3, by integer programming (HiGHS, through scipy).

A variable for each bin says whether it is selected. The bins nest, so that two overlap exactly if one is around the
other. So for each bin of the smallest size, at most one of the bins around it is selected. The other constraints are
the target, and the entries of each budget.

A bin around a single smaller one covers the same misses with more bytes. Where both count against the same entries,
it is never needed, and has no variable.

The selection comes with a bound that no selection can be below. It is the solver's bound, or that of prices for entries
and misses (`crates/leshy/src/bound.rs`), whichever is higher. Of the solver's selection, of that at the best prices and
of the heuristics' the least is the answer.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mmulab import Failure, UserError, engine
from mmulab.engine import Json
from mmulab.extras import remedy
from mmulab.leshy.profile import Selection, select

# Bins beyond which the solver needs minutes for its first step: then the other methods answer.
BINS_MAX = 40_000
_BASE = 4096


def optimum(profile: Path, asked: Json, seconds: float) -> Selection:
    """The best selection that was found in time, by the solver or a heuristic, with a bound."""
    problem = engine.leshy_problem(str(profile), asked)
    found = [made for method in ("prices", "paper", "artifact") if (made := _heuristic(profile, asked, method))]
    bound = int(problem["bound"])
    count = sum(len(level["pages"]) for level in problem["levels"])
    # Nothing is left to look for where a heuristic is at the bound.
    if count <= BINS_MAX and all(made.bytes > bound for made in found):
        chosen, proven = _solve(problem, seconds)
        bound = max(bound, proven)
        if chosen is not None:
            found.append(select(profile, {**asked, "method": "optimum", "chosen": chosen}))
    if not found:
        raise Failure(f"no selection was found in {seconds:g} s\nhint: give more time (--time-limit), or more entries")
    best = min(found, key=lambda made: made.bytes)
    data = {**best.data, "file": {**best.data["file"], "source": {**best.data["file"]["source"], "method": "optimum"}}}
    return Selection(data, min(bound, best.bytes))


def _heuristic(profile: Path, asked: Json, method: str) -> Selection | None:
    """A heuristic's selection, if it reaches the target with the entries asked for."""
    try:
        made = select(profile, {**asked, "method": method})
    except UserError:
        return None
    return made if made.data["raised"] is None else None


def _solve(problem: Json, seconds: float) -> tuple[list[tuple[str, int]] | None, int]:
    """The bins that the solver chose, if it found a selection in time, and its bound in bytes."""
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array, csr_array
    except ImportError as missing:
        raise UserError(f"the optimum needs scipy, which is not installed\nhint: {remedy('optimum')}") from missing
    levels = problem["levels"]
    kept = _kept(levels)
    first = np.cumsum([0, *(len(level["pages"]) for level in levels)])
    count, leaves = int(first[-1]), len(levels[0]["pages"])
    rows, columns = _around(levels, kept, first)
    weights = np.concatenate([np.asarray(level["weights"], dtype=float) for level in levels])
    sizes = np.concatenate([np.full(len(level["pages"]), level["bytes"] / _BASE) for level in levels])
    budget_of = np.concatenate([np.full(len(level["pages"]), level["budget"]) for level in levels])
    counted = np.stack([budget_of == n for n in range(len(problem["entries"]))]).astype(float)
    around = coo_array((np.ones(len(rows)), (rows, columns)), shape=(leaves, count))
    solved: Any = milp(
        sizes,
        integrality=np.ones(count),
        bounds=Bounds(0, np.concatenate(kept).astype(float)),
        constraints=[
            LinearConstraint(csr_array(weights[None, :]), lb=problem["wanted"]),
            LinearConstraint(csr_array(counted), ub=problem["entries"]),
            LinearConstraint(csr_array(around), ub=1),
        ],
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if solved.status == 2:
        raise UserError(
            "no selection covers the target with these entries\n"
            "hint: give more entries (--entries), or a lower --target"
        )
    # No optimal selection has a part of a base page: what lies between two is rounded up, but for rounding errors.
    dual = solved.mip_dual_bound
    bound = int(np.ceil(dual - 1e-6)) * _BASE if dual is not None and np.isfinite(dual) else 0
    if solved.x is None:
        return None, max(bound, 0)
    picked = np.flatnonzero(solved.x > 0.5)
    level_of = np.searchsorted(first, picked, side="right") - 1
    chosen = [
        (str(levels[level]["size"]), int(levels[level]["pages"][at - first[level]]))
        for level, at in zip(level_of.tolist(), picked.tolist(), strict=True)
    ]
    return chosen, max(bound, 0)


def _kept(levels: list[Json]) -> list[Any]:
    """Which bins of each level have a variable."""
    kept = [np.ones(len(levels[0]["pages"]), dtype=bool)]
    for below, level in pairwise(levels):
        inside = np.bincount(np.asarray(below["parents"], dtype=int), minlength=len(level["pages"]))
        kept.append((inside > 1) | (below["budget"] != level["budget"]))
    return kept


def _around(levels: list[Json], kept: list[Any], first: Any) -> tuple[Any, Any]:
    """For each bin of the smallest size, the bins around it: rows and columns."""
    rows, columns = [], []
    at = np.arange(len(levels[0]["pages"]))
    for n, level in enumerate(levels):
        has = kept[n][at]
        rows.append(np.flatnonzero(has))
        columns.append(first[n] + at[has])
        if n + 1 < len(levels):
            at = np.asarray(level["parents"], dtype=int)[at]
    return np.concatenate(rows), np.concatenate(columns)
