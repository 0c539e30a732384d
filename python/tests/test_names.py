"""What names mean on the command line, and what is said where they mean nothing: CHANGELOG number 24."""

import json
from pathlib import Path

import pytest
from conftest import Cli

MACHINE = "skylake-e3-1240v5"
TRACE = "gen:gups?footprint=1M&updates=500"


@pytest.mark.parametrize(
    ("group", "name"), [("machines", MACHINE), ("policies", "linux-thp"), ("workloads", "gups"), ("generators", "gups")]
)
def test_a_name_alone_is_shown(cli: Cli, group: str, name: str) -> None:
    """As `show` shows it."""
    shown = cli(group, name)
    assert shown.code == 0, shown.err
    assert name in shown.out
    if group != "generators":
        assert shown.out == cli(group, "show", name).out
        assert json.loads(cli(group, name, "--json").out) == json.loads(cli(group, "show", name, "--json").out)
    else:
        assert "pagerank" not in shown.out
        assert list(json.loads(cli(group, name, "--json").out)) == [name]


def test_a_slip_of_a_command_is_not_taken_for_a_name(cli: Cli) -> None:
    """`lst` is `list`."""
    refused = cli("machines", "lst")
    assert refused.code == 2
    assert "No such command" in refused.err


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("run", MACHINE, "--trace", TRACE, "--policy", "thp"), "linux-thp"),
        (("run", MACHINE, "--trace", TRACE, "--policy", "4k"), "linux-4k"),
        (("run", "zen3-5800", "--trace", TRACE), "zen3-5900x"),
        (("machines", "zen4"), "zen4-epyc9004"),
        (("machines", "skylake"), MACHINE),
        (("policies", "madvise"), "linux-thp-madvise"),
        (("workloads", "redi"), "redis"),
        (("generators", "gup"), "gups"),
    ],
)
def test_a_near_name_is_offered(cli: Cli, args: tuple[str, ...], meant: str) -> None:
    """Near as a whole or by a part of it."""
    refused = cli(*args)
    assert refused.code == 2
    assert f"did you mean {meant}" in refused.err.replace("'", "")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("run", MACHINE, "--trace", "gen:gups?footprint=8X"), "footprint is '8X', which is not a number"),
        (
            ("run", MACHINE, "--trace", "gen:gups?footprint=100T"),
            "footprint is 100T: give a power of two from 4K to 64T",
        ),
        (("run", MACHINE, "--trace", TRACE, "--set", "memory.size=100T"), "memory.size is 100T: give 16M to 15T"),
        (("run", MACHINE, "--trace", TRACE, "--set", "memory.size=8X"), "memory.size is '8X', which is not a number"),
        (("run", MACHINE, "--trace", TRACE, "--guest-memory", "100T"), "virtual.memory.size is 100T: give 16M to 15T"),
        (("workloads", "record", "gups", "--set", "footprint=8X"), "footprint is '8X', which is not a number"),
    ],
)
def test_a_size_beyond_its_range_is_refused_with_the_range(cli: Cli, args: tuple[str, ...], said: str) -> None:
    """And not as if the generator did not exist."""
    refused = cli(*args)
    assert refused.code == 2
    assert said in " ".join(refused.err.split())
    assert "no such generator" not in refused.err


@pytest.mark.parametrize("command", ["record", "study"])
def test_a_qemu_that_is_not_there_is_a_mistake(cli: Cli, tmp_path: Path, command: str) -> None:
    """Of the user's: exit code 2, and nothing is left."""
    (tmp_path / "not-executable").write_text("")
    for qemu in ("nope", "./not-executable"):
        refused = cli(command, "--qemu", qemu, "--", "true")
        assert refused.code == 2
        assert f"--qemu {qemu}: no such program" in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["not-executable"]


def test_a_filling_that_is_counted_is_said(cli: Cli) -> None:
    """With how long it is, so that it can be left out; a run without it says nothing."""
    filled = cli("run", MACHINE, "--trace", f"{TRACE}&init=true")
    # 1 MB of words of 8 bytes, each a row: 3 instructions, and 2 for its word.
    assert f"warning: init=true: the first {131072 * 5} instructions fill the arrays" in filled.err
    assert "fill the arrays" not in cli("run", MACHINE, "--trace", TRACE).err
    first, second = (cli("run", MACHINE, "--trace", f"{TRACE}&init=true&part={k}/2").err for k in (0, 1))
    # 2048 rounds of 64 rows and 500 updates: half of these rounds are 1274.
    assert f"the first {1274 * 64 * 5} instructions fill the arrays" in first
    assert f"the first {(2048 - 1274) * 64 * 5} instructions fill the arrays" in second
