"""Damaged traces: every command reads what can be read, says what is wrong, and exits with the same code."""

import re

import pytest
from conftest import Cli

MACHINE = "compendia-baseline"
# Two chunks of a native trace.
LARGE = "gen:gups?footprint=1M&updates=300000"

COMMANDS = {
    "info": ("trace", "info", "{}"),
    "head": ("trace", "head", "{}", "-n", "10M"),
    "verify": ("trace", "verify", "{}"),
    "convert": ("trace", "convert", "{}", "out.mmt"),
    "slice": ("trace", "slice", "{}", "out.mmt", "--start", "1000"),
    "run": ("run", MACHINE, "--trace", "{}"),
    "misses": ("run", MACHINE, "--trace", "{}", "--misses", "misses.mmt"),
    "contiguity": ("contiguity", MACHINE, "--trace", "{}"),
    "pages": ("pages", MACHINE, "--trace", "{}"),
    "study": ("study", "{}", "--machines", MACHINE, "--out", "study"),
}


def damaged(cli: Cli, damage: str) -> str:
    """Writes a trace with that damage; its name."""
    assert cli("trace", "convert", LARGE, "whole.mmt").code == 0
    content = bytearray((cli.cwd / "whole.mmt").read_bytes())
    chunks = [found.start() for found in re.finditer(b"MMTC", bytes(content))]
    index = content.rindex(b"MMTI")
    match damage:
        case "description":
            content[30] ^= 1
        case "first chunk":
            content[chunks[0] + 200] ^= 1
        case "last chunk":
            content[chunks[-1] + 200] ^= 1
        case "header":
            content[chunks[1] + 50] ^= 0xFF
        case "cut":
            del content[chunks[-1] + 300 :]
        case "index":
            content[index + 40] ^= 1
        case "trailer":
            content[-20] ^= 1
        case "appended":
            content += b"more"
    name = damage.replace(" ", "-") + ".mmt"
    (cli.cwd / name).write_bytes(content)
    return name


DAMAGES = ["description", "first chunk", "last chunk", "header", "cut", "index", "trailer", "appended"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_all_commands_exit_with_one(cli: Cli, damage: str) -> None:
    """CHANGELOG number 15: a damaged trace is a failure, not a mistake, wherever it is damaged, for every command."""
    name = damaged(cli, damage)
    for which, words in COMMANDS.items():
        ran = cli(*(word.format(name) for word in words))
        assert ran.code == 1, (which, ran.code, ran.err)
        assert "damaged" in ran.err or "cut short" in ran.err or "checksum" in ran.err, (which, ran.err)


def test_mistakes_exit_with_two(cli: Cli) -> None:
    """CHANGELOG number 15: a file that is not there, and one that is no trace, are mistakes for every command."""
    (cli.cwd / "picture.gif").write_bytes(b"GIF89a" + bytes(range(256)) * 8)
    for name in ("nothing.mmt", "picture.gif"):
        for which, words in COMMANDS.items():
            ran = cli(*(word.format(name) for word in words))
            assert ran.code == 2, (which, ran.code, ran.err)
            assert name in ran.err, (which, ran.err)


@pytest.mark.parametrize("damage", ["index", "trailer", "appended"])
def test_a_damaged_end_costs_nothing(cli: Cli, damage: str) -> None:
    """CHANGELOG number 14: all references are read, results are of all of them, and a copy is whole."""
    name = damaged(cli, damage)
    whole = cli("trace", "info", "whole.mmt", "--json").json()
    info = cli("trace", "info", name, "--json")
    found = info.json()
    keys = ("instructions", "references", "footprint_bytes", "hash")
    assert [found[key] for key in keys] == [whole[key] for key in keys]
    assert found["complete"]
    assert "damaged at its end" in info.err
    assert "`mmulab trace convert` writes a whole copy" in info.err

    of_whole = cli("run", MACHINE, "--trace", "whole.mmt", "--json").json()
    ran = cli("run", MACHINE, "--trace", name, "--json")
    result = ran.json()
    assert result["counts"] == of_whole["counts"]
    assert result["ended"]["reason"] == "trace-end-damaged"
    assert "every reference was run" in ran.err

    saved = cli("trace", "convert", name, "saved.mmt")
    assert "saved.mmt is whole" in saved.err
    assert cli("trace", "verify", "saved.mmt").code == 0
    again = cli("run", MACHINE, "--trace", "saved.mmt", "--json")
    assert (again.code, again.json()["counts"]) == (0, of_whole["counts"])
    lost = [w for w in again.json()["trace"]["warnings"] if "the index of the trace this is a copy of was damaged" in w]
    assert len(lost) == (damage == "index")
