"""Runs that are kept: each is done once, and found again by a hash of all that its result depends on."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from mmulab import Failure, _core, engine
from mmulab.result import LEVELS, Result, covered, json_text, read_kept, write_text
from mmulab.sweep.identity import digest
from mmulab.workloads import cache

# Announce of each cell: how many are done, of how many, what it is called, and what came of it.
Announce = Callable[[int, int, str, "Figures"], None]
# What generators are called by.
GENERATED = "gen:"
# What is kept of a run; another number when that changes.
FIGURES = 7


class Stopped(Exception):
    """The user stopped the run; what is done is kept."""


@dataclass(frozen=True)
class Cell:
    """A run of one machine over one trace."""

    name: str
    trace: str
    job: engine.Job
    options: engine.Options = field(default_factory=engine.Options)
    # What stands for the trace's contents where it is not its name or file: how it was made.
    made_from: str = ""

    @cached_property
    def key(self) -> str:
        """A hash of all that the result depends on."""
        given = {
            "engine": _engine(),
            "figures": FIGURES,
            "trace": self.made_from or identity(self.trace),
            "descriptions": engine.resolve(self.job),
            "options": self.options.spec(),
            "reshape": self.options.reshape,
        }
        return digest(given)


@dataclass(frozen=True)
class Figures:
    """What is kept of a run."""

    data: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        """A figure by its name."""
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def per_walk(self) -> float:
        """Entries read by a walk."""
        return float(self.data["accesses"] / self.data["walks"]) if self.data["walks"] else 0.0

    @property
    def energy_nj(self) -> float:
        """What translation takes: leakage while the program runs, not while the kernel gives it its memory."""
        return energy_nj(self.data["energy"], self.data["cycles"])

    @classmethod
    def of(cls, result: Result) -> "Figures":
        """Out of a whole result."""
        counts, model = result.counts, result.model
        virtual = counts.get("virtual")
        host = virtual["walks"] if virtual else {}
        sides = ("instruction", "data")
        return cls(
            {
                "references": result.references,
                "instructions": result.instructions,
                "walks": result.walk_count,
                "accesses": sum(result.walks(s)["accesses"] for s in sides),
                "host_accesses": sum(host[s]["accesses"] for s in sides) if host else 0,
                "tables": _tables(counts["memory"]),
                "host_tables": _tables(virtual["memory"]) if virtual else None,
                "cycles": model["cycles"],
                # What instructions take without translation in the quick model, which a core in time does not have.
                "base": _base(result),
                "translation": {"window": model["translation_cycles"], "serial": model["translation_cycles_serial"]},
                "data_tlb": {level: counts["tlb"][level] for level in ("l1d", "l2d")},
                "mirroring": _mirroring(counts["arrays"]),
                "energy": {key: result.data["energy"][key] for key in ("dynamic_nj", "leakage_nj", "total_nj")},
                "contiguity": counts["memory"]["contiguity"]["by_size"],
                "mapped": counts["memory"]["mapped"],
                "resident": counts["memory"]["resident_bytes_peak"],
                "table_bytes": counts["memory"]["table_bytes_peak"],
                "kernel_work": counts["kernel"]["work"],
                # With `code_residency`: the kernel's cycles by what it worked for.
                "kernel_by": result.data.get("kernel_cycles_by", {}),
                "fault_latency": result.fault_latency,
                "sides": {s: result.walks(s) for s in sides},
                "tlb": {level: result.tlb(level) for level in LEVELS},
                "events": counts["kernel"]["events"],
                "faults": counts["kernel"]["faults"],
                "perf": {event["name"]: event["value"] for event in result.perf},
                # What retirement waited for, of a core in time.
                "stack": (result.data.get("timing") or {}).get("stack"),
                "code": result.code_residency,
                "ended": result.ended,
            }
        )


def medians(runs: Sequence[Figures]) -> Figures:
    """The median of each number over several runs. What is no number is the first run's."""
    return Figures({name: _median([run.data[name] for run in runs]) for name in runs[0].data})


def _median(values: list[Any]) -> Any:
    first = values[0]
    if any(isinstance(value, dict) for value in values):
        # A counter that is 0 in a run may be absent there.
        dicts = [value or {} for value in values]
        keys = dict.fromkeys(key for one in dicts for key in one)
        return {key: _median([one.get(key, 0) for one in dicts]) for key in keys}
    is_number = isinstance(first, int | float) and not isinstance(first, bool)
    return median(values) if is_number else first


def user(figures: Figures) -> float:
    """User time: what kernels and hosts do is the page policy's."""
    cycles = figures.cycles
    return float(cycles["total"] - cycles["kernel"] - cycles.get("host", 0))


def _base(result: Result) -> float:
    if result.data.get("timing") is None:
        return float(result.model["cycles"]["base"])
    return float(result.data["machine"]["core"]["base_cpi"]) * result.instructions


def energy_nj(energy: dict[str, Any], cycles: dict[str, Any]) -> float:
    """Of a result's `energy`, what falls to the user's part of its `cycles`."""
    share = 1 - (cycles["kernel"] + cycles.get("host", 0)) / cycles["total"] if cycles["total"] else 1.0
    return float(energy["dynamic_nj"]["total"] + energy["leakage_nj"] * share)


def _mirroring(arrays: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {a["name"]: {"fills": a["fills"], **a["mirroring"]} for a in arrays if a.get("mirroring")}


def _tables(memory: dict[str, Any]) -> dict[str, Any]:
    found = memory["tables"]
    names = ("small_bytes", "node_bytes", "unmerged_bytes", "refused_no_block")
    events = {what: sum(found[what].values()) for what in ("merges", "unmerges")}
    # A program that has ended has given all back: of it, what there was at the peak.
    when, suffix = ("now", "") if memory["table_bytes"] else ("peak", "_peak")
    mapped = sum(covered(memory, when).values())
    resident = memory[f"resident_bytes{suffix}"]
    by_level = {level: count for level, count in found["merges"].items() if count}
    return {
        **{n: found[n] for n in names},
        **events,
        "merges_by_level": by_level,
        "bytes": memory[f"table_bytes{suffix}"],
        "mapped": mapped,
        "resident": resident,
    }


def identity(trace: str) -> str:
    """What a trace contains: a generator's name and keys, or the digest of a file."""
    return trace if trace.startswith(GENERATED) else cache.sha256(Path(trace))


@lru_cache(maxsize=1)
def _engine() -> str:
    return cache.sha256(Path(str(_core.__file__)))


class Store:
    """Where results are kept, and what runs those that are not."""

    def __init__(
        self, announce: Announce | None = None, on_progress: engine.ProgressCallback | None = None, fresh: bool = False
    ) -> None:
        """`announce` is called after each cell, `on_progress` within one; `fresh`: run again what was run before."""
        self.announce, self.on_progress, self.fresh = announce, on_progress, fresh
        self.directory = cache.home() / "reproduce"

    def run(self, cells: Iterable[Cell], into: dict[str, Figures], together: bool = False) -> None:
        """Every cell by its name, into `into`. Those of one trace and options may share one decoding: `together`.

        Raises Stopped when the user stops it; what was done by then is there, and is found the next time.
        """
        wanted = list(cells)
        found = into
        found.update({cell.name: kept for cell in wanted if (kept := self._kept(cell)) is not None})
        done = sum(cell.name in found for cell in wanted)
        missing = [cell for cell in wanted if cell.name not in found]
        for group in _groups(missing) if together else [[cell] for cell in missing]:
            first = group[0]
            results = engine.run(first.trace, [cell.job for cell in group], first.options, self.on_progress).results
            for cell, result in zip(group, results, strict=True):
                if result.ended == "interrupted":
                    raise Stopped
                if not result.complete and result.ended != "limit":
                    raise Failure(f"{cell.name}: {result.ended}: {result.ended_message}")
                result.check()
                found[cell.name] = Figures.of(result)
                write_text(self._path(cell.key), json_text(found[cell.name].data))
                done += 1
                if self.announce:
                    self.announce(done, len(wanted), cell.name, found[cell.name])

    def has(self, cells: Iterable[Cell]) -> bool:
        """Whether all of them were done before."""
        return all(self._kept(cell) is not None for cell in cells)

    def misses(self, cell: Cell) -> Path:
        """The misses of a run as a trace, kept under the run's hash."""
        target = self.directory / f"misses-{cell.key}.mmt"
        if self.fresh or not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f"partial-{target.name}")
            result, _ = engine.misses(cell.trace, cell.job, cell.options, str(partial), self.on_progress)
            if result.ended == "interrupted":
                partial.unlink(missing_ok=True)
                raise Stopped
            partial.replace(target)
        return target

    def slice(self, trace: str, start: int, instructions: int) -> Path:
        """So many instructions of a generator from `start` on, as a trace that need not come there again."""
        key = digest({"engine": _engine(), "trace": trace, "start": start, "instructions": instructions})
        target = self.directory / f"slice-{key}.mmt"
        if self.fresh or not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f"partial-{target.name}")
            found = engine.trace_copy(
                trace, str(partial), "native", start, start + instructions, None, self.on_progress
            )
            if found["interrupted"]:
                partial.unlink(missing_ok=True)
                raise Stopped
            partial.replace(target)
        return target

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}.json"

    def _kept(self, cell: Cell) -> Figures | None:
        found = None if self.fresh else read_kept(self._path(cell.key))
        return None if found is None else Figures(found)


def _groups(cells: list[Cell]) -> list[list[Cell]]:
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(digest([cell.trace, cell.options.spec(), cell.options.reshape]), []).append(cell)
    return list(groups.values())
