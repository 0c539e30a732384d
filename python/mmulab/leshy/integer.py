"""The integer program of the exact optimum, solved by HiGHS through scipy: see `mmulab.leshy.optimum`.

HiGHS goes on after the time that it was given: with 25,000 bins and a limit of 2 s it took 7.5 s. So a large program is
solved by a process of its own, `python -m mmulab.leshy.integer SECONDS`. It reads the problem as JSON, and writes the
selection and the bound as JSON. A process that is ended has found nothing: the heuristics and their bound are left.
"""

import json
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np

from mmulab import Failure, UserError
from mmulab.engine import Json
from mmulab.extras import remedy

# Bins up to which a step of the solver takes a moment.
SMALL = 2000
# Seconds more than it was given until a solver's process is ended.
GRACE = 2.0
_BASE = 4096
# The bins that were chosen, each by its size and its first page; none where no selection was found in time.
Chosen = list[tuple[str, int]] | None


def solve(problem: Json, seconds: float) -> tuple[Chosen, int]:
    """The bins that the solver chose, if it found a selection in time, and its bound in bytes.

    Raises UserError if no selection can be, and without scipy.
    """
    try:
        import scipy  # noqa: F401 - asked for before a process is started that would lack it.
    except ImportError as missing:
        raise UserError(f"the optimum needs scipy, which is not installed\nhint: {remedy('optimum')}") from missing
    if sum(len(level["pages"]) for level in problem["levels"]) <= SMALL:
        solved = _solved(problem, seconds)
    else:
        command = [sys.executable, "-m", "mmulab.leshy.integer", str(seconds)]
        try:
            ran = subprocess.run(
                command, input=json.dumps(problem), capture_output=True, text=True, timeout=seconds + GRACE, check=False
            )
        except subprocess.TimeoutExpired:
            return None, 0
        if ran.returncode != 0:
            raise Failure(f"the solver ended with exit code {ran.returncode}: {ran.stderr.strip()[-500:]}")
        solved = json.loads(ran.stdout)
    if solved is None:
        raise UserError(
            "no selection covers the target with these entries\n"
            "hint: give more entries (--entries), or a lower --target"
        )
    chosen = solved["chosen"]
    return None if chosen is None else [(size, page) for size, page in chosen], solved["bound"]


def _solved(problem: Json, seconds: float) -> Json | None:
    """The solver's selection and bound; None if no selection can be."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array, csr_array

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
        return None
    # No optimal selection has a part of a base page: what lies between two is rounded up, but for rounding errors.
    dual = solved.mip_dual_bound
    bound = int(np.ceil(dual - 1e-6)) * _BASE if dual is not None and np.isfinite(dual) else 0
    if solved.x is None:
        return {"chosen": None, "bound": max(bound, 0)}
    picked = np.flatnonzero(solved.x > 0.5)
    level_of = np.searchsorted(first, picked, side="right") - 1
    chosen = [
        (str(levels[level]["size"]), int(levels[level]["pages"][at - first[level]]))
        for level, at in zip(level_of.tolist(), picked.tolist(), strict=True)
    ]
    return {"chosen": chosen, "bound": max(bound, 0)}


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


if __name__ == "__main__":
    print(json.dumps(_solved(json.load(sys.stdin), float(sys.argv[1]))))
