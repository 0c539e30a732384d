"""Prints references per second of whole machines: generation, TLBs, walks, page tables, faults and policy included.

One figure for each access pattern, then what twelve machines over one pass cost beside single runs. Take the best of
several runs, and compare figures only within one.
"""

from mmulab import engine
from mmulab.study import Plan

MACHINE = "skylake-e3-1240v5"
PATTERNS = {
    "random 8 GiB": "gen:gups?footprint=8G&updates=3000000",
    "random 4 MiB": "gen:gups?footprint=4M&updates=10000000",
    "zipf 4 GiB": "gen:zipf?footprint=4G&references=10000000",
    "sequential": "gen:sequential?footprint=256M&references=40000000",
}
REPEATS = 3


def seconds(trace: str, jobs: list[engine.Job]) -> tuple[float, int]:
    """The best time of several runs, and the references of one machine."""
    rans = [engine.run(trace, jobs) for _ in range(REPEATS)]
    return min(float(r.decode["wall_s"]) for r in rans), rans[0].results[0].references


def main() -> None:
    """Prints the table."""
    print(f"{'whole machine, ' + MACHINE:40} {'refs/s':>12}")
    for name, trace in PATTERNS.items():
        for policy in ("linux-4k", "linux-thp"):
            time, references = seconds(trace, [engine.Job(MACHINE, policy)])
            print(f"  {name + ', ' + policy:38} {references / time / 1e6:10.1f} M")
    trace = PATTERNS["random 4 MiB"]
    plan = Plan(trace)
    one, _ = seconds(trace, [plan.jobs[0]])
    all_of_them, _ = seconds(trace, plan.jobs)
    print(f"{len(plan.jobs)} machines in one pass cost {all_of_them / one:.1f} single runs of {plan.jobs[0].machine}")


if __name__ == "__main__":
    main()
