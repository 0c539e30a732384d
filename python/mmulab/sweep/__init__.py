"""Sweeps: many machines, policies and traces in one run that can be stopped, repeated and asked.

::

    from mmulab import sweep

    plan = sweep.plan(sweep.read("stlb.toml"))
    sweep.run(plan, "sweep-stlb", workers=2)
    sweep.Results("sweep-stlb").query("SELECT entries, avg(l2d_misses) FROM jobs GROUP BY entries ORDER BY entries")

A script that asks for several workers has its work below `if __name__ == "__main__":`, because each worker imports it.
"""

from mmulab.sweep.conduct import Outcome, Stopped, run
from mmulab.sweep.file import Sweep, parse, read
from mmulab.sweep.foresee import Forecast, foresee
from mmulab.sweep.plan import Plan, SweepJob, plan
from mmulab.sweep.results import Results

__all__ = [
    "Forecast",
    "Outcome",
    "Plan",
    "Results",
    "Stopped",
    "Sweep",
    "SweepJob",
    "foresee",
    "parse",
    "plan",
    "read",
    "run",
]
