"""What the commands print and write."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL, Cli

from mmulab.result import Result
from mmulab.result_keys import meaning

MACHINE = "skylake-e3-1240v5"


def test_run_prints_one_result_as_json(cli: Cli) -> None:
    """Data alone on stdout; every identity holds; every key has a meaning in the reference."""
    ran = cli("run", MACHINE, "--trace", SMALL, "--json", "--profile", "--touched")
    assert ran.code == 0, ran.err
    data = ran.json()
    result = Result(data)
    identities = list(result.identities())
    assert len(identities) > 8
    assert all(i.holds for i in identities)
    assert result.complete
    assert result.ended == "end"
    assert result.instructions > 0
    places = [p for key, value in data.items() for p in _places(key, value)]
    assert [p for p in places if meaning(p) is None] == []


def _places(key: str, value: Any) -> list[str]:
    """Keys that the reference must explain: those of the top, and those below what is counted and modelled."""
    if key in ("counts", "model", "ended", "counts.walks", "energy"):
        return [p for inner, below in value.items() for p in _places(f"{key}.{inner}", below)]
    return [key]


def test_run_is_the_same_each_time(cli: Cli) -> None:
    """Same input, same result, with any number of threads."""
    first = cli("run", MACHINE, "--trace", SMALL, "--json").json()
    again = cli("run", MACHINE, "--trace", SMALL, "--json", "--threads", "1").json()
    assert first == again
    assert "threads" not in first["options"]


def test_run_for_people(cli: Cli) -> None:
    """Tables, without colours when asked for none."""
    ran = cli("run", MACHINE, "--trace", SMALL, "--policy", "linux-thp")
    assert ran.code == 0, ran.err
    assert "L1 data" in ran.out
    assert "Page walks" in ran.out
    assert "\x1b[" not in ran.out + ran.err


def test_set_changes_the_machine(cli: Cli) -> None:
    """And is repeated in the result."""
    ran = cli("run", MACHINE, "--trace", SMALL, "--set", "tlb.STLB.entries=12", "--set", "tlb.STLB.ways=12", "--json")
    assert ran.code == 0, ran.err
    arrays = {a["name"]: a for a in ran.json()["machine"]["tlb"]}
    assert arrays["STLB"]["entries"] == 12
    small = Result(ran.json()).walk_count
    usual = Result(cli("run", MACHINE, "--trace", SMALL, "--json").json()).walk_count
    assert small > usual


def test_max_instructions_ends_the_run_complete(cli: Cli) -> None:
    """It is what was asked for."""
    ran = cli("run", MACHINE, "--trace", SMALL, "--max-instructions", "1k", "--json")
    assert ran.code == 0
    data = ran.json()
    assert data["ended"]["reason"] == "limit"
    assert 1000 <= data["counts"]["instructions"] < 1100


def test_explain_agrees_with_run(cli: Cli) -> None:
    """One object a reference, and the same misses."""
    told = cli("explain", MACHINE, "--trace", SMALL)
    assert told.code == 0, told.err
    lines = [json.loads(line) for line in told.out.splitlines()]
    result = Result(cli("run", MACHINE, "--trace", SMALL, "--json").json())
    references = [x for x in lines if "va" in x]
    assert len(references) == result.references
    l1 = result.tlb("l1i")["misses"] + result.tlb("l1d")["misses"]
    assert sum(x["l1"] == "miss" for x in references) == l1
    assert {"i", "pid", "kind", "va", "pa", "size", "l1", "l2", "walk", "filled", "cycles"} <= references[0].keys()


def test_trace_roundtrip(cli: Cli) -> None:
    """A generator, its text, and the text of that are the same program."""
    assert cli("trace", "convert", SMALL, "a.mmtx").code == 0
    assert cli("trace", "convert", "a.mmtx", "b.mmtx").code == 0
    counts = [cli("run", MACHINE, "--trace", t, "--json").json()["counts"] for t in (SMALL, "a.mmtx", "b.mmtx")]
    assert counts[0] == counts[1] == counts[2]


def test_trace_info_head_and_slice(cli: Cli) -> None:
    """Each says something of the trace, as data."""
    info = cli("trace", "info", SMALL, "--json")
    assert info.code == 0, info.err
    assert info.json()["references"] == 6000
    assert "6,000" in cli("trace", "info", SMALL).out
    head = cli("trace", "head", SMALL, "-n", "5")
    assert head.code == 0
    assert len(head.out.splitlines()) == 5
    cut = cli("trace", "slice", SMALL, "b.mmtx", "--start", "1600", "--end", "3200")
    assert cut.code == 0, cut.err
    part = cli("run", MACHINE, "--trace", "b.mmtx", "--json").json()
    assert part["counts"]["instructions"] == 1600


@pytest.mark.parametrize("command", ["machines", "policies", "generators"])
def test_catalogues(cli: Cli, command: str) -> None:
    """As tables and as JSON."""
    words = [command] if command == "generators" else [command, "list"]
    assert cli(*words).out
    assert cli(*words, "--json").json()


def test_every_machine_and_policy_resolves(cli: Cli) -> None:
    """What is listed can be used."""
    for name in [m["name"] for m in cli("machines", "list", "--json").json()]:
        assert cli("machines", "show", name, "--json").json()["name"] == name
    for name in [p["name"] for p in cli("policies", "list", "--json").json()]:
        assert cli("policies", "show", name, "--json").json()["name"] == name


def test_what_a_file_inherits_can_be_put_in(cli: Cli, tmp_path: Path) -> None:
    """`--whole` writes a file without a base, which means the same."""
    for kind, name in (("machines", "compendia-nested"), ("policies", "linux-mthp")):
        assert cli(kind, "show", name).out.startswith("base = ")
        whole = cli(kind, "show", name, "--whole").out
        assert not any(line.startswith("base =") for line in whole.splitlines())
        (tmp_path / "own.toml").write_text(whole)
        assert cli(kind, "show", "./own.toml", "--json").out == cli(kind, "show", name, "--json").out


def test_a_base_that_leads_back_is_refused(cli: Cli, tmp_path: Path) -> None:
    """With the way, and the place of the key."""
    (tmp_path / "a.toml").write_text('base = "./b.toml"\nname = "a"\n')
    (tmp_path / "b.toml").write_text('name = "b"\nbase = "./a.toml"\n')
    ran = cli("run", MACHINE, "--trace", SMALL, "--policy", "./a.toml")
    assert ran.code == 2
    assert "b.toml:2:8: base leads back" in ran.err
    assert "a -> b -> a" in ran.err


def test_files_of_ones_own_are_found_by_name(cli: Cli, tmp_path: Path) -> None:
    """A `machines/` where the command runs comes first."""
    (tmp_path / "machines").mkdir()
    text = cli("machines", "show", MACHINE).out.replace(f'name = "{MACHINE}"', 'name = "mine"')
    (tmp_path / "machines" / "mine.toml").write_text(text)
    assert cli("run", "mine", "--trace", SMALL).code == 0


def test_docs_are_written_from_the_code(cli: Cli, tmp_path: Path) -> None:
    """And the ones in the repository are up to date."""
    from conftest import CHECKOUT

    assert cli("docs", "ref").code == 0
    for page in ("cli.md", "machine.md", "policy.md", "generators.md", "results.md", "workload.md"):
        fresh = (tmp_path / "ref" / page).read_text()
        assert fresh == (CHECKOUT / "docs" / "reference" / page).read_text(), f"{page}: run `make docs`"
