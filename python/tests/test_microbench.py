"""The microbenchmark: its language, its repeats, its report, and the experiments of docs/scenarios."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli
from scenarios import PAGES, Block, blocks

from mmulab import UserError, engine, microbench
from mmulab.units import parse_bytes

COUNTERS = microbench.COUNTERS
ZEN3 = engine.Job("zen3-5900x", "linux-4k")
Case = tuple[str, Block, Block]


def cases() -> list[Case]:
    """Every program of the pages with what it counts, by the heading above it."""
    found: list[Case] = []
    for page in sorted(PAGES.glob("coalescing-*.md")):
        title, program = "", None
        for part in blocks(page.read_text(encoding="utf-8")):
            if isinstance(part, str):
                title = part
            elif part.info[:1] == ["microbench"]:
                program = part
            elif part.info[:1] == ["counts"]:
                assert program, f"{page.name}, line {part.line}: counts of what?"
                found.append((f"{page.stem}: {title}: {program.info[1]}", program, part))
    return found


CASES = cases()


def plan_of(words: list[str]) -> microbench.Plan:
    """The plan that `region=2M trace_repeats=3` says."""
    given: dict[str, Any] = {}
    for word in words:
        key, _, value = word.partition("=")
        given[key] = value == "true" if key == "write_protect" else parse_bytes(value)
    return microbench.Plan(**given)


def rows(measured: microbench.Measured) -> list[str]:
    """As the pages write them."""
    return [" | ".join([s["text"], *(str(s[name]) for name in COUNTERS)]) for s in measured.samples]


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_experiment(case: Case) -> None:
    _, program, counts = case
    job = engine.Job(program.info[1], program.info[2])
    measured = microbench.run(program.text.strip(), job, plan_of(program.info[3:]))
    wanted = [re.sub(r"\s*\|\s*", " | ", line.strip()) for line in counts.text.splitlines()]
    assert rows(measured) == wanted


def test_every_kind_of_repeat_multiplies_the_work() -> None:
    plain = microbench.run("r0 w1: i2 r2", ZEN3, microbench.Plan(region=2 << 20))
    assert len(plain.samples) == 2
    thrice = microbench.run("r0 w1: i2 r2", ZEN3, microbench.Plan(region=2 << 20, trace_repeats=3))
    assert [(s["round"], s["word"]) for s in thrice.samples] == [(r, w) for r in range(3) for w in range(2)]
    assert thrice.samples[:2] == plain.samples
    # The second of two loads in a row is an L1 hit, which no counter sees.
    twice = microbench.run("r0 w1: i2 r2", ZEN3, microbench.Plan(region=2 << 20, operation_repeats=2))
    assert rows(twice)[0] == rows(plain)[0]
    # With four groups in all nothing leaves the L1: what differs is how often INVLPG makes a miss.
    local = microbench.run("i2 r2", ZEN3, microbench.Plan(region=2 << 20, local_repeats=5))
    assert sum(local.samples[0][name] for name in COUNTERS) == 5 * local.groups


def test_pages_afterwards_are_as_they_were_left() -> None:
    measured = microbench.run("r0 w2", ZEN3, microbench.Plan(region=2 << 20), pages=True)
    assert measured.pages is not None
    states = [(p["valid"], p["accessed"], p["modified"]) for p in measured.pages]
    assert states == 128 * [(True, True, False), (True, False, False), (True, True, True), (True, False, False)]


def test_a_region_that_cannot_coalesce_is_told(cli: Cli) -> None:
    fragmented = (
        "memory.size=64M",
        "memory.fragment.kind=memhog",
        "memory.fragment.percent=60",
        "memory.fragment.chunk=4K",
    )
    job = engine.Job("zen3-5900x", "linux-4k", fragmented)
    measured = microbench.run("r0 r1 r2 r3", job, microbench.Plan(region=2 << 20))
    assert measured.note is not None
    assert re.match(r"\d+ of 128 groups lie aligned", measured.note)
    coalesced = measured.samples[0]["l2_miss_coalesced"]
    assert coalesced == int(measured.note.split()[0])


@pytest.mark.parametrize(
    ("program", "more", "message"),
    [
        ("r0: r4", [], "column 5: page 4 is outside a group of 4: give 0 to 3"),
        ("r0 q1", [], "column 4: 'q1' is not an operation"),
        ("r0: : r1", [], "column 4: a word without operations"),
        ("r0", ["--group", "3"], "a group of 3 pages: give a power of two"),
        ("r0", ["--region", "3M"], "give 2M to 1T, a multiple of 2M"),
        ("r0 w1", ["--write-protect"], "column 4: a store to a write-protected region would end the program"),
        ("r0", ["--set", "tlb.L1-DTLB.group=3"], "group is 3: zen coalesces 4 or 8 pages"),
        ("r0", ["--set", "memory.size=256M", "--region", "512M"], "the machine stopped (out-of-memory)"),
    ],
)
def test_what_cannot_be_is_refused(cli: Cli, program: str, more: list[str], message: str) -> None:
    ran = cli("microbench", "zen3-5900x", program, "--policy", "linux-4k", *more)
    assert ran.code == (1 if "stopped" in message else 2)
    assert message in " ".join(ran.err.split())
    assert ran.out == ""


def test_a_machine_without_groups_needs_one_named() -> None:
    job = engine.Job("skylake-e3-1240v5", "linux-4k")
    with pytest.raises(UserError, match="say how many pages a group has"):
        microbench.run("r0", job)
    measured = microbench.run("r0 r1 r2 r3: r0", job, microbench.Plan(region=2 << 20, group=4))
    assert [s["l2_miss_coalesced"] + s["l2_hit_coalesced"] for s in measured.samples] == [0, 0]


def test_the_table_and_the_json_say_the_same(cli: Cli) -> None:
    ask = (
        "microbench",
        "zenplus-2700x",
        "r0 r1 : r0",
        "--policy",
        "linux-4k",
        "--region",
        "2M",
        "--trace-repeats",
        "2",
    )
    told = cli(*ask, "--json", "--pages")
    assert told.code == 0, told.err
    data = json.loads(told.out)
    assert (data["machine"], data["groups"], len(data["pages"])) == ("zenplus-2700x", 64, 512)
    shown = cli(*ask, "--pages")
    assert "over 64 groups of 8 pages" in shown.out
    for sample in data["samples"]:
        numbers = [f"{sample[name]:,}" for name in COUNTERS]
        assert any(re.findall(r"[\d,]+", line)[-4:] == numbers for line in shown.out.splitlines() if "r0" in line)


def test_live_runs_or_says_why_not(cli: Cli) -> None:
    """Only an AMD Zen with counters at hand can; everywhere else the reason is told."""
    ran = cli("microbench", "live", "r0: r0", "--group", "4", "--region", "2M")
    assert ran.code in (0, 2)
    if ran.code:
        assert "live: " in ran.err
        assert "name a simulated machine" in " ".join(ran.err.split())
    refused = cli("microbench", "live", "r0", "--set", "core.count=1")
    assert refused.code == 2


def test_the_check_finds_nothing_to_say(tmp_path: Path) -> None:
    for machine in ("zen3-5900x", "zenplus-2700x"):
        for program in ("r0 r1 r2 r3 w0 r1", "w0 w1 w2 w3 i1 r0 w1", "r3: r2: r1: r0: w2: r3 i3"):
            plan = microbench.Plan(region=2 << 20)
            options = engine.Options(check="translations")
            checked = microbench.run(program, engine.Job(machine, "linux-4k"), plan, options=options)
            assert rows(checked) == rows(microbench.run(program, engine.Job(machine, "linux-4k"), plan))
