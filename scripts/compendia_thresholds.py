"""What the threshold of Compendia changes: the table of docs/compendia-thresholds.md.

Run it with the Python of the checkout: `.venv/bin/python scripts/compendia_thresholds.py` (a minute or two).
"""

import sys
from pathlib import Path

from mmulab import engine

CHECKOUT = Path(__file__).parents[1]
PAGE = CHECKOUT / "docs" / "compendia-thresholds.md"
BEGIN, END = "<!-- table: written by scripts/compendia_thresholds.py -->", "<!-- end of table -->"
KIND = "table.kind=compendia"
# Section 6.1 of paper 5 tries these; "never" is the tree without merging.
THRESHOLDS = {
    "never": (),
    "always": (KIND, "table.compendia.merge=1/512", "table.compendia.unmerge=1/512"),
    "1/16": (KIND, "table.compendia.merge=1/16", "table.compendia.unmerge=1/32"),
    "1/8": (KIND,),
    "7/8": (KIND, "table.compendia.merge=7/8", "table.compendia.unmerge=7/16"),
}
WORKLOADS = {
    "random updates, 64 MiB": "gen:gups?footprint=64M&updates=600000",
    "random updates, 1 GiB": "gen:gups?footprint=1G&updates=600000",
    "random updates, 8 GiB": "gen:gups?footprint=8G&updates=600000",
    "Zipf, 4 GiB": "gen:zipf?footprint=4G&references=600000",
    "pointers, 1 GiB": "gen:pointer-chase?footprint=1G&references=600000",
    "a page in 4 MiB, 4 GiB": "gen:stride?footprint=4G&stride=4M&references=600000",
    "compiler, recorded": str(CHECKOUT / "tests" / "data" / "cc1-small.mmt"),
}
# Walk caches of 64 entries and of 128.
CACHES = ((), ("walker.cache.PWC.entries=128",))
LIMIT = 20_000_000


def row(name: str, trace: str) -> list[str]:
    """The rows of a workload."""
    jobs = [
        engine.Job("compendia-baseline", "linux-4k", (*sets, *cache))
        for sets in THRESHOLDS.values()
        for cache in CACHES
    ]
    results = engine.run(trace, jobs, engine.Options(max_instructions=LIMIT)).results
    rows = []
    for threshold, small, large in zip(THRESHOLDS, results[::2], results[1::2], strict=True):
        memory = small.counts["memory"]
        reads = [sum(r.counts["walks"][s]["accesses"] for s in ("instruction", "data")) for r in (small, large)]
        walks = [sum(r.counts["walks"][s]["walks"] for s in ("instruction", "data")) for r in (small, large)]
        per_walk = " | ".join(f"{a / b:.3f}" for a, b in zip(reads, walks, strict=True))
        merges = "+".join(str(n) for n in reversed(memory["tables"]["merges"].values()) if n) or "0"
        share = memory["table_bytes"] / sum(size["now"] for size in memory["mapped"].values())
        size = f"{memory['table_bytes'] / 2**20:.2f} MiB"
        rows.append(f"| {name} | {threshold} | {per_walk} | {size} | {share:.2%} | {merges} |")
        print(rows[-1], file=sys.stderr)
    return rows


def main() -> None:
    """Measures, and writes the table."""
    lines = [
        "| workload | merged from | accesses a walk | with 128 entries | tables | of what they map | merges |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for name, trace in WORKLOADS.items():
        lines += row(name, trace)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
