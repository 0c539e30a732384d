"""Times a small sweep on one and two local workers, simulates it on many, and writes docs/results/sweep-scaling.md.

`make scaling` runs it. Needs the extra `sweep`.
"""

import os
import platform
import re
import statistics
import tempfile
from itertools import cycle, islice
from pathlib import Path

from mmulab import sweep
from mmulab.sweep.pools import processors
from mmulab.sweep.scaling import Costs, Timed, simulate, timed

PAGE = Path(__file__).resolve().parents[1] / "docs" / "results" / "sweep-scaling.md"
# Jobs of about a quarter of a second, on two traces.
SWEEP = {
    "name": "scaling",
    "constraints": ["entries % ways == 0"],
    "axes": {
        "trace": ["gen:gups?footprint=64M&updates=300000", "gen:pointer-chase?footprint=64M&references=300k"],
        "machine": "skylake-e3-1240v5",
        "policy": ["linux-4k", "linux-thp"],
        "entries": {"key": "tlb.STLB.entries", "values": [384, 768, 1536, 3072]},
        "ways": {"key": "tlb.STLB.ways", "values": [6, 12]},
        "hit": {"key": "tlb.STLB.hit_cycles", "values": [7, 9]},
    },
}
BATCH = 4
TIMED = (1, 2)
# Runs with each number of workers; the fastest counts, because other work on the computer only adds.
REPEATS = 3
SIMULATED = (1, 2, 64, 1024)
# Jobs of the simulated sweep: 32 batches for each of 1,024 workers.
JOBS = 1024 * 32 * BATCH
# How much longer a job of the simulated sweep takes: as measured, and as with recordings of 100 times the length.
LONGER = (1, 100)


def main() -> None:
    """Writes the page."""
    described = sweep.parse(SWEEP)
    load = os.getloadavg()[0]
    best = {workers: _fastest(described, workers) for workers in TIMED}
    PAGE.write_text(page(best, load), encoding="utf-8")
    print(PAGE.name)


def _fastest(described: sweep.Sweep, workers: int) -> Timed:
    runs = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory(prefix="mmulab-scaling-") as directory:
            runs.append(timed(described, Path(directory), workers, BATCH))
    return min(runs, key=lambda run: run.seconds)


def page(best: dict[int, Timed], load: float) -> str:
    """The page, of the fastest run with each number of workers."""
    one = best[1]
    return "\n".join([*_head(one, load), *_timed(best), *_costs(one.costs), *_simulated(one), *_limits()])


def _head(one: Timed, load: float) -> list[str]:
    return [
        "<!-- Written by `make scaling`. -->",
        "",
        "# Sweeps on many workers",
        "",
        "How does the time of a sweep fall with more workers? One and two workers are **timed** here. 64 and 1,024 are",
        "**simulated**, from the costs that the timed runs have. No sweep was run on more than two workers.",
        "",
        f"The timed sweep has {sum(one.jobs_per_batch)} jobs in {len(one.batches)} batches. The "
        f"computer has {processors()}",
        f"processors ({_processor()}). It had other work: a load of {load:.1f} when the first run "
        "began, so that workers did",
        f"not have these processors to themselves. The table has the fastest of {REPEATS} runs with "
        "each number of workers.",
        "",
    ]


def _timed(best: dict[int, Timed]) -> list[str]:
    one = best[1]
    rows = [
        "## Timed",
        "",
        "| workers | timed | speed-up | a batch at its worker, mean | by the model, from the costs of one worker |",
        "|---:|---:|---:|---:|---:|",
    ]
    for workers, run in best.items():
        model = simulate(one.batches, one.jobs_per_batch, workers, one.costs)
        rows.append(
            f"| {workers} | {run.seconds:.2f} s | {one.seconds / run.seconds:.2f} | "
            f"{statistics.mean(run.batches):.3f} s | {model.seconds:.2f} s |"
        )
    return [
        *rows,
        "",
        "The model takes batches to last as long beside others as alone. Where workers share "
        "processors with each other or with",
        "other work, they do not: the means show by how much.",
        "",
    ]


def _costs(costs: Costs) -> list[str]:
    return [
        "## The model",
        "",
        "A list schedule (`python/mmulab/sweep/scaling.py`). The jobs are planned, the workers "
        "start, and each worker gets the",
        "next batch of the list when it is free. The command is one server: it sends batches and "
        "keeps results one after the",
        "other. The tables come last. Its costs are those of the timed run with one worker:",
        "",
        "| cost | seconds | of |",
        "|---|---:|---|",
        f"| start of the workers | {costs.start:.2f} | the sweep |",
        f"| from a worker's end of a batch to its begin of the next | {costs.ship:.4f} | each batch |",
        f"| planning | {costs.plan:.5f} | each job |",
        f"| checking and keeping a result | {costs.keep:.5f} | each job |",
        f"| tables | {costs.table:.5f} | each job |",
        "",
    ]


def _simulated(one: Timed) -> list[str]:
    rows = [
        "## Simulated",
        "",
        f"A sweep of {JOBS:,} jobs in batches of {BATCH}, whose times are those of the timed batches "
        "in turn. First with jobs",
        f"as long as the timed ones, then {LONGER[-1]} times as long.",
        "",
        "| a batch, mean | workers | simulated | speed-up | of the ideal | the command is busy |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    count = JOBS // BATCH
    for longer in LONGER:
        seconds = [took * longer for took in islice(cycle(one.batches), count)]
        jobs = [BATCH] * count
        alone = simulate(seconds, jobs, 1, one.costs).seconds
        for workers in SIMULATED:
            found = simulate(seconds, jobs, workers, one.costs)
            gain = alone / found.seconds
            rows.append(
                f"| {statistics.mean(seconds):.2f} s | {workers:,} | {_duration(found.seconds)} | {gain:,.1f} | "
                f"{gain / workers:.0%} | {found.command:.0%} |"
            )
    return [
        *rows,
        "",
        "Where the command is busy all the time, more workers gain nothing. Larger batches "
        "(`--batch`) help only against the",
        "cost of each batch. Planning, keeping and tables are paid for each job, whatever the number of workers.",
        "",
    ]


def _limits() -> list[str]:
    return [
        "## What the simulation leaves out",
        "",
        "- The network: the costs are those of processes on one computer.",
        "- The start of workers on many computers, which is taken to last as long as here.",
        "- Waiting in the queue of a cluster.",
        "- Workers that share caches and memory, or die.",
        "- A file system that many computers read the traces from.",
        "",
    ]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _processor() -> str:
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1].strip() if found else platform.machine()


if __name__ == "__main__":  # each worker imports this file
    main()
