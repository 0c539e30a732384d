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
    Experiment(
        "mix-tlbs",
        "MIX, CoLT, skewed and hash-rehash TLBs in the area of a split machine's, by page size and beside memhog",
        "paper 4, Figures 1 and 14 to 18",
    ),
    Experiment(
        "mix-sets",
        "MIX TLBs of 16 to 512 sets, with a blind fill and with one that looks",
        "paper 4, section 7.2",
    ),
    Experiment(
        "gpu-tlbs",
        "the same designs on shader cores: Rodinia's programs, by page size and beside memhog",
        "paper 4, Figures 9, 11 and 14 to 17",
    ),
    Experiment(
        "compendia-figure-15",
        "random updates of 16 MiB to 256 GiB: entries a walk reads, native and nested, tables merged and not",
        "paper 5, Figure 15",
    ),
    Experiment(
        "compendia-thresholds",
        "from how many children on page tables should be merged: never, 1/16 to 7/8, always",
        "paper 5, section 6.1",
    ),
    Experiment(
        "compendia-speedup",
        "what merging page tables is worth for each program: entries a walk, projected and simulated gain",
        "paper 5, Figures 14, 16 and 17",
    ),
    Experiment(
        "together",
        "coalescing TLBs, merged page tables and kernels that keep memory together, each with each",
        "papers 1, 3, 4 and 5 on one machine: no paper shows it",
    ),
    Experiment(
        "speedups",
        "times under several page sizes that others measured on an N1, a 5900X and a 2700X, beside modelled ones",
        "a rerun of paper 3's artifact; paper 1, Tables 5, 6 and 10",
    ),
    Experiment(
        "forecast",
        "programs timed on this computer under 4 KB and 2 MB pages, beside times of its description",
        "no paper: a stopwatch",
    ),
)
