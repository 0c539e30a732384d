"""The engine against the simplest model there is, event for event."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from reference import generate
from reference.frames import Mismatch
from reference.machine import Machine
from reference.mutations import HASHED_MUTATIONS, MUTATIONS

from mmulab import engine

# Each seed is a machine, a policy and a program.
SEEDS = range(500)
STEPS = 220
# Programs in which each thing there is to do is done, and each mistake shows.
ENOUGH = 150
# Programs over hashed tables.
HASHED = 120
# An interval of a compiler's run, in instructions: its events from the beginning, its references from there.
COMPILER = Path(__file__).parents[2] / "tests" / "data" / "cc1-small.mmt"
PART = (4_000_000, 4_100_000)


def narrate(trace: Path, job: engine.Job, unmapped: str) -> list[dict[str, Any]]:
    """What the engine tells."""
    lines: list[dict[str, Any]] = []
    engine.explain(str(trace), job, engine.Options(unmapped=unmapped), lambda line: lines.append(json.loads(line)))
    return lines


def in_order(line: dict[str, Any]) -> dict[str, Any]:
    """A line whose runs of invalidated entries are sorted: an array may forget several in any order."""
    out: list[dict[str, Any]] = []
    run: list[dict[str, Any]] = []
    for event in [*line["events"], None]:
        if event is not None and event.get("event") == "populated":
            # The model gives frames no numbers, so it knows of no runs; test_narration.py looks at them.
            continue
        if event is not None and event.get("tlb") == "invalidated":
            run.append(event)
            continue
        out += sorted(run, key=lambda e: (e["array"], e["va"], e["bytes"]))
        run = []
        if event is not None:
            out.append(event)
    return {**line, "events": out}


def compare(told: list[dict[str, Any]], machine: Machine, text: str) -> None:
    """Runs the model beside what the engine told, and says where they part."""
    problem = ""
    try:
        machine.run(text)
    except Mismatch as error:
        problem = str(error)
    for ours, theirs in zip(machine.lines, told, strict=False):
        ours, theirs = in_order(ours), in_order(theirs)
        if ours != theirs:
            parts = [
                f"{key}:\n  engine: {theirs.get(key)}\n  model:  {ours.get(key)}"
                for key in {**theirs, **ours}
                if theirs.get(key) != ours.get(key)
            ]
            raise AssertionError(f"reference {theirs['i']} of {theirs['va'] or 0:#x} differs in\n" + "\n".join(parts))
    if problem:
        raise AssertionError(f"reference {len(machine.lines)}: {problem}\n  engine: {told[len(machine.lines) :][:1]}")
    assert len(machine.lines) == len(told)


def case(seed: int, directory: Path, is_hashed: bool = False) -> tuple[Path, engine.Job, str, str]:
    """The trace, machine and policy of a seed."""
    random = Random(seed)
    table = generate.hashed(Random(f"hashed {seed}")) if is_hashed else None
    machine, policy = generate.machine(random, table), generate.policy(random)
    text = generate.Program(random, policy).text(STEPS)
    for name, content in (("machine.toml", machine), ("policy.toml", policy), ("trace.mmtx", text)):
        directory.joinpath(name).write_text(content, encoding="utf-8")
    job = engine.Job(str(directory / "machine.toml"), str(directory / "policy.toml"))
    return directory / "trace.mmtx", job, text, random.choice(["fault", "fault", "fault", "map", "stop"])


@pytest.mark.parametrize("block", range(0, len(SEEDS), 20))
def test_the_engine_and_the_model_tell_the_same(block: int, tmp_path: Path) -> None:
    for seed in SEEDS[block : block + 20]:
        trace, job, text, unmapped = case(seed, tmp_path)
        told = narrate(trace, job, unmapped)
        try:
            compare(told, Machine(engine.resolve(job), unmapped, told), text)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None


@pytest.mark.parametrize("block", range(0, HASHED, 20))
def test_hashed_tables_are_searched_as_the_model_does(block: int, tmp_path: Path) -> None:
    """Over tables found by hashing, which are resized as they fill and empty."""
    for seed in SEEDS[block : block + 20]:
        trace, job, text, unmapped = case(seed, tmp_path, is_hashed=True)
        told = narrate(trace, job, unmapped)
        try:
            compare(told, Machine(engine.resolve(job), unmapped, told), text)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None


@pytest.mark.parametrize(
    ("machine", "policy"),
    [("skylake-e3-1240v5", "linux-thp"), ("zen3-5900x", "linux-4k"), ("haswell-mix-baseline", "hugetlb-2m")],
)
def test_a_real_program_is_told_the_same_on_real_machines(machine: str, policy: str, tmp_path: Path) -> None:
    trace = tmp_path / "part.mmtx"
    engine.trace_copy(str(COMPILER), str(trace), "text", *PART)
    job = engine.Job(machine, policy, ("policy.hugetlb.pool=64M",) if policy.startswith("hugetlb") else ())
    told = narrate(trace, job, "fault")
    assert len(told) > 10_000
    compare(told, Machine(engine.resolve(job), "fault", told), trace.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [*MUTATIONS, *HASHED_MUTATIONS])
def test_a_wrong_model_is_found_out(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_hashed = name in HASHED_MUTATIONS
    (HASHED_MUTATIONS if is_hashed else MUTATIONS)[name](monkeypatch)
    for seed in SEEDS[:ENOUGH]:
        trace, job, text, unmapped = case(seed, tmp_path, is_hashed)
        told = narrate(trace, job, unmapped)
        try:
            compare(told, Machine(engine.resolve(job), unmapped, told), text)
        except (AssertionError, KeyError):
            # A model that is wrong may also fall over.
            return
    raise AssertionError(f"'{name}' makes no difference in {ENOUGH} programs")


def test_the_programs_do_everything_there_is_to_do(tmp_path: Path) -> None:
    seen: set[str] = set()
    for seed in SEEDS[:ENOUGH]:
        trace, job, _, unmapped = case(seed, tmp_path)
        for line in narrate(trace, job, unmapped):
            seen |= {f"l1 {line['l1']} {line['size'] >> 10}K", f"l2 {line['l2']} {line['size'] >> 10}K"}
            seen |= {f"{fault['kind']} {fault['size']}" for fault in line["fault"]}
            seen |= {e.get("why") or e.get("event") or f"flush {e.get('flush')}" for e in line["events"]}
    sizes = (4, 2 << 10, 1 << 20)
    wanted = {f"{level} {answer} {size}K" for level in ("l1", "l2") for answer in ("hit", "miss") for size in sizes}
    wanted |= {f"{kind} {size}" for kind in ("anon", "copy_on_write", "reuse") for size in ("4K", "2M", "1G")}
    wanted |= {f"{kind} {size}" for kind in ("zero_page", "zero_page_write") for size in ("4K", "2M")}
    wanted |= {f"{kind} 4K" for kind in ("file_cached", "file_read", "file_private", "write_notify")}
    wanted |= {f"flush {what}" for what in ("page", "range", "space", "all")}
    wanted |= {"split", "collapsed", "around", "read", "stack_growth", "asid", "failed"}
    wanted |= {"thp_not_advised", "thp_outside_vma", "thp_already_populated", "hugetlb_head", "hugetlb_tail"}
    wanted |= {"hugetlb_already_populated", "hugetlb_pool_empty", "collapse_empty"}
    assert wanted <= seen, wanted - seen
