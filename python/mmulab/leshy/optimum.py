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

from pathlib import Path

from mmulab import Failure, UserError, engine
from mmulab.engine import Json
from mmulab.leshy.integer import solve
from mmulab.leshy.profile import Selection, select

# Bins beyond which the solver needs minutes for its first step: then the other methods answer.
BINS_MAX = 40_000


def optimum(profile: Path, asked: Json, seconds: float) -> Selection:
    """The best selection that was found in time, by the solver or a heuristic, with a bound."""
    problem = engine.leshy_problem(str(profile), asked)
    found = [made for method in ("prices", "paper", "artifact") if (made := _heuristic(profile, asked, method))]
    bound = int(problem["bound"])
    count = sum(len(level["pages"]) for level in problem["levels"])
    # Nothing is left to look for where a heuristic is at the bound.
    if count <= BINS_MAX and all(made.bytes > bound for made in found):
        chosen, proven = solve(problem, seconds)
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
