"""`mmulab reproduce` and the names of performance events: what they print and keep, and what they refuse."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.exceptions import Exit
from conftest import CHECKOUT, SMALL, Cli

from mmulab import engine
from mmulab.cli.experiment import command_of, plan_of
from mmulab.cli.reproduce import reproduce
from mmulab.reproduce.experiments import EXPERIMENTS
from mmulab.reproduce.pte_coalescing import counters, published, render
from mmulab.reproduce.pte_coalescing.columns import COLUMNS, GROUPS
from mmulab.reproduce.pte_coalescing.counters import CYCLES, ROWS
from mmulab.reproduce.pte_coalescing.directions import direction
from mmulab.reproduce.pte_coalescing.table import AGED, Plan, run
from mmulab.reproduce.shared.experiment import Experiment

RECORDING = CHECKOUT / "tests" / "data" / "cc1-small.mmt"
TABLE = "pte-coalescing-table"


def test_the_list_names_every_command(cli: Cli) -> None:
    """CHANGELOG number 29: `mosaics` was a command that the list did not name."""
    listed = cli("reproduce", "list", "--json").json()
    assert [e["name"] for e in listed] == [e.name for e in EXPERIMENTS]
    assert {e["name"] for e in listed} == reproduce.commands.keys() - {"list"}
    for experiment in EXPERIMENTS:
        with pytest.raises(Exit) as shown:
            command_of(experiment).make_context(experiment.name, ["--help"])
        assert shown.value.exit_code == 0
    assert TABLE in cli("reproduce", "list").out


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_a_command_without_options_runs_the_plan_without_arguments(experiment: Experiment[Any]) -> None:
    """Options are declared once: a default on the command line is the plan's."""
    command = command_of(experiment)
    needed = [f"--{parameter.name}={SMALL}" for parameter in command.params if parameter.required]
    taken = command.make_context(experiment.name, list(needed)).params
    assert plan_of(experiment.plan, taken) == experiment.plan(*[SMALL for _ in needed])


def test_everything_is_kept_and_says_the_same(cli: Cli, tmp_path: Path) -> None:
    ran = cli("reproduce", TABLE, "--trace", RECORDING, "--max-instructions", "2M", "--beside", "clang", "--out", "out")
    assert ran.code == 0, ran.err
    out = tmp_path / "out"
    told = json.loads((out / "table.json").read_text())
    assert [c["key"] for c in told["columns"]] == [c.key for c in COLUMNS]
    assert [r["counter"] for r in told["rows"]] == list(ROWS)
    assert (out / "table.txt").read_text() == ran.out
    rows = list(csv.DictReader((out / "table.csv").read_text().splitlines()))
    paper = published.table("clang")
    for line, row in zip(rows, told["rows"], strict=True):
        for column in COLUMNS:
            assert float(line[column.key]) == pytest.approx(row["values"][column.key], abs=1e-6)
            assert float(line[f"{column.key} paper"]) == row["paper"][column.key] == paper[column.key][row["counter"]]
    page = (out / "table.html").read_text()
    assert "<link" not in page
    assert "http" not in page.replace("http://www.w3.org", "")
    for text in (*GROUPS.values(), *ROWS):
        assert text in page
        assert text in ran.out
    assert sorted(p.stem for p in (out / "results").glob("*.json")) == sorted(c.key.replace(":", "-") for c in COLUMNS)
    made, differing = told["comparisons"], told["differences"]
    assert f"Of {made} comparisons, {made - len(differing)} go the same way as the paper's." in ran.out
    for difference in differing:
        assert difference["explanation"] or "No explanation found" in ran.out


def test_freebsd_binaries_may_have_a_trace_of_their_own(cli: Cli) -> None:
    ran = cli("reproduce", TABLE, "--trace", SMALL, "--freebsd-trace", f"{SMALL}&seed=2", "--json")
    assert ran.code == 0, ran.err
    told = ran.json()
    assert told["trace"]["name"] == SMALL
    assert told["freebsd_trace"]["name"] == f"{SMALL}&seed=2"
    assert any(f"F5 and F2 run {SMALL}&seed=2" in note for note in told["notes"])
    assert "differences" not in told
    alone = cli("reproduce", TABLE, "--trace", SMALL).out
    assert "F5 and F2 run it as it is too" in alone
    assert f"Memory: 32G, {AGED['used']}" in alone
    aged = ("--set", "memory.fragment.kind=memhog", "--set", "memory.fragment.percent=50")
    assert (
        "memhog before the program starts: chunk 2M, percent 50" in cli("reproduce", TABLE, "--trace", SMALL, *aged).out
    )


def test_freebsd_binaries_have_a_heap_of_their_own_where_objects_are_told(cli: Cli, tmp_path: Path) -> None:
    lines = [
        "#: program /bin/prog",
        "#: heap told",
        "brk 0x10000000 0x10100000",
        "mmap 0x400000 64K rx anon",
        "f 0x400000 x9",
    ]
    for index in range(64):
        lines += [f"malloc {0x10000010 + 8192 * index:#x} 8000", f"w {0x10000010 + 8192 * index:#x}"]
    (tmp_path / "heap.mmtx").write_text("\n".join(lines) + "\n")
    for option, words in (
        ((), "jemalloc"),
        (("--freebsd-heap", "jemalloc,dirty_decay_ms=5"), "jemalloc, dirty_decay_ms 5"),
    ):
        told = cli("reproduce", TABLE, "--trace", "heap.mmtx", *option, "--json").json()
        assert any(f"its heap kept by {words}." in note for note in told["notes"]), told["notes"]
        assert "heap" in told["freebsd_trace"]["reshaped"]
        assert not told["trace"].get("reshaped")


def test_mistakes_are_named(cli: Cli) -> None:
    for args, words in (
        (["--trace", "none.mmt"], "no such trace"),
        (["--trace", SMALL, "--freebsd-trace", "none.mmt"], "no such trace"),
        (["--trace", SMALL, "--beside", "clnag"], "clang"),
        (["--trace", SMALL, "--set", "tlb.L1.group=8"], "L1-DTLB"),
    ):
        ran = cli("reproduce", TABLE, *args)
        assert ran.code == 2
        assert words in ran.err
    ran = cli("reproduce", "pte-coalescing-group-size", "--machine", "skylake-e3-1240v5")
    assert ran.code == 2
    assert "none of its TLBs coalesces groups" in ran.err


def test_a_table_that_contradicts_itself_is_not_shown() -> None:
    """A description whose events leave a size out, or count one twice."""
    table = run(Plan(SMALL))
    result = table.results["F5:super"]
    for event in result.perf:
        if event["name"].endswith("4k_l2_hit"):
            event["value"] += 1
    with pytest.raises(Exception, match="performance events contradict the counts: L2 DTLB hits by size"):
        counters.check(result)


def test_what_counts_as_a_change() -> None:
    assert direction("L1 ITLB misses", 1.578, 1.531) == 0, "little impact, paper 1 section 5.2.1"
    assert direction("L1 ITLB misses", 3.279, 1.578) == -1
    assert direction(CYCLES, 1.076, 1.078) == 0, "within the variance, section 5.3.7"
    assert direction(CYCLES, 1.004, 1.000) == -1
    assert direction("L2 DTLB misses", 0.001, 0.002) == 0, "no more than rounding"


def test_a_cell_without_a_counter_is_a_dash(tmp_path: Path) -> None:
    """A processor without counters of 1 GB pages."""
    text = (CHECKOUT / "machines" / "zen3-5900x.toml").read_text()
    parts = [part for part in text.split("\n[[perf.event]]") if "_1g_l2_" not in part]
    (tmp_path / "mine.toml").write_text("\n[[perf.event]]".join(parts).replace('"zen3-5900x"', '"mine"'))
    result = engine.run(SMALL, [engine.Job(str(tmp_path / "mine.toml"), "linux-4k")]).results[0]
    counters.check(result)
    values = counters.values(result)
    assert values["L2 DTLB 1 GB hits"] is None
    assert render.shown(values["L2 DTLB 1 GB hits"]) == "–"


@pytest.mark.parametrize(("machine", "coalesced"), [("zen3-5900x", "coalesced_page"), ("zenplus-2700x", "32k")])
def test_runs_speak_the_names_of_perf(cli: Cli, machine: str, coalesced: str) -> None:
    told = cli("run", machine, "--trace", SMALL, "--policy", "freebsd-reserv", "--json").json()
    events = {event["name"]: event["value"] for event in told["perf"]["events"]}
    sizes = ("1g", "2m", coalesced, "4k")
    hits, misses = (
        sum(events[f"ls_l1_d_tlb_miss.tlb_reload_{size}_l2_{found}"] for size in sizes) for found in ("hit", "miss")
    )
    tlb = told["counts"]["tlb"]
    assert (hits, misses) == (tlb["l2d"]["hits"], tlb["l2d"]["misses"])
    assert hits + misses == tlb["l1d"]["misses"]
    assert events["bp_l1_tlb_miss_l2_tlb_hit"] + events["bp_l1_tlb_miss_l2_tlb_miss"] == tlb["l1i"]["misses"]
    assert events["ex_ret_instr"] == told["counts"]["instructions"]
    assert [e["name"] for e in told["perf"]["events"] if e["modelled"]] == ["ls_not_halted_cyc"]
    text = cli("run", machine, "--trace", SMALL, "--perf-names").out
    assert all(name in text for name in events)


def test_machines_without_events_say_so(cli: Cli) -> None:
    assert "perf" not in cli("run", "compendia-baseline", "--trace", SMALL, "--json").json()
    assert "names no performance events" in cli("run", "compendia-baseline", "--trace", SMALL, "--perf-names").out


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ('name = "a"\ncounts = "instructions"\nsizes = ["4K"]', "sizes part hits and misses"),
        ('name = "a"\ncounts = "l2d-hits"\nsizes = ["4Q"]', "'4Q' is not a page size"),
        ('name = "ex_ret_instr"\ncounts = "instructions"', "two events are named 'ex_ret_instr'"),
        ('name = "a"\ncounts = "l2d-hit"', "did you mean `l2d-hits`?"),
    ],
)
def test_impossible_events_are_refused(cli: Cli, tmp_path: Path, event: str, words: str) -> None:
    text = (CHECKOUT / "machines" / "zen3-5900x.toml").read_text()
    (tmp_path / "mine.toml").write_text(f"{text}\n[[perf.event]]\n{event}\n")
    ran = cli("run", "./mine.toml", "--trace", SMALL)
    assert ran.code == 2
    assert words in ran.err
