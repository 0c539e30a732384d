"""`mmulab reproduce elastic`: the experiments of paper 3 as one command."""

import json

from conftest import Cli

from mmulab.reproduce.elastic import everything
from mmulab.reproduce.experiments import EXPERIMENTS
from mmulab.reproduce.shared import in_turn


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
