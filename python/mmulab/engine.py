"""The Rust engine with types: descriptions of work in, results out."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from mmulab import UserError, _core, paths
from mmulab.advised import Bridge
from mmulab.result import Result
from mmulab.version import build as build
from mmulab.version import version as version

Json = dict[str, Any]
ProgressCallback = Callable[[Json], None]

# Superpages of a MIX bundle in L1 and in L2: "16-128" (paper 4, section 4.2).
MIX_GROUPS = (16, 128)
# The program's memory is there before it runs: what is measured is the program at work, not the filling of its memory.
POPULATED: Json = {"populate": True}


@dataclass(frozen=True)
class Job:
    """One machine under one policy."""

    machine: str
    policy: str
    sets: tuple[str, ...] = ()
    # The policy of the host, where the machine runs its programs in virtual machines.
    host_policy: str | None = None

    def spec(self) -> Json:
        """As the engine takes it."""
        spec: Json = {"machine": self.machine, "policy": self.policy, "set": list(self.sets)}
        return spec if self.host_policy is None else {**spec, "host_policy": self.host_policy}


@dataclass(frozen=True)
class Options:
    """What belongs neither to machine nor to policy. None leaves the engine's default."""

    unmapped: str | None = None
    touched: bool = False
    profile: bool = False
    # Which pages of code ran in which part of the run.
    code_windows: bool = False
    # The time of every page fault, by kind and size.
    fault_latency: bool = False
    # Which clusters of 64 KB of code are in memory at the end.
    code_residency: bool = False
    threads: int | None = None
    # Instructions that are run first and not counted.
    skip: int | None = None
    max_instructions: int | None = None
    seed: int | None = None
    base_cpi: float | None = None
    savable: float | None = None
    # Time by a core in time, where the machine describes one.
    timing: bool | None = None
    # With `timing`: which samples are run in time (`mmulab.sampling`). None runs everything in time.
    sample: Json | None = None
    check: str | None = None
    # Samples of TLB misses and of accessed bits (`mmulab.leshy`).
    sampling: Json | None = None
    # Traces of further virtual machines, and the references each machine makes in turn.
    vms: tuple[str, ...] = ()
    quantum: int | None = None
    # What of the recorded program is to be otherwise: for all machines.
    reshape: Json | None = None

    def spec(self) -> Json:
        """As the engine takes it."""
        return {key: value for key, value in vars(self).items() if value is not None and key != "reshape"}


@dataclass(frozen=True)
class Ran:
    """What a run leaves."""

    results: list[Result]
    decode: Json = field(default_factory=dict)
    # The pages of code that ran, by part of the run, where that was asked for.
    code_windows: Json | None = None

    def whole(self) -> list[Result]:
        """The results. Raises KeyboardInterrupt where the user stopped it: times of parts are not to be compared."""
        if any(result.ended == "interrupted" for result in self.results):
            raise KeyboardInterrupt
        return self.results


# Where recordings that mixes name are looked for; the second is where `mmulab workloads table` keeps them.
RECORDINGS = (Path(), Path("build/workloads"))


def trace(name: str, recordings: Sequence[Path] = RECORDINGS) -> str:
    """What the engine knows a trace by: a mix (`mix:NAME?key=value`, or a recipe's file) with its members found.

    Recorded members are looked for in `recordings`. Raises UserError where it is a mix and cannot be had.
    """
    recipe = mix_of(name)
    return name if recipe is None else _core.mix(recipe, _workload_dirs(), list(recordings))


def mix_of(name: str) -> str | None:
    """The recipe that a trace's name stands for, with what is set in it; None if it names no mix."""
    if name.startswith("mix:") and not name.startswith("mix:{"):
        return name.removeprefix("mix:")
    return name if name.partition("?")[0].endswith(".toml") else None


def _spec(name: str, jobs: Sequence[Job], options: Options) -> str:
    own = options.spec()
    return json.dumps(
        {
            "trace": trace(name),
            "jobs": [j.spec() for j in jobs],
            "search": paths.search(),
            "options": {**own, "vms": [trace(vm) for vm in options.vms]},
            "reshape": options.reshape or {},
        }
    )


def _as_json(progress: ProgressCallback | None) -> Callable[[str], None] | None:
    return None if progress is None else lambda text: progress(json.loads(text))


def run(
    name: str,
    jobs: Sequence[Job],
    options: Options = Options(),
    progress: ProgressCallback | None = None,
    adviser: object | None = None,
) -> Ran:
    """Runs every job over one decoding of the trace `name`.

    `adviser`: whoever advises the kernel of the only job about page sizes (`mmulab.advised`). An exception that it
    raises, or the UserError for an answer that cannot be obeyed, has in its attribute `results` what was counted.
    """
    asked = None if adviser is None else Bridge(adviser)
    named = None if asked is None else (asked.name, asked)
    answer = json.loads(_core.run(_spec(name, jobs, options), _as_json(progress), named))
    ran = Ran([Result(r) for r in answer["results"]], answer.get("decode", {}), answer.get("code_windows"))
    if asked is not None and any(result.ended == "adviser" for result in ran.results):
        error = asked.raised or UserError(f"{asked.name}: {ran.results[0].ended_message}")
        vars(error)["results"] = ran.results
        raise error
    return ran


def misses(
    name: str, job: Job, options: Options, target: str, progress: ProgressCallback | None = None
) -> tuple[Result, Json]:
    """Runs one job and writes the references its TLBs did not serve to `target`: the result, and what was written."""
    answer = json.loads(_core.misses(_spec(name, [job], options), target, _as_json(progress)))
    return Result(answer["result"]), answer["written"]


def leshy_profile(
    name: str,
    job: Job,
    options: Options,
    target: str,
    accessed: str | None = None,
    progress: ProgressCallback | None = None,
) -> Result:
    """Runs one job with samples: writes the profile of misses to `target`, and of accessed bits to `accessed`."""
    return Result(json.loads(_core.leshy_profile(_spec(name, [job], options), target, accessed, _as_json(progress))))


def leshy_head(profile: str) -> Json:
    """What a profile file is of."""
    return cast(Json, json.loads(_core.leshy_head(profile)))


def leshy_select(profile: str, asked: Json) -> Json:
    """Page sizes for a profile file."""
    return cast(Json, json.loads(_core.leshy_select(profile, json.dumps(asked))))


def leshy_problem(profile: str, asked: Json) -> Json:
    """Equation 1 of paper 3 over the bins of a profile file."""
    return cast(Json, json.loads(_core.leshy_problem(profile, json.dumps(asked))))


def leshy_heat(profile: str, size: str) -> list[Json]:
    """The samples of a profile file by aligned pieces of memory."""
    return cast(list[Json], json.loads(_core.leshy_heat(profile, size)))


def hints(path: str) -> Json:
    """A hint file, checked."""
    return cast(Json, json.loads(_core.hints(path)))


def hints_schema() -> Json:
    """The JSON schema of hint files."""
    return cast(Json, json.loads(_core.hints_schema()))


def explain(name: str, job: Job, options: Options, line: Callable[[str], None]) -> Result:
    """Runs one job, giving `line` one JSON object for each reference."""
    return Result(json.loads(_core.explain(_spec(name, [job], options), line)))


def draw_tables(name: str, job: Job, options: Options) -> tuple[str, Result]:
    """Runs one job; the page tables it ends with, as text, and its result."""
    drawn = json.loads(_core.draw_tables(_spec(name, [job], options)))
    return drawn["drawing"], Result(drawn["result"])


def resolve(job: Job) -> Json:
    """The descriptions with every value known."""
    return cast(
        Json, json.loads(_core.resolve(job.machine, job.policy, job.host_policy, list(job.sets), paths.search_json()))
    )


def fit(machine: str, design: str | None, groups: tuple[int, int] = MIX_GROUPS, sets: Sequence[str] = ()) -> Json:
    """A machine's TLB arrays with their area, and those of another design that take no more."""
    found = _core.machine_fit(machine, design, groups, list(sets), paths.search_json())
    return cast(Json, json.loads(found))


def machines() -> list[Json]:
    """The machine files there are."""
    return cast(list[Json], json.loads(_core.list_machines(paths.search_json())))


def policies() -> list[Json]:
    """The policy files there are."""
    return cast(list[Json], json.loads(_core.list_policies(paths.search_json())))


def whole_file(kind: str, name: str) -> str:
    """A machine's or a policy's file (`kind` says which) with all that it inherits, as TOML."""
    whole = _core.whole_machine if kind == "machine" else _core.whole_policy
    return whole(paths.search_json(), name)


def policy_table() -> list[Json]:
    """What each policy is: sizes that faults map, allocation, promotion, hints."""
    return cast(list[Json], json.loads(_core.policy_table(paths.search_json())))


def generators() -> Json:
    """The JSON schema of each generator's keys, by its name."""
    return cast(Json, json.loads(_core.generators()))


def gate() -> int:
    """The address of the page that `mmulab-kernel` has mapped while it makes its data ready."""
    return _core.gate()


def before_gate(recording: str) -> int:
    """Instructions of a recording of `mmulab-kernel` before its data are ready."""
    return _core.before_gate(recording)


def twins(recording: str, generator: str) -> Json:
    """A recording of `mmulab-kernel` held against the generator (`gen:...`) of the same keys."""
    return cast(Json, json.loads(_core.twins(recording, generator)))


def machine_schema() -> Json:
    """The JSON schema of machine files."""
    return cast(Json, json.loads(_core.machine_schema()))


def policy_schema() -> Json:
    """The JSON schema of policy files."""
    return cast(Json, json.loads(_core.policy_schema()))


def result_schema() -> Json:
    """The JSON schema of results."""
    return cast(Json, json.loads(_core.result_schema()))


def explain_schema() -> Json:
    """The JSON schema of the lines of `explain`."""
    return cast(Json, json.loads(_core.explain_schema()))


def reshape_schema() -> Json:
    """The JSON schema of what can be changed of a recorded program."""
    return cast(Json, json.loads(_core.reshape_schema()))


def _workload_dirs() -> str:
    return json.dumps([str(p) for p in paths.workload_dirs()])


def workloads() -> list[Json]:
    """The recipes there are."""
    return cast(list[Json], json.loads(_core.list_workloads(_workload_dirs())))


def mixes() -> list[str]:
    """The names of the recipes that mix others."""
    return [str(row["name"]) for row in workloads() if row["mix"]]


def workload(name: str, sets: Sequence[str]) -> Json:
    """A recipe (`recipe`) with its parameters set, and its file (`path`)."""
    return cast(Json, json.loads(_core.workload(name, list(sets), _workload_dirs())))


def options_schema() -> Json:
    """The JSON schema of the options of a run."""
    return cast(Json, json.loads(_core.options_schema()))


def workload_schema() -> Json:
    """The JSON schema of recipes."""
    return cast(Json, json.loads(_core.workload_schema()))


def fill_braces(text: str, values: dict[str, str]) -> str:
    """A text of a recipe with `{NAME}` replaced by its value."""
    return _core.fill_braces(text, values)


def trace_info(path: str, progress: ProgressCallback | None = None) -> Json:
    """Reads a whole trace and summarises it."""
    return cast(Json, json.loads(_core.trace_info(trace(path), _as_json(progress))))


def recorded_pages(path: str, progress: ProgressCallback | None = None) -> Json:
    """Where a recorded system had pages: runs `by_size` (None if not recorded), and whether `with_kernel`."""
    return cast(Json, json.loads(_core.recorded_pages(trace(path), _as_json(progress))))


def trace_length(path: str, most: int | None = None) -> int:
    """Instructions of a trace, or `most` if it has more. Reads no further than it must."""
    return _core.trace_length(trace(path), most)


def unreadable(error: UserError) -> str:
    """What is wrong with a trace that cannot be read, with a remedy if the error has none."""
    remedy = "\nhint: give a file that `mmulab trace info` reads, gen:NAME?key=value or mix:NAME"
    return str(error) if "\nhint:" in str(error) else f"{error}{remedy}"


def trace_head(path: str, count: int) -> Json:
    """The first lines of a trace in text form (`text`), and what is wrong with it if it ends before (`problem`)."""
    return cast(Json, json.loads(_core.trace_head(trace(path), count)))


def trace_verify(path: str, progress: ProgressCallback | None = None) -> Json:
    """Reads all of a trace and checks every checksum."""
    return cast(Json, json.loads(_core.trace_verify(trace(path), _as_json(progress))))


def trace_format(path: str) -> str | None:
    """The format that a trace of this name is written in; None if the name has no ending of a format."""
    return _core.trace_format(path) or None


def trace_copy(
    source: str,
    target: str,
    form: str,
    start: int = 0,
    end: int | None = None,
    change: Json | None = None,
    progress: ProgressCallback | None = None,
) -> Json:
    """Writes the part between two instruction counts in the format `form`, changed as `change` says."""
    asked = json.dumps(change or {})
    return cast(Json, json.loads(_core.trace_copy(trace(source), target, form, start, end, asked, _as_json(progress))))


def record(spec: Json, progress: ProgressCallback | None = None) -> Json:
    """Records a program. `intervals`, if it is to be recorded in such: how many of how many instructions."""
    if spec.get("intervals"):
        length, every = spec["intervals"]
        spec = {**spec, "intervals": {"length": length, "every": every}}
    return cast(Json, json.loads(_core.record(json.dumps(spec), _as_json(progress))))


def elf_check(path: str, follow: bool) -> Json:
    """How the segments of an ELF file (and with `follow` of its libraries) stand to groups of pages."""
    return cast(Json, json.loads(_core.elf_check(path, follow)))


def elf_functions(path: str, debug_roots: Sequence[str]) -> tuple[list[tuple[int, int, str | None]], str | None]:
    """The functions of an ELF file by file offset (first, end, name), and the debug file that names some of them.

    Raises UserError for a file that cannot be read as one.
    """
    return _core.elf_functions(path, list(debug_roots))


def elf_sections(path: str) -> list[tuple[str, int, int]]:
    """The sections of an ELF file that are loaded into memory, by file offset: name, first byte, byte after the last.

    Raises UserError for a file that cannot be read as one.
    """
    return _core.elf_sections(path)


def elf_source_lines(path: str, offsets: Sequence[int], debug_roots: Sequence[str]) -> list[tuple[str, int] | None]:
    """The source lines of the code at file offsets of an ELF file: a path and a number each; None where none is known.

    Raises UserError for a file that cannot be read as one.
    """
    return _core.elf_source_lines(path, list(offsets), list(debug_roots))


def elf_layout(spec: Json) -> Json:
    """Where a linker would place segments."""
    return cast(Json, json.loads(_core.elf_layout(json.dumps(spec))))


def reorder(spec: Json, progress: ProgressCallback | None = None) -> Json:
    """An order of a recording's functions by the calls that it makes, and what that rests on."""
    asked = json.dumps({**spec, "trace": trace(spec["trace"])})
    return cast(Json, json.loads(_core.reorder(asked, _as_json(progress))))


def elf_pad(spec: Json) -> Json:
    """Pads the code of an ELF file to whole superpages, or takes that back."""
    return cast(Json, json.loads(_core.elf_pad(json.dumps(spec))))
