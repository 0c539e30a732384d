r"""Forecasts held against a stopwatch: the same programs timed on this computer and modelled on its description.

    cases ---> timed (stopwatch: pairs of runs, page settings in alternation) ------.
       \                                                                             +--> scores --> page
        '----> modelled (recorded once; run by the core in time under each policy) -'

No constant of the model is fitted to these programs: they come from `mmulab probe` and from published sources.
"""

from mmulab.forecast.case import Case
from mmulab.forecast.cases import CASES
from mmulab.forecast.compare import Plan, run

__all__ = ["CASES", "Case", "Plan", "run"]
