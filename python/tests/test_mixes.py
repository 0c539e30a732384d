"""Several workloads in turns: as traces, in results, and on the command line."""

import json
from pathlib import Path
from typing import Any

import narration
import pytest
from bench import Bench
from conftest import CHECKOUT, Cli

from mmulab import UserError, engine
from mmulab.workloads.recipe import Recipe

CC1 = CHECKOUT / "tests" / "data" / "cc1-small.mmt"
SKYLAKE = engine.Job("skylake-e3-1240v5", "linux-4k")
HEAD = 'name = "m"\ntitle = "M"\nstanding = "own"\nwhy = "a test"\n'


def recipe(directory: Path, text: str) -> str:
    """A recipe's file."""
    path = directory / "m.toml"
    path.write_text(HEAD + text, encoding="utf-8")
    return str(path)


def run(trace: str, job: engine.Job = SKYLAKE, **options: Any) -> dict[str, Any]:
    """The result of a run."""
    return engine.run(trace, [job], engine.Options(**options)).results[0].data


@pytest.mark.parametrize("keys", ["", "?quantum=7", "?quantum=7&unit=instructions&migrate=true&cores=3"])
def test_members_are_what_they_are_alone(keys: str) -> None:
    found = run(f"mix:two-gups{keys}", max_instructions=None)
    assert found["complete"]
    members = {each["name"]: each for each in found["members"]}
    alone = run("gen:gups?footprint=16M&seed=1", max_instructions=2_000_000)
    for each in members.values():
        for key in ("instructions", "references"):
            assert each[key] == alone["counts"][key]
    for key in ("instructions", "references"):
        assert sum(each[key] for each in members.values()) == found["counts"][key]
    assert sum(each["walks"] for each in members.values()) == sum(
        found["counts"]["walks"][side]["walks"] for side in ("instruction", "data")
    )
    kernel = sum(each["cycles"]["kernel"] for each in members.values())
    assert kernel == pytest.approx(found["model"]["cycles"]["kernel"], abs=2)
    translation = found["model"]["cycles"]["tlb"] + found["model"]["cycles"]["walk"]
    assert sum(each["cycles"]["translation"] for each in members.values()) == translation


def test_a_mix_of_one_is_that_one(tmp_path: Path) -> None:
    alone = run(str(CC1), max_instructions=500_000)
    found = run(recipe(tmp_path, f'[mix]\nquantum = "3"\n[[mix.member]]\ntrace = "{CC1}"\n'), max_instructions=500_000)
    assert found["counts"] == alone["counts"]
    assert found["model"] == alone["model"]


def test_the_same_mix_is_the_same_result() -> None:
    first, again = (json.dumps(run("mix:two-gups", max_instructions=300_000)) for _ in range(2))
    assert first == again


def test_sharing_costs_and_longer_turns_cost_less() -> None:
    def walks(quantum: str) -> int:
        # Two tables whose pages the second level holds one of.
        found = run(f"mix:two-gups?footprint=4M&quantum={quantum}", max_instructions=1_000_000)
        return sum(int(each["walks"]) for each in found["members"])

    alone = run("gen:gups?footprint=4M", max_instructions=500_000)["counts"]["walks"]["data"]["walks"]
    assert walks("50") > walks("100k") > 2 * alone * 0.9


def test_explain_and_run_agree() -> None:
    trace = "mix:two-gups?footprint=1M&quantum=30&instructions=20k"
    for sets in ((), ("tlb_rules.asid_bits=0",), ("virtual.memory.size=64M",)):
        job = engine.Job("skylake-e3-1240v5", "linux-4k", sets)
        lines, told = narration.narrate(trace, job, engine.Options())
        assert told["counts"] == run(trace, job)["counts"]
        pids = {line["pid"] for line in lines if line["i"] is not None}
        assert pids == {1, 10001}


@pytest.mark.parametrize(
    "keys", ["", "&cores=2&migrate=true", "&as=machines", "&end=restart", "&as=machines&cores=2&end=restart"]
)
@pytest.mark.parametrize("bits", [0, 1, 12])
def test_the_checking_mode_holds(keys: str, bits: int) -> None:
    sets = (f"tlb_rules.asid_bits={bits}", *(("virtual.memory.size=64M",) if "machines" in keys else ()))
    job = engine.Job("zen3-5900x", "linux-thp", sets)
    found = run(f"mix:two-gups?footprint=1M&quantum=40{keys}", job, check="translations", max_instructions=3000)
    assert found["ended"]["reason"] == "limit", found["ended"]


def test_members_may_have_machines_of_their_own() -> None:
    job = engine.Job("skylake-e3-1240v5", "linux-4k", ("virtual.memory.size=256M", "core.count=1"))
    found = run("mix:two-gups?as=machines&quantum=1k", job, max_instructions=200_000)
    assert [each["vm"] for each in found["members"]] == [0, 1]
    assert len(found["counts"]["virtual"]["guests"]) == 2
    assert found["counts"]["virtual"]["machine_switches"] > 20
    gups = "gen:gups?footprint=16M&seed="
    named = run(f"{gups}1", job, vms=(f"{gups}2",), quantum=1000, max_instructions=200_000)
    assert found["counts"] == named["counts"]


def test_a_mix_within_a_machine(tmp_path: Path) -> None:
    job = engine.Job("skylake-e3-1240v5", "linux-4k", ("virtual.memory.size=256M",))
    found = run(
        "gen:gups?footprint=1M",
        job,
        vms=("mix:two-gups?footprint=1M&quantum=50",),
        quantum=500,
        max_instructions=200_000,
    )
    pids = {(each["vm"], each["pid"]) for each in found["regions"] if each["pid"]}
    assert pids == {(0, 1), (1, 1), (1, 10001)}


def test_members_on_cores_of_their_own_do_not_share(bench: Bench) -> None:
    def first_level(cores: int) -> int:
        job = engine.Job("skylake-e3-1240v5", "linux-4k", ("core.count=2",))
        found = run(f"mix:two-gups?footprint=256K&quantum=20&cores={cores}", job, max_instructions=400_000)
        return int(found["counts"]["tlb"]["l1d"]["misses"])

    assert first_level(2) * 10 < first_level(1)


def test_a_written_mix_is_that_mix(tmp_path: Path) -> None:
    job = engine.Job("skylake-e3-1240v5", "linux-4k", ("core.count=2", "tlb_rules.asid_bits=0"))
    name = "mix:two-gups?footprint=1M&quantum=100&cores=2&instructions=30k"
    for kind, file in (("native", "m.mmt"), ("text", "m.mmtx")):
        target = str(tmp_path / file)
        engine.trace_copy(name, target, kind)
        assert run(target, job)["counts"] == run(name, job)["counts"]


def test_each_shipped_mix_is_there() -> None:
    mixes = engine.mixes()
    assert {"mix-clang", "mix-small", "mix-medium", "mix-large", "mix-vms", "two-gups"} <= set(mixes)
    for name in set(mixes) - {"mix-clang"}:
        assert len(Recipe.load(name).mixed()["members"]) > 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mix:two-gusp", "no workload named 'two-gusp' (did you mean 'two-gups'?)"),
        ("mix:gups", "gups: it is not a mix"),
        ("mix:two-gups?quantum=0", "mix.quantum is 0"),
        ("mix:two-gups?footprin=1M", "did you mean `footprint`?"),
        ("nowhere.toml", "nowhere.toml: "),
        ("mix:mix-clang", "record it with `mmulab workloads record clang-sqlite`"),
    ],
)
def test_mistakes_are_told(cli: Cli, name: str, words: str) -> None:
    ran = cli("run", "skylake-e3-1240v5", "--trace", name)
    assert ran.code == 2
    assert words in ran.err.replace("\n", " ")


def test_what_contradicts_is_refused(cli: Cli) -> None:
    ran = cli("run", "skylake-e3-1240v5", "--trace", "mix:two-gups", "--quantum", "5")
    assert (ran.code, "quantum=10k" in ran.err) == (2, True)
    ran = cli("run", "skylake-e3-1240v5", "--trace", "mix:two-gups?as=machines")
    assert (ran.code, "--guest-memory" in ran.err) == (2, True)
    nested = ("--trace", "mix:two-gups?as=machines", "--vm", "gen:gups", "--guest-memory", "64M")
    ran = cli("run", "skylake-e3-1240v5", *nested)
    assert (ran.code, "runs virtual machines" in ran.err) == (2, True)
    with pytest.raises(UserError, match="it is not a mix"):
        engine.trace("mix:gups")


def test_the_commands_know_mixes(cli: Cli, tmp_path: Path) -> None:
    small = "footprint=64K"
    listed = {row["name"]: row for row in cli("workloads", "list", "--json").json()}
    assert listed["two-gups"]["mix"]
    assert not listed["gups"]["mix"]
    shown = cli("workloads", "show", "two-gups", "--set", small, "--set", "quantum=5")
    assert "in turns of 5 references, on 1 cores" in shown.out
    assert "gups 2: gen:gups?footprint=64K&seed=2 (2 M instructions)" in shown.out
    checked = cli("workloads", "check", "two-gups", "--set", small)
    assert checked.code == 0, checked.err
    assert "2 members: 4,000,000 instructions" in checked.out
    text = cli("run", "skylake-e3-1240v5", "--trace", f"mix:two-gups?{small}", "--max-instructions", "50k").out
    assert "Member" in text
    assert "gups 1" in text
    studied = cli("study", f"mix:two-gups?{small}", "--out", "s", "--max-instructions", "50k")
    assert studied.code in (0, 1), studied.err
    assert (tmp_path / "s" / "report.html").exists()
    info = cli("trace", "info", f"mix:two-gups?{small}", "--json").json()
    assert info["processes"] == 2
    recorded = cli("workloads", "record", "two-gups", "--set", small, "--max-instructions", "10k", "-o", "x.mmt")
    assert recorded.code == 0, recorded.err
    assert (tmp_path / "x.mmt").exists()
