"""Programs timed natively under several page settings, in alternation.

`settings` says what each setting is and whether it can be had. `process` runs a program once; `pairs` alternates and
compares; `mosaics` lays out a heap in parts. If asked, `sysfs` changes settings of the system, and puts them back.
"""

from mmulab.stopwatch import mosaics
from mmulab.stopwatch.pairs import Limits, compare, measure
from mmulab.stopwatch.settings import SETTINGS, Setting, find

__all__ = ["SETTINGS", "Limits", "Setting", "compare", "find", "measure", "mosaics"]
