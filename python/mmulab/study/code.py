"""Code in a study: its share of translation's cost, and how far larger pages reach it.

Linux maps code from files, whose pages transparent huge pages leave alone. So policies for data cannot help a program
whose cost is code; those of this file's names can (docs/scenarios/code-on-linux.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmulab.result import Result, covered
from mmulab.study import places
from mmulab.study.places import size_bytes
from mmulab.units import show_percent

# Code is copied onto huge pages of the process's own, as `mmulab try --settings code` does.
REMAP = "linux-code-remap"
# The same of a program linked for it, whose code fills whole huge pages.
RELINKED = "linux-code-relinked"
# Larger pages of the page cache, which processes share: khugepaged on read-only files, and tmpfs with huge pages. And
# copies onto pages that were set aside.
KHUGEPAGED, TMPFS, POOL = "linux-code-khugepaged", "linux-code-tmpfs", "linux-code-hugetlb"
# These have whole, aligned 2 MB alone, as the first way has.
WHOLE = (KHUGEPAGED, TMPFS, POOL)
# Files that are read in blocks of 64 KB, which sixteen entries map as one page.
FOLIOS = "linux-code-folios-contpte"
# A study has them on request (`--code`): each takes the time of one more policy.
ON_REQUEST = (*WHOLE, FOLIOS)
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

    @property
    def named(self) -> str:
        """The files of highest cost, with their shares of all stalls."""
        return ", ".join(f"{name} {show_percent(share)}" for name, share in self.files[:NAMED])


def on_request(isa: str | None) -> tuple[str, ...]:
    """The ways that a study has on request, for programs of an instruction set: on Armv8 alone does Linux read code in
    blocks of 64 KB (6.17, `exec_folio_order`)."""
    return ON_REQUEST if isa == "aarch64" else WHOLE


def page_bytes(policy: str) -> int:
    """Bytes of the larger pages that a policy for code gives."""
    return 64 << 10 if policy == FOLIOS else 2 << 20


def on_larger_pages(result: Result, size: int) -> float:
    """Of the code that page tables mapped at the peak of each page size, the share in pages of `size` bytes or more."""
    large = total = 0
    for region in result.regions:
        if region["kind"] == "file" and "x" in str(region["prot"]):
            for page, amount in covered(region).items():
                total += amount
                large += amount if size_bytes(page) >= size else 0
    return large / total if total else 0.0


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
