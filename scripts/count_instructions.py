"""Counts the instructions of the engine's benchmark: a stopwatch may be too noisy to tell two builds apart.

    python3 scripts/count_instructions.py BENCH [OTHER] [NAME...]

BENCH is the program that `cargo bench -p mmulab-machine --bench speed --no-run` builds. Valgrind runs each measurement
with two numbers of references. The difference of the two counts is what the further references take. For a pattern that
is the sum of the bare loop, the TLBs alone and the whole machine; for a pair of machines, the sum of both. With OTHER,
a second build, its counts and the ratio of the two are printed, too. NAMEs are measurements (`MIX linux-4k
sequential`). Without them, all are counted whose references can be chosen.
"""

import re
import subprocess
import sys
from pathlib import Path

# The first mapping and all that is done once are in both counts.
FEW, MANY = 1 << 16, 1 << 18
# How often the benchmark repeats what it times.
REPEATS = 3
PATTERNS = ("random 8 GiB", "random 4 MiB", "90/10 mix", "sequential")
NAMES = (
    *(f"Skylake {pattern}" for pattern in PATTERNS),
    "GUPS 8 GiB",
    "GUPS in a guest",
    *(f"coalescing {pattern}" for pattern in PATTERNS[1:]),
    *(f"MIX {policy} {pattern}" for policy in ("linux-thp", "linux-4k") for pattern in PATTERNS),
    *(f"in time {program}" for program in ("compiler", "gups", "sequential")),
)


def instructions(bench: str, name: str, references: int) -> int:
    """Those that valgrind counts in one measurement."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command = [*tool, bench, f"--references={references}", name]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    counted = re.search(r"I\s+refs:\s+([\d,]+)", ran.stderr)
    if ran.returncode or not counted:
        raise SystemExit(f"error: {bench} ended with {ran.returncode}:\n{ran.stderr}")
    return int(counted[1].replace(",", ""))


def main() -> None:
    """Prints a line for each measurement."""
    benches = [word for word in sys.argv[1:] if Path(word).is_file()]
    names = sys.argv[1 + len(benches) :] or NAMES
    if not 1 <= len(benches) <= 2:
        raise SystemExit((__doc__ or "").strip())
    for name in names:
        each = [instructions(bench, name, MANY) - instructions(bench, name, FEW) for bench in benches]
        counts = "".join(f"{count / (MANY - FEW) / REPEATS:12.1f}" for count in each)
        ratio = f"{each[0] / each[1]:10.3f}" if len(each) == 2 else ""
        print(f"{name:28}{counts}{ratio}", flush=True)


if __name__ == "__main__":
    main()
