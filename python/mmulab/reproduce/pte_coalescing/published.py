"""What the papers print, as far as mmulab's own tables are held against it."""

import csv
from importlib import resources

from mmulab.reproduce.pte_coalescing.columns import COLUMNS
from mmulab.reproduce.pte_coalescing.counters import ROWS

# Workloads whose table is here, with the page it is on.
WORKLOADS = {"clang": "paper 1, Table 4: Clang compiling SQLite, whole runs on hardware"}
# The tables are printed to three decimals.
ROUNDING = 0.0005

Published = dict[str, dict[str, float]]


def table(workload: str) -> Published:
    """Values by column, then by row."""
    text = (resources.files("mmulab.reproduce.pte_coalescing") / "data" / f"{workload}.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found: Published = {column.key: {} for column in COLUMNS}
    for record in csv.DictReader(lines):
        for key, values in found.items():
            values[record["counter"]] = float(record[key])
    assert all(list(values) == list(ROWS) for values in found.values())
    return found
