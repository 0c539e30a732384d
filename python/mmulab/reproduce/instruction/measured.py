"""A run in the terms of paper 2's Table II, and of its figures."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mmulab.reproduce.instruction.setting import ALL_CLUSTERS, STALL
from mmulab.reproduce.shared.cells import Figures, medians, user

# Base pages of a superpage.
WHOLE = 512
# Where a walk's last line, or data, came from: of the four depths in a stack, the one behind all caches.
MEMORY = 3


@dataclass(frozen=True)
class Measured:
    """Runs of a program under a kernel: the median of each counter, and each run alone if there are several."""

    of: Figures
    runs: tuple["Measured", ...] = ()

    @classmethod
    def over(cls, runs: Sequence[Figures]) -> "Measured":
        """Of one run for each recording of the program."""
        if len(runs) == 1:
            return cls(runs[0])
        return cls(medians(runs), tuple(cls(run) for run in runs))

    @property
    def cycles(self) -> float:
        """Execution cycles in user space (CPU_CLK_UNHALTED.THREAD_P)."""
        return user(self.of)

    @property
    def kernel(self) -> float:
        """Cycles of the kernel's work on memory."""
        return float(self.of.cycles["kernel"])

    def kernel_for(self, cause: str) -> float:
        """Those of them that one cause took: faults, promotions, fork, exec or exit."""
        return float(self.of.kernel_by[cause])

    @property
    def stall(self) -> float:
        """Instruction address translation cycles, end to end (ICACHE_64B.IFTAG_STALL)."""
        return float(self.of.perf[STALL])

    @property
    def overhead(self) -> float:
        """Instruction address translation overhead."""
        return self.stall / max(1.0, self.cycles)

    def walk_cycles(self, side: str) -> float:
        """Page walk cycles of a side (WALK_PENDING: load and store summed for data)."""
        return float(self.of.sides[side]["cycles"])

    def walks(self, side: str) -> int:
        """Completed walks of a side (WALK_COMPLETED)."""
        return int(self.of.sides[side]["completed"])

    @property
    def walk_share(self) -> float:
        """Of the instruction address translation cycles, those of walks. A core fetches one page at a time, so its
        WALK_ACTIVE is its WALK_PENDING."""
        return self.walk_cycles("instruction") / max(1.0, self.stall)

    @property
    def cycles_per_walk(self) -> float:
        """Average cycles of an instruction page walk."""
        return self.walk_cycles("instruction") / max(1, int(self.of.sides["instruction"]["walks"]))

    @property
    def memory_stall(self) -> float:
        """Cycles stalled for memory behind all caches (CYCLE_ACTIVITY.STALLS_L3_MISS): data, and lines of page tables
        for data. Of a core in time; else nothing."""
        stack = self.of.stack
        return float(stack["data"][MEMORY] + stack["walk"][MEMORY]) if stack else 0.0

    @property
    def misses(self) -> int:
        """Misses of the ITLB."""
        return int(self.of.tlb["l1i"]["misses"])

    @property
    def code(self) -> list[dict[str, Any]]:
        """Each 2 MB of code that is all code: what superpages can map."""
        return [row for row in self.of.code if row["mapped_pages"] == WHOLE]

    def at_least(self, clusters: int) -> int:
        """Of these, those with this number of clusters or more in memory: a point of Figure 1."""
        return sum(row["clusters"] >= clusters for row in self.code)

    @property
    def superpages(self) -> int:
        """Of these, those that are superpages, or will be when they are used next."""
        return sum(row["is_whole"] for row in self.code)

    @property
    def code_pages(self) -> int:
        """Pages in memory of code's windows."""
        return sum(int(row["pages"]) for row in self.of.code)

    @property
    def steps(self) -> list[int]:
        """The thresholds at which more is promoted: Figure 1's steps, from the highest. FreeBSD's own is not one."""
        return sorted({int(row["clusters"]) for row in self.code if 0 < row["clusters"] < ALL_CLUSTERS}, reverse=True)


def saved(after: float, before: float) -> float:
    """The share of `before` that is saved; less than 0 if it grew."""
    return 1 - after / before if before else 0.0


def left(after: float, before: float) -> float:
    """What is left of `before`, as a share."""
    return after / before if before else 1.0


def ratios(after: Measured, before: Measured, count: Callable[[Measured], float]) -> list[float]:
    """What is left of a counter, for each of several recordings alone."""
    return [left(float(count(a)), float(count(b))) for a, b in zip(after.runs, before.runs, strict=True)]


def remaining(after: Measured, before: Measured, count: Callable[[Measured], float]) -> float:
    """What is left of a counter, as a share: of several recordings the median."""
    return middle(ratios(after, before, count), left(float(count(after)), float(count(before))))


def middle(runs: Sequence[float], otherwise: float) -> float:
    """The median of a ratio over several recordings, or the ratio of a single one.

    A ratio of two counters' medians may lie outside all of theirs, for the medians are of different recordings.
    """
    return statistics.median(runs) if runs else otherwise


def spread(runs: Sequence[float], form: str) -> str:
    """The least and the most of several recordings, to stand behind their median."""
    return f" [{min(runs):{form}} to {max(runs):{form}}]" if runs else ""
