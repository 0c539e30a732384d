"""One result: the engine's JSON with the figures reports speak of, and the identities every result must satisfy."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mmulab import aged, former_results
from mmulab._core import Failure, UserError
from mmulab.reshaped import reshape_warnings, reshape_words
from mmulab.units import show_count
from mmulab.visible import visible, visible_json

# The layout of results this package reads, as crates/machine writes it.
SCHEMA = 4
# Tables within tables that are written a key a line.
JSON_DEPTH = 4
# The policy of a host unless another one is named, as in crates/machine.
HOST_POLICY = "linux-4k"
# Options that change counts. Of the others, none changes what the label says.
OPTIONS = ("skip", "max_instructions", "base_cpi", "savable", "seed", "quantum")
# Most characters of a file's name that stand for changes, and hexadecimal digits of the hash after them.
SLUG_WORDS = 100
SLUG_HASH = 8
LEVELS = ("l1i", "l1d", "l2i", "l2d")
LEVEL_NAMES = {"l1i": "L1 instruction", "l1d": "L1 data", "l2i": "L2 instruction", "l2d": "L2 data"}


@dataclass(frozen=True)
class Identity:
    """A sum that must come out: what it says and its two sides."""

    name: str
    left: int
    right: int

    @property
    def holds(self) -> bool:
        """Whether it does."""
        return self.left == self.right


# What a profile without instruction misses has.
_NO_MISSES = {"places": 0, "l1i_misses": 0, "walks": 0, "stall_cycles": 0}


class Saved(NamedTuple):
    """Where a result was written, and whether an earlier result of the same description was there."""

    path: Path
    replaced: bool


class Result:
    """A run of one machine under one policy."""

    def __init__(self, data: dict[str, Any], path: Path | None = None) -> None:
        """Wraps the engine's JSON; `path` is where it was read from."""
        self.data = data
        self.path = path

    @classmethod
    def load(cls, path: Path) -> "Result":
        """Reads a result file."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(
                f"{path}: {error.strerror}\nhint: give result files that `mmulab run --out` wrote"
            ) from None
        except ValueError as error:
            raise UserError(f"{path}: not a result of mmulab: {error}") from None
        if not isinstance(data, dict) or not {"counts", "machine", "policy", "trace"} <= data.keys():
            raise UserError(
                f"{path}: not a result of mmulab: it lacks counts, machine, policy or trace\n"
                "hint: give the files under a study's results/, or those `mmulab run --out` wrote"
            )
        layout = data.get("schema")
        if isinstance(layout, int) and former_results.OLDEST <= layout < SCHEMA:
            data = former_results.today(data, SCHEMA)
        elif layout != SCHEMA:
            raise UserError(
                f"{path}: a result of mmulab {data.get('version')}, in layout {layout} and not {SCHEMA}\n"
                "hint: run the trace again"
            )
        return cls(data, path)

    def save(self, directory: Path) -> Saved:
        """Writes the result into `directory` under its slug, or with its hash where that file is of another run."""
        path = directory / f"{self.slug}.json"
        if path.exists() and not self._is_of_same_run(path):
            path = directory / f"{self._pair_slug}--{self.identity}.json"
        replaced = path.exists()
        write_text(path, json_text(self.data))
        return Saved(path, replaced)

    def _is_of_same_run(self, path: Path) -> bool:
        try:
            return Result.load(path).identity == self.identity
        except UserError:
            return False

    # Who and what -------------------------------------------------------------------------------------------------

    @property
    def machine(self) -> str:
        """The machine's name."""
        return str(self.data["machine"]["name"])

    @property
    def members(self) -> list[dict[str, Any]]:
        """What each member had, where the trace is a mix."""
        return list(self.data.get("members", []))

    @property
    def machine_title(self) -> str:
        """The name people know it by."""
        return str(self.data["machine"].get("title") or self.machine)

    @property
    def policy(self) -> str:
        """The policy's name."""
        return str(self.data["policy"]["name"])

    @property
    def trace(self) -> dict[str, Any]:
        """What was run."""
        trace: dict[str, Any] = self.data["trace"]
        return trace

    @property
    def changed(self) -> str:
        """How the trace was changed on its way here; empty if it was not."""
        return reshape_words(self.trace.get("reshaped") or {})

    @property
    def warnings(self) -> list[str]:
        """What the trace warns of, and a machine that is meant for other programs."""
        found = [str(w) for w in self.trace.get("warnings") or []]
        found += reshape_warnings(self.trace.get("reshaped") or {})
        if of := self.trace.get("misses_of"):
            found.append(f"TLBs: none; every reference is a walk (the trace holds the misses of {of})")
        isa, meant = self.trace.get("isa"), self.data["machine"]["isa"]
        if isa and isa != meant:
            found.append(f"{self.machine} is a machine for {meant}; the trace is of {isa} code")
        return found

    @property
    def pair(self) -> str:
        """Machine and policy."""
        return f"{self.machine} / {self.policy}"

    @property
    def changes(self) -> list[str]:
        """What of the descriptions and options is not as the names of machine and policy say: one text for each."""
        # Memory as used is every study's own unless it says otherwise: the report has it among its assumptions.
        found = [str(assignment) for assignment in self.data.get("set") or [] if assignment != aged.USED]
        host = (self.data.get("host_policy") or {}).get("name")
        if host not in (None, HOST_POLICY):
            found.append(f"host {host}")
        if adviser := self.data.get("adviser"):
            found.append(f"adviser {adviser}")
        options = self.data["options"]
        found += [f"{key}={options[key]}" for key in OPTIONS if options.get(key) is not None]
        if options.get("unmapped", "auto") != "auto":
            found.append(f"unmapped={options['unmapped']}")
        found += [f"vm={trace}" for trace in options.get("vms") or []]
        return [*found, self.changed] if self.changed else found

    @property
    def label(self) -> str:
        """Machine, policy, and everything that was changed of them."""
        memory = [aged.USED] if aged.USED in (self.data.get("set") or []) else []
        return " / ".join([self.pair, *memory, *self.changes])

    @property
    def _pair_slug(self) -> str:
        return file_name(f"{self.machine}--{self.policy}")

    @property
    def slug(self) -> str:
        """A file name: machine and policy; if anything was changed, the changes in words and a hash of the run."""
        if not self.changes:
            return self._pair_slug
        words = file_name("--".join(self.changes))[:SLUG_WORDS]
        return f"{self._pair_slug}--{words}--{self.identity}"

    @property
    def identity(self) -> str:
        """A short hash of everything that was run on everything: equal for results of the same description only."""
        of = {key: self.data.get(key) for key in ("machine", "policy", "host_policy", "options")}
        run = {**of, "trace": self.trace_identity, "reshaped": self.changed}
        if adviser := self.data.get("adviser"):
            run["adviser"] = adviser
        return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()[:SLUG_HASH]

    @property
    def trace_identity(self) -> str:
        """The hash of what was run, or the name of what has none."""
        return str(self.trace.get("hash") or self.trace["name"])

    @property
    def complete(self) -> bool:
        """Whether all that was asked for was run."""
        return bool(self.data["complete"])

    @property
    def ended(self) -> str:
        """Why it ended: `end`, `limit`, `interrupted`, ..."""
        return str(self.data["ended"]["reason"])

    @property
    def ended_message(self) -> str:
        """The same in words."""
        return str(self.data["ended"].get("message", ""))

    # Counted ------------------------------------------------------------------------------------------------------

    @property
    def counts(self) -> dict[str, Any]:
        """Everything counted."""
        counts: dict[str, Any] = self.data["counts"]
        return counts

    @property
    def instructions(self) -> int:
        """Instructions retired."""
        return int(self.counts["instructions"])

    @property
    def uncounted(self) -> str:
        """What was run and not counted before counts began, in words; empty if counts began at once."""
        found = []
        if cut := self.trace.get("skipped"):
            found.append(
                f"the trace begins {show_count(cut)} instructions into its program, with the pages in use then"
            )
        if skipped := (self.data.get("uncounted") or {}).get("instructions"):
            found.append(f"{show_count(skipped)} instructions were run first, to warm up")
        return "; ".join(found) + ": counts are of what follows, peaks of memory of all" if found else ""

    @property
    def references(self) -> int:
        """Data accesses and block fetches."""
        return int(self.counts["references"])

    def tlb(self, level: str) -> dict[str, int]:
        """Accesses, hits and misses of `l1i`, `l1d`, `l2i` or `l2d`."""
        found: dict[str, int] = self.counts["tlb"].get(level) or {"accesses": 0, "hits": 0, "misses": 0}
        return found

    def mpki(self, level: str) -> float:
        """Misses per thousand instructions of `l1i`, `l1d`, `l2i` or `l2d`."""
        return self.per_kilo(self.tlb(level)["misses"])

    def per_kilo(self, count: float) -> float:
        """`count` per thousand instructions."""
        return 1000 * count / self.instructions if self.instructions else 0.0

    def reloads(self, level: str, found: str) -> dict[str, int]:
        """Of misses of `l1i` or `l1d` that were `l2_hits` or `l2_misses`: how many brought in an entry of each size."""
        by_size: dict[str, int] = self.counts["reloads"][level][found]
        return by_size

    def walks(self, side: str) -> dict[str, int]:
        """Walks of the `instruction` or `data` side."""
        found: dict[str, int] = self.counts["walks"][side]
        return found

    @property
    def walk_count(self) -> int:
        """Walks of both sides."""
        return self.walks("instruction")["walks"] + self.walks("data")["walks"]

    @property
    def accesses_per_walk(self) -> float:
        """Page-table entries read per walk."""
        reads = self.walks("instruction")["accesses"] + self.walks("data")["accesses"]
        return reads / self.walk_count if self.walk_count else 0.0

    @property
    def walk_levels(self) -> list[dict[str, Any]]:
        """Reads by level and by who served them."""
        levels: list[dict[str, Any]] = self.counts["walks"].get("levels", [])
        return levels

    @property
    def host_walk_levels(self) -> list[dict[str, Any]]:
        """The same of the host's table, where walks have two dimensions; else empty."""
        levels: list[dict[str, Any]] = self.counts["walks"].get("host_levels", [])
        return levels

    @property
    def host(self) -> dict[str, Any] | None:
        """What was counted of the host below virtual machines; None without any."""
        host: dict[str, Any] | None = self.counts.get("virtual")
        return host

    @property
    def memory(self) -> dict[str, Any]:
        """What the kernel handed out."""
        memory: dict[str, Any] = self.counts["memory"]
        return memory

    @property
    def mapped_by_size(self) -> dict[str, int]:
        """Bytes that page tables map at the peak of each page size, zero pages left out."""
        return {size: int(value["peak"]) for size, value in self.memory["mapped"].items()}

    @property
    def zero_mapped(self) -> int:
        """Bytes of zero pages that page tables map at the peak of each of their sizes. They take no memory."""
        return sum(int(value["peak"]) for value in self.memory["mapped_zero"].values())

    @property
    def covered_by_size(self) -> dict[str, int]:
        """Bytes that page tables map at the peak of each page size, zero pages too: what a TLB has to translate."""
        return covered(self.memory)

    @property
    def resident_peak(self) -> int:
        """Most bytes the program held in memory: private pages and the page cache, each frame once."""
        return int(self.memory["resident_bytes_peak"])

    @property
    def table_peak(self) -> int:
        """Most bytes the page tables took."""
        return int(self.memory["table_bytes_peak"])

    @property
    def accessed(self) -> int | None:
        """Bytes of pages that were accessed, private ones and those of files. None if untracked."""
        return self._if_tracked("touched_bytes")

    @property
    def bloat(self) -> int | None:
        """Bytes of private memory that was resident and never touched: what page sizes cost. None if untracked."""
        return self._if_tracked("bloat_bytes")

    @property
    def read_around(self) -> int | None:
        """Bytes of files that were read in and never touched. None if untracked."""
        return self._if_tracked("read_around_bytes")

    def _if_tracked(self, key: str) -> int | None:
        value = self.memory.get(key)
        return None if value is None else int(value)

    @property
    def fmfi(self) -> dict[str, tuple[float, float]]:
        """By size of block, the share of free memory that it cannot use: before the program and after it."""
        orders = self.memory["fragmentation"]["orders"]
        return {str(o["block"]): (float(o["fmfi_at_start"]), float(o["fmfi_at_end"])) for o in orders}

    @property
    def fmfi_target(self) -> float | None:
        """The index the machine's memory was to be fragmented to, for blocks of 2 MB; None if it was not."""
        target = self.memory["fragmentation"]["target"]
        return None if target is None else float(target["fmfi"])

    # Modelled -----------------------------------------------------------------------------------------------------

    @property
    def model(self) -> dict[str, Any]:
        """Everything modelled."""
        model: dict[str, Any] = self.data["model"]
        return model

    @property
    def translation_cycles(self) -> int:
        """Cycles that translation adds."""
        return int(self.model["translation_cycles"])

    @property
    def translation_share(self) -> float:
        """Their share of user time."""
        return float(self.model["share_of_time"])

    @property
    def total_cycles(self) -> int:
        """All cycles, kernel work included."""
        return int(self.model["cycles"]["total"])

    @property
    def user_cycles(self) -> int:
        """All cycles without kernel work, a host's among it."""
        cycles = self.model["cycles"]
        return self.total_cycles - int(cycles["kernel"]) - int(cycles.get("host", 0))

    @property
    def is_quick(self) -> bool:
        """Whether a base CPI and stalls stand for time, and not a core in time."""
        return bool(self.model["method"] != "core-in-time")

    @property
    def serial_cycles(self) -> int:
        """User cycles if nothing overlapped with translation."""
        return int(self.model["cycles"]["base"]) + int(self.model["translation_cycles_serial"])

    @property
    def perf(self) -> list[dict[str, Any]]:
        """What the machine's own performance counters would say; empty if its description names none."""
        events: list[dict[str, Any]] = (self.data.get("perf") or {}).get("events", [])
        return events

    # By place -----------------------------------------------------------------------------------------------------

    @property
    def programs(self) -> list[dict[str, Any]]:
        """The programs that processes of the trace ran."""
        programs: list[dict[str, Any]] = self.data["programs"]
        return programs

    @property
    def regions(self) -> list[dict[str, Any]]:
        """Costs by region."""
        regions: list[dict[str, Any]] = self.data["regions"]
        return regions

    @property
    def halves(self) -> dict[str, dict[str, int]]:
        """Costs in user space and in the kernel's half of address spaces. Empty where the trace shows no kernel."""
        found: dict[str, dict[str, int]] = self.data.get("halves", {})
        return found

    @property
    def code(self) -> dict[str, Any]:
        """Costs by block of code: the `places` of the highest cost, and the `rest` summed. Empty without a profile."""
        code: dict[str, Any] = self.data["code"]
        return code

    @property
    def fault_latency(self) -> list[dict[str, Any]]:
        """The time of page faults by kind and size. Empty where it was not asked for."""
        found: list[dict[str, Any]] = self.data.get("fault_latency", [])
        return found

    @property
    def code_residency(self) -> list[dict[str, Any]]:
        """Of each 2 MB of code, the clusters of 64 KB in memory. Empty where it was not asked for."""
        found: list[dict[str, Any]] = self.data.get("code_residency", [])
        return found

    @property
    def heat(self) -> dict[str, Any]:
        """Costs by 2 MB of memory: the `places` of the highest cost, and the `rest` summed. Empty without a profile."""
        heat: dict[str, Any] = self.data["heat"]
        return heat

    @property
    def edges(self) -> dict[str, Any]:
        """Instruction misses by the jump that met them: `places` with the most, and the `rest` summed."""
        edges: dict[str, Any] = self.data.get("edges") or {"places": [], "rest": _NO_MISSES}
        return edges

    def identities(self) -> Iterator[Identity]:
        """The sums that must come out in any result, complete or not."""
        for level in LEVELS:
            c = self.tlb(level)
            yield Identity(f"{LEVEL_NAMES[level]}: hits + misses = accesses", c["hits"] + c["misses"], c["accesses"])
        for above, below in (("l1i", "l2i"), ("l1d", "l2d")):
            hits, misses = self.tlb(below)["hits"], self.tlb(below)["misses"]
            name = LEVEL_NAMES[above]
            yield Identity(f"{name} misses = L2 hits + L2 misses", self.tlb(above)["misses"], hits + misses)
            yield Identity(f"{name} reloads by size = L2 hits", sum(self.reloads(above, "l2_hits").values()), hits)
        for array in self.counts.get("arrays", []):
            yield Identity(
                f"{array['name']}: hits + misses = accesses", array["hits"] + array["misses"], array["accesses"]
            )
        for side, miss in (("l1i", "l1i_misses"), ("l1d", "l1d_misses")):
            yield Identity(
                f"{LEVEL_NAMES[side]} misses of all regions = total",
                sum(int(r[miss]) for r in self.regions),
                self.tlb(side)["misses"],
            )
        yield Identity("walks of all regions = total", sum(int(r["walks"]) for r in self.regions), self.walk_count)
        resident = int(self.memory["resident_bytes"])
        # In virtual machines the memory told of is the first one's.
        own = sum(int(r["resident"]["now"]) for r in self.regions if not r.get("vm"))
        yield Identity("resident bytes of all regions = total", own, resident)
        if self.data["options"]["profile"]:
            for name, profile in (("code", self.code), ("memory", self.heat)):
                walks = sum(int(place["walks"]) for place in profile["places"]) + int(profile["rest"]["walks"])
                yield Identity(f"walks of all {name} = total", walks, self.walk_count)
            if "edges" in self.data and not self.host and not any(r.get("vm") for r in self.regions):
                parts = [*self.edges["places"], self.edges["rest"]]
                missed = sum(int(part["l1i_misses"]) for part in parts)
                yield Identity("L1 instruction misses of all jumps = total", missed, self.tlb("l1i")["misses"])
        if self.fault_latency and not self.host:
            timed: dict[str, int] = {}
            for row in self.fault_latency:
                timed[row["kind"]] = timed.get(row["kind"], 0) + int(row["faults"])
                sum_of_times = sum(time["cycles"] * time["faults"] for time in row["times"])
                # Each time is rounded to whole cycles.
                mean = f"mean time of {row['kind']} faults of {row['size']} = times / faults, rounded"
                off = abs(sum_of_times - row["mean_cycles"] * row["faults"])
                yield Identity(mean, int(off > row["faults"] / 2 + 1), 0)
            for kind, count in self.counts["kernel"]["faults"].items():
                yield Identity(f"timed {kind} faults = those counted", timed.get(kind, 0), int(count))
        counts = self.counts
        yield Identity(
            "fetches + reads + writes = references",
            counts["fetches"] + counts["reads"] + counts["writes"],
            counts["references"],
        )

    def check(self) -> None:
        """Raises Failure when a sum does not come out: such a result is not to be shown."""
        broken = [i for i in self.identities() if not i.holds]
        if broken:
            listed = "; ".join(f"{i.name}: {i.left} is not {i.right}" for i in broken)
            raise Failure(
                f"{self.label}: the counters contradict each other: {listed}\nhint: this is a defect of mmulab"
            )


def file_name(text: str) -> str:
    """The text as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.+=_-]+", "_", text)


def covered(place: dict[str, Any], when: str = "peak") -> dict[str, int]:
    """Bytes that page tables map of a region or of all memory by page size, `now` or at the `peak`, zero pages too."""
    found = {size: int(value[when]) for size, value in place["mapped"].items()}
    for size, value in place.get("mapped_zero", {}).items():
        found[size] = found.get(size, 0) + int(value[when])
    return found


def stall(place: dict[str, Any]) -> int:
    """Cycles the core stalled for the translations of a place: a region, a block of code, 2 MB of memory."""
    return int(place["stall_cycles"])


def address(value: Any) -> int:
    """An address as the engine writes it: a number, or hexadecimal text."""
    return value if isinstance(value, int) else int(str(value), 16)


def json_text(value: Any) -> str:
    """JSON to be read and searched by people too: tables a key a line, the entries of lists a line each."""
    return _json(value, "") + "\n"


def _json(value: Any, indent: str) -> str:
    inner = indent + " "
    if isinstance(value, dict) and value and len(indent) < JSON_DEPTH:
        lines = [f"{inner}{_flat(key)}: {_json(entry, inner)}" for key, entry in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(entry, dict | list) for entry in value):
        return "[\n" + ",\n".join(f"{inner}{_flat(entry)}" for entry in value) + f"\n{indent}]"
    return _flat(value)


def _flat(value: Any) -> str:
    return visible_json(json.dumps(value, ensure_ascii=False))


def write_text(path: Path, text: str) -> None:
    """Writes a file that people read, whole or not at all, with an error that names it."""
    partial = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(visible(text), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise Failure(f"{path}: {error.strerror}\nhint: choose another directory with --out") from None


def read_kept(path: Path) -> Any:
    """What an earlier run kept in a JSON file; None if it is not there, or somebody cut it: then it is made anew."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
