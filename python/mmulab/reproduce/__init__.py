"""Experiments of the papers, run again on descriptions of their machines."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Experiment:
    """One experiment: its command's name, what it is, and where the paper has it."""

    name: str
    title: str
    source: str


EXPERIMENTS = (
    Experiment(
        "pte-coalescing-table",
        "23 counters under 13 combinations of processor, operating system and page policy",
        "paper 1, Tables 2 and 4 to 11",
    ),
    Experiment(
        "pte-coalescing-group-size",
        "groups of 16 KB against groups of 32 KB, all else equal: sparse code, dense data, and a sweep",
        "paper 1, section 5.4",
    ),
)
