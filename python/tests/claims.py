"""Claims of the papers: which test checks which, and the page that lists them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "results" / "claims.md"
PAPERS = {
    "S0": "Solomon, Zhou and Cox, *An Empirical Evaluation of PTE Coalescing*",
    "S1": "Zhou, Dong, Cox and Dwarkadas, *On the Impact of Instruction Address Translation Overhead*",
    "S2": "Psomadakis and others, *Elastic Translations* (MICRO 2024)",
    "S3": "Cox and Bhattacharjee, *Efficient Address Translation for Architectures with Multiple Page Sizes* (2017)",
    "S4": "Ainsworth and Jones, *Compendia* (ISMM 2021)",
}


@dataclass(frozen=True)
class Claim:
    """A claim, where the paper makes it, and how far the test goes."""

    id: str
    section: str
    statement: str
    holds: str
    test: str


CLAIMS: list[Claim] = []
Test = Callable[..., None]


def claim(id_: str, section: str, statement: str, holds: str = "exactly") -> Callable[[Test], Test]:
    """Says that the test checks a claim. `holds`: exactly, within so much, in direction, or only in part."""

    def register(test: Test) -> Test:
        CLAIMS.append(Claim(id_, section, statement, holds, test.__name__))
        return test

    return register


def page() -> str:
    """The page that lists them."""
    lines = [
        "# Claims of the papers",
        "",
        "What the five papers state and mmulab, as it is now, can be held to. Each claim has a test in",
        "`python/tests/test_claims_*.py`, which fails if it does not hold; this page is written from the tests.",
        "",
        "`exactly`: the numbers are equal. `within`: as near as it says. `direction`: the paper measured hardware,",
        "and the effect has the same sign here. `in part`: only what is named is simulated so far.",
        "",
    ]
    for number, (paper, title) in enumerate(PAPERS.items(), 1):
        lines += [
            f"## Paper {number}: {title}",
            "",
            "| claim | section | statement | holds | test |",
            "|---|---|---|---|---|",
        ]
        found = sorted((c for c in CLAIMS if c.id.startswith(paper)), key=lambda c: c.id)
        lines += [f"| {c.id} | {c.section} | {c.statement} | {c.holds} | `{c.test}` |" for c in found]
        lines.append("")
    return "\n".join(lines)


def sized(machine: dict[str, Any], level: int, side: str, size: str) -> int:
    """Entries of a level that hold a page size, on one side."""
    arrays = [a for a in machine["tlb"] if a["level"] == level and a["side"] in (side, "both") and size in a["sizes"]]
    return sum(a["entries"] for a in arrays)
