"""`mmulab reproduce elastic`: the experiments of paper 3 as one command."""

import json
from dataclasses import replace

import pytest
from conftest import Cli

from mmulab import engine
from mmulab.reproduce.elastic import everything, gains
from mmulab.reproduce.elastic.gains import Bar
from mmulab.reproduce.elastic.programs import FULL
from mmulab.reproduce.experiments import EXPERIMENTS
from mmulab.reproduce.shared import in_turn
from mmulab.units import parse_bytes


def test_each_part_has_the_command_s_options_and_its_own() -> None:
    """Quick where all of it is; in a virtual machine, fragmented or to scale where the part says so."""
    by_name = {experiment.name: experiment for experiment in EXPERIMENTS}
    whole = everything.Plan(quick=True, machine="neoverse-v2-grace")
    for name, (command, given) in everything.PARTS.items():
        plan = in_turn.Step(by_name[f"elastic-{command}"], given).plan(whole)
        assert plan.quick, name
        assert getattr(plan, "machine", whole.machine) == whole.machine, name
        assert {option: getattr(plan, option) for option in given} == given, name
        assert not hasattr(plan, "parts"), name
    # Figure 2, Figures 8 to 12, 13, 14 and 15, and what is left open.
    assert {command for command, _ in everything.PARTS.values()} == {
        name.removeprefix("elastic-")
        for name in by_name
        if name.startswith("elastic-") and name != "elastic-fault-path"
    }


def test_parts_that_are_named_are_run(cli: Cli) -> None:
    """One part: its files are those of its own command, and what was found is in the JSON of all."""
    ran = cli("reproduce", "elastic", "--quick", "--parts", "fault-latency", "--out", "out")
    assert ran.code == 0, ran.err
    out = cli.cwd / "out"
    (found,) = json.loads((out / "elastic.json").read_text())
    alone = cli("reproduce", "elastic-fault-latency", "--quick", "--out", "alone")
    assert alone.code == 0, alone.err
    assert found == json.loads((cli.cwd / "alone" / "elastic-fault-latency.json").read_text())
    assert (out / "elastic-fault-latency.md").read_text() == (
        cli.cwd / "alone" / "elastic-fault-latency.md"
    ).read_text()
    wrong = cli("reproduce", "elastic", "--parts", "figure-8")
    assert (wrong.code, "figure-8" in wrong.err) == (2, True)


def test_systems_are_named_with_their_commas_and_drawn(cli: Cli) -> None:
    """Names are in a list that has commas itself. A longer profile selects other sizes."""
    command = ("reproduce", "elastic-systems", "--quick", "--programs", "gups", "--json")
    found = {}
    for out, more in (("short", ()), ("long", ("--profile", "3M"))):
        told = cli(*command, "--out", out, "--systems", "+offline hints, faults,THP", *more)
        assert told.code == 0, told.err
        rows = {row["system"]: row for row in told.json()["rows"]}
        assert list(rows) == ["+offline hints, faults", "THP"]
        found[out] = rows["+offline hints, faults"]["l2_data_misses_of_4k"]
        drawn = (cli.cwd / out / "elastic-systems.svg").read_text()
        assert all(text in drawn for text in ("fresh memory", "gups", "THP", "+offline hints, faults"))
    assert found["long"] != found["short"]
    wrong = cli("reproduce", "elastic-systems", "--systems", "THP,+Leshy")
    assert (wrong.code, "there is no '+Leshy'" in wrong.err, "+Leshy, online; " in wrong.err) == (2, True, True)
    both = cli("reproduce", "elastic-systems", "--scaled", "--full")
    assert (both.code, "programs have one size" in both.err) == (2, True)


def test_bars_end_between_their_bounds_and_are_cut_at_the_top() -> None:
    """What is cut off says how much it is. More systems than colours are hatched."""
    panel = {
        "small": {"a": Bar([1.0, 3.0], measured=2.5)},
        "large": {"a": Bar([150.0, 170.0], measured=200.0), "b": Bar([5.0])},
    }
    drawn = gains.drawn({"natively": panel, "in a guest": {"small": {"b": Bar([-4.0])}}})
    assert all(f">{text}<" in drawn for text in ("160", "natively", "in a guest", "small", "large", "a", "b"))
    assert drawn == gains.drawn({"natively": panel, "in a guest": {"small": {"b": Bar([-4.0])}}})
    many = {"one": {f"system {n}": Bar([float(n)]) for n in range(8)}}
    assert "<pattern" in gains.drawn({"all": many})
    assert "<pattern" not in drawn


@pytest.mark.parametrize(
    ("name", "paper", "share"),
    [("xsbench", "122G", 0.98), ("btree", "33G", 1.03), ("hashjoin", "70G", 0.57), ("gups", "32G", 1.0)],
)
def test_programs_have_the_papers_sizes(name: str, paper: str, share: float) -> None:
    """Table III. Pages of 2 MB are mapped soon. Hash join has no more than its table in memory."""
    (program,) = (program for program in FULL if program.name == name)
    job, options = engine.Job("neoverse-n1", "linux-thp"), engine.Options(max_instructions=1000)
    result = engine.run(program.trace, [job], replace(options, reshape=engine.POPULATED)).results[0]
    whole = parse_bytes(paper)
    assert whole is not None
    assert result.counts["memory"]["resident_bytes_peak"] / whole == pytest.approx(share, abs=0.04)
