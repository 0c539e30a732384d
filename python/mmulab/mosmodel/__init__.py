r"""A model of a program's time fitted to mosaics: Mosmodel (Agbarya, Yaniv, Gandhi and Tsafrir, MICRO 2020).

    program ---> stopwatch, under each mosaic ----> times -------------.
       \                                                               +--> fit --> seconds of any other run
        '--> recorded once --> run under each mosaic --> H, M, C ------'

`partial` runs the recording: second-level hits (H), walks (M) and cycles of walks (C) are exact counts of the same
layouts. `fit` finds the polynomial, and how far it is off for a mosaic that it was not fitted to. `model` is the whole
way, once mosaics are timed.
"""

from mmulab.mosmodel.fit import FEWEST, Fitted, fit
from mmulab.mosmodel.model import Model, model
from mmulab.mosmodel.partial import Counted, Recorded, counted, forecast, record
from mmulab.mosmodel.times import Times, times

__all__ = [
    "FEWEST",
    "Counted",
    "Fitted",
    "Model",
    "Recorded",
    "Times",
    "counted",
    "fit",
    "forecast",
    "model",
    "record",
    "times",
]
