"""Holds what the engine counts and times against what it counted before: `make golden` compares, `--write` accepts.

Every machine runs under every policy over small traces of every kind. The hash of each whole result is kept in
tests/golden.txt, a line each. A change that is to change no result leaves the file as it is. A change that mends a
defect changes lines, and its commit says which and why.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import engine

CHECKOUT = Path(__file__).resolve().parent.parent
KEPT = CHECKOUT / "tests" / "golden.txt"
GPU = "gpu-mix-baseline"
# Instructions of each run: enough for promotions, walks of all kinds and full arrays, and a fraction of a second.
INSTRUCTIONS = 150_000
HEAD = "# Written by scripts/golden.py --write: trace, machine, policy, what else, and a hash of the result.\n"
# Of a result, what is no result: which mmulab made it, and the list of what its descriptions assume.
ASIDE = ("version", "assumptions")
# Of the machine and the policy in it, what people read: better words change no result.
PROSE = ("title", "description", "source", "assumed")
_DATA = "tests/data"
_GUPS = "gen:gups?footprint=128M&updates=20k"


def _mix(how: str) -> str:
    """Two programs in turns, as processes or each in a virtual machine."""
    whole = {"skip": 0, "instructions": None, "after": 0, "core": None}
    members = [{"name": f"m{seed}", "trace": f"{_GUPS}&seed={seed}", **whole} for seed in (1, 2)]
    schedule = {"as": how, "quantum": 5000, "unit": "references", "cores": None, "migrate": False, "end": "all"}
    return "mix:" + json.dumps({"name": how, "schedule": {**schedule, "instructions": None}, "members": members})


@dataclass(frozen=True)
class Trace:
    """A trace, and how it is run."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    # Key-value pairs set on the machine.
    sets: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name in the file."""
        return "mix" if self.name.startswith("mix:") else self.name

    @property
    def how(self) -> str:
        """What else is asked for, in a word."""
        words = [f"{key}={value}" for key, value in self.options] + list(self.sets)
        return ",".join(words).replace(" ", "") or "-"


TRACES = (
    Trace(f"{_DATA}/cc1-small.mmt"),
    Trace(_GUPS),
    Trace("gen:btree?elements=200k&lookups=4k"),
    Trace("gen:ycsb?records=20k&operations=4k"),
    Trace("gen:stride?footprint=64M&stride=4160&references=60k"),
    Trace("gen:code-chain"),
    Trace(f"{_DATA}/cc1-small.mmt", options=(("reshape", {"populate": True}),)),
    Trace(_GUPS, sets=("memory.fragment={kind='memhog',percent=60,chunk='2M'}",)),
    Trace(_mix("processes")),
    Trace(f"{_DATA}/cc1-small.mmt", options=(("check", "translations"),)),
)
TIMED = (
    Trace(f"{_DATA}/cc1-small.mmt", options=(("timing", True),)),
    Trace(_GUPS, options=(("timing", True),)),
)
GUESTS = (Trace(_GUPS, options=(("vms", (f"{_GUPS}&seed=2",)), ("quantum", 5000))),)
WARPS = (Trace(f"{_DATA}/accel-sim/kernelslist.g"),)


def runs() -> Iterator[tuple[Trace, engine.Job]]:
    """All that is run, in the order of the file."""
    for machine in sorted(path.stem for path in (CHECKOUT / "machines").glob("*.toml")):
        described = engine.resolve(engine.Job(machine, "linux-4k"))["machine"]
        traces: Sequence[Trace] = WARPS if machine == GPU else TRACES
        if described["core"].get("timing"):
            traces = (*traces, *TIMED)
        host = "linux-thp" if described.get("virtual") else None
        if host is not None:
            traces = (*traces, *GUESTS)
        for policy in sorted(path.stem for path in (CHECKOUT / "policies").glob("*.toml")):
            for trace in traces:
                yield trace, engine.Job(machine, policy, trace.sets, host)


def _rounded(value: Any) -> Any:
    """Without prose, and with nine digits of each fraction: the last ones of a logarithm are the processor's and the
    C library's."""
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items() if key not in PROSE}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def line(trace: Trace, job: engine.Job) -> str:
    """A line of the file. What cannot be run is a line, too: its refusal is a result."""
    options = engine.Options(**{"max_instructions": INSTRUCTIONS, "threads": 1, **dict(trace.options)})
    try:
        (result,) = engine.run(trace.name, [job], options).results
        data = _rounded({key: value for key, value in result.data.items() if key not in ASIDE})
        found = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    except Exception as error:
        found = "refused:" + hashlib.sha256(str(error).encode()).hexdigest()[:16]
    return " ".join((trace.label, job.machine, job.policy, trace.how, found))


def lines(every: int = 1) -> list[str]:
    """All lines, or one of `every`."""
    chosen = list(runs())[::every]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda run: line(*run), chosen))


def main() -> int:
    """Compares or writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="accept what is found now")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="compare one line of N")
    asked = parser.parse_args()
    os.chdir(CHECKOUT)
    found = lines(1 if asked.write else asked.every)
    if asked.write:
        KEPT.write_text(HEAD + "\n".join(found) + "\n", encoding="utf-8")
        print(f"wrote {len(found)} lines of {KEPT}")
        return 0
    kept = set(KEPT.read_text(encoding="utf-8").splitlines())
    changed = [one for one in found if one not in kept]
    print("\n".join(changed))
    print(f"{len(changed)} of {len(found)} results differ from {KEPT.name}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
