"""Numbers on the command line: each has a range, which its help shows and its refusal names.

Ranges of the engine's options are those that the engine declares; others are declared at their option.
"""

import math
from functools import cache
from typing import Any

import rich_click as click

from mmulab import engine, units

# What a count of instructions or references may be: the engine keeps counts in 64 bits, with a sign in some files.
COUNT_MAX = 2**63 - 1
# The largest amount of simulated memory.
MEMORY_MAX = 16 * 2**40


class Real(click.FloatRange):
    """A number in a range; not a number and infinities are none."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Reads it."""
        try:
            found = float(value)
        except (TypeError, ValueError):
            found = math.nan
        if math.isnan(found) or not float(self.min or 0) <= found <= float(self.max or 0):
            self.fail(f"{value} is not a number from {self.min:g} to {self.max:g}", param, ctx)
        return found


class Size(click.ParamType["int"]):
    """A number of bytes in a range, a multiple of a unit."""

    name = "SIZE"

    def __init__(self, least: str, most: str, unit: str) -> None:
        """All three as users write them, such as 64K."""
        self.least, self.most, self.unit = least, most, unit

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Reads it."""
        least, most, unit = (units.parse_bytes(text) or 0 for text in (self.least, self.most, self.unit))
        found = value if isinstance(value, int) else units.parse_bytes(str(value))
        if found is None or not least <= found <= most or found % unit:
            self.fail(f"'{value}': give {self.least} to {self.most}, a multiple of {self.unit}", param, ctx)
        return found


@cache
def _ranges() -> dict[str, tuple[float, float]]:
    fields = engine.options_schema()["properties"]
    return {key: (f["minimum"], f["maximum"]) for key, f in fields.items() if "maximum" in f}


def real_option(key: str) -> Real:
    """The type of an option of the engine that is a number."""
    return Real(*_ranges()[key])


def whole_option(key: str) -> click.IntRange:
    """The type of an option of the engine that is a whole number."""
    least, most = _ranges()[key]
    return click.IntRange(int(least), int(most))
