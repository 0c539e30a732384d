"""Code in a study: its share of translation's cost, what larger pages for it save, and how to have them.

Linux maps code from files, whose pages transparent huge pages leave alone. So policies for data cannot help a program
whose cost is code; those of this file's names can (docs/scenarios/code-on-linux.md).
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmulab import paths
from mmulab.result import Result
from mmulab.stopwatch.kernel import read_only_files
from mmulab.stopwatch.settings import SETTINGS
from mmulab.study import places
from mmulab.units import show_bytes, show_percent

# Code is copied onto huge pages of the process's own, as `mmulab try --settings code` does.
REMAP = "linux-code-remap"
# The same of a program linked for it, whose code fills whole huge pages.
RELINKED = "linux-code-relinked"
# What the relinked program is linked with.
LINKED: dict[str, Any] = {"image": {"max_page_size": "2M", "linker": "gnu-separate-code"}}
# From this share of all stalls on, a study says what to do about code.
COSTS = 0.5
# From this share on, it looks at what linking would add,
LINKS = 0.1
# if less than this of code's cost lies in pages that were moved.
COVERED = 0.9
# Files of highest cost that a sentence names.
NAMED = 3


@dataclass(frozen=True)
class Code:
    """Code on one machine: its part of the cost under the baseline, and in how far larger pages reach it."""

    # Of all stalls for translations, those for code; and of code's, those in mappings' parts that were moved.
    share: float
    covered: float
    # The files of highest cost, with their shares of all stalls.
    files: tuple[tuple[str, float], ...]

    @property
    def is_what_costs(self) -> bool:
        """Whether most of translation's cost is code."""
        return self.share >= COSTS

    @property
    def needs_linking(self) -> bool:
        """Whether code costs, and much of it lies where it cannot be moved."""
        return self.share >= LINKS and self.covered < COVERED

    def words(self) -> str:
        """What of the cost is code, and whose."""
        named = ", ".join(f"{name} {show_percent(share)}" for name, share in self.files[:NAMED])
        return f"{show_percent(self.share)} of that is code ({named})"


def of(regions: Sequence[places.Region], baseline: str) -> Code:
    """Code among a machine's regions."""
    total = sum(r.cost[baseline] for r in regions) or 1
    code = sorted((r for r in regions if r.is_code), key=lambda r: -r.cost[baseline])
    cost = sum(r.cost[baseline] for r in code)
    moved = sum(r.cost[baseline] * r.huge_share(REMAP) for r in code)
    files: dict[str, int] = {}
    for region in code:
        files[region.file] = files.get(region.file, 0) + region.cost[baseline]
    by_cost = sorted(files.items(), key=lambda f: (-f[1], f[0]))
    return Code(cost / total, moved / cost if cost else 0.0, tuple((name, part / total) for name, part in by_cost))


def linked_sentence(base: Result, remapped: Result, relinked: Result) -> str:
    """What linking at 2 MB adds."""
    saved = [1 - r.user_cycles / base.user_cycles if base.user_cycles else 0.0 for r in (remapped, relinked)]
    more = relinked.resident_peak - base.resident_peak
    memory = f"{show_bytes(abs(more))} {'more' if more >= 0 else 'less'} resident memory"
    return (
        f"  Linked for it at 2 MB ({RELINKED}), it saves {show_percent(saved[1])} in place of {show_percent(saved[0])} "
        f"of user time for {memory}."
    )


def advice(trace: dict[str, Any], needs_linking: bool) -> list[str]:
    """How to have code on 2 MB pages: lines to paste, and what this computer's kernel does by itself."""
    program = str(trace.get("program") or "")
    command = shlex.join([program, *map(str, trace.get("args") or [])]) if program else "PROGRAM ARGS"
    cannot = next(s for s in SETTINGS if s.name == "code").missing()
    tries = f"mmulab try --settings 4k,code -- {command}"
    lines = [
        "Code is what costs here, and Linux gives it no larger page by itself. To move it onto 2 MB pages:",
        f"  time it first   {tries}"
        if cannot is None
        else f"  time it first   {tries}   (not as this system is: {cannot})",
        f"  preload         LD_PRELOAD={paths.try_library()} MMULAB_TRY=code {command}",
        "  link            cc ... -Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code"
        "     (with LLD: -Wl,-z,separate-loadable-segments)",
    ]
    if needs_linking:
        lines.append(
            "  Do both: as it is linked, much of its code lies in no whole, aligned 2 MB, which alone can be moved."
        )
    return [*lines, f"  {read_only_files()}"]
