"""Results of different descriptions have different names, and none is lost to another: CHANGELOG number 6."""

import json
from pathlib import Path

import pytest
from conftest import Cli

from mmulab.result import Result

MACHINE = "skylake-e3-1240v5"
TRACE = "gen:gups?footprint=1M&updates=500"
RUN = ("run", MACHINE, "--trace", TRACE, "--out", "out")
STUDY = ("study", TRACE, "--machines", MACHINE, "--policies", "linux-4k", "--out", "s")


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.json"))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        (("--set", "tlb.STLB.entries=192"), "tlb.STLB.entries=192"),
        (("--set", "policy.linux.zero_page=false"), "policy.linux.zero_page=false"),
        (("--base-cpi", "2"), "base_cpi=2.0"),
        (("--seed", "7"), "seed=7"),
        (("--max-instructions", "3000"), "max_instructions=3000"),
        (("--savable", "0.5"), "savable=0.5"),
        (("--unmapped", "stop"), "unmapped=stop"),
        (("--populate",), "its memory populated"),
    ],
)
def test_what_was_changed_is_in_the_name(cli: Cli, tmp_path: Path, changes: tuple[str, ...], word: str) -> None:
    """The file of the unchanged run stays as it was; label, file name and heading have the change."""
    assert cli(*RUN).code == 0
    plain = (tmp_path / "out" / f"{MACHINE}--linux-4k.json").read_bytes()
    ran = cli(*RUN, *changes)
    assert ran.code == 0, ran.err
    assert "in place of" not in ran.err
    first, second = names(tmp_path / "out")
    assert word.replace(" ", "_") in first
    assert second == f"{MACHINE}--linux-4k.json"
    assert (tmp_path / "out" / second).read_bytes() == plain
    assert word in Result.load(tmp_path / "out" / first).label
    compared = cli("compare", "out", "--json", "--force")
    assert compared.code == 0, compared.err
    headings = list(json.loads(compared.out)[0]["values"])
    assert headings[0] == f"{MACHINE} / linux-4k"
    assert word in headings[1]


def test_long_changes_are_cut_and_still_distinguished(cli: Cli, tmp_path: Path) -> None:
    """A file system takes 255 bytes of a name; two runs that differ behind the cut have two hashes."""
    many = [part for n in range(20) for part in ("--set", f"core.source=number {n} of many assignments")]
    for last in ("1", "2"):
        assert cli(*RUN, *many, "--set", f"core.window={last}").code == 0
    assert len(names(tmp_path / "out")) == 2
    assert all(len(name) < 200 for name in names(tmp_path / "out"))


def test_other_traces_and_descriptions_of_equal_names_are_kept_apart(cli: Cli, tmp_path: Path) -> None:
    """A name says neither the trace nor a machine file's content: its hash does."""
    assert cli(*RUN).code == 0
    assert cli("run", MACHINE, "--trace", "gen:gups?footprint=2M&updates=500", "--out", "out").code == 0
    text = cli("machines", "show", MACHINE).out.replace("window = ", "window = 1")
    (tmp_path / "edited.toml").write_text(text)
    assert cli("run", "edited.toml", "--trace", TRACE, "--out", "out").code == 0
    assert len(names(tmp_path / "out")) == 3
    again = cli(*RUN)
    assert f"wrote out/{MACHINE}--linux-4k.json, in place of the earlier result of the same description" in again.err
    assert len(names(tmp_path / "out")) == 3


def test_a_file_that_is_not_a_result_is_not_lost(cli: Cli, tmp_path: Path) -> None:
    """Whatever it holds, it is not a result of this description."""
    (tmp_path / "out").mkdir()
    notes = tmp_path / "out" / f"{MACHINE}--linux-4k.json"
    notes.write_text("mine")
    assert cli(*RUN).code == 0
    assert notes.read_text() == "mine"
    assert len(names(tmp_path / "out")) == 2


def test_one_result_given_twice_has_two_headings(cli: Cli) -> None:
    """JSON has a value for each."""
    assert cli(*RUN).code == 0
    path = f"out/{MACHINE}--linux-4k.json"
    compared = cli("compare", path, path, "--json")
    assert len(json.loads(compared.out)[0]["values"]) == 2


def test_files_of_one_pair_are_compared_beside_others(cli: Cli) -> None:
    """Files are not studies: none is left out because its machine and policy occur once."""
    assert cli(*RUN).code == 0
    assert cli(*RUN, "--policy", "linux-thp").code == 0
    assert cli(*RUN, "--set", "tlb.STLB.entries=192").code == 0
    compared = cli("compare", "out")
    assert compared.err == ""
    assert "tlb.STLB.entries=192" in compared.out
    assert "linux-thp" in compared.out


def test_a_study_of_another_description_is_not_lost(cli: Cli, tmp_path: Path) -> None:
    """Refused before anything runs; --replace replaces it; the same study is repeated with a word."""
    assert cli(*STUDY).code == 0
    before = (tmp_path / "s" / "report.html").read_bytes()
    for change in (("--set", "tlb.STLB.entries=192"), ("--populate",), ("--base-cpi", "2")):
        refused = cli(*STUDY, *change)
        assert refused.code == 2
        assert f"s: holds a study of {TRACE} on 1 machines" in refused.err
        assert "--replace" in refused.err
        assert (tmp_path / "s" / "report.html").read_bytes() == before
    again = cli(*STUDY)
    assert again.code == 0
    assert "report: s/report.html, in place of the earlier study" in again.err
    replaced = cli(*STUDY, "--set", "tlb.STLB.entries=192", "--replace")
    assert replaced.code == 0
    assert "tlb.STLB.entries=192" in replaced.out.splitlines()[0]
    assert [name.count("entries=192") for name in names(tmp_path / "s" / "results")] == [1]


def test_a_recording_is_not_lost_to_a_study_of_a_program(cli: Cli, tmp_path: Path) -> None:
    """Of a study that ended while it recorded, the recording is there and nothing else."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "trace.mmt").write_bytes(b"kept")
    refused = cli("study", "--out", "s", "--", "true")
    assert refused.code == 2
    assert "s: holds a recording, trace.mmt" in refused.err
    assert (tmp_path / "s" / "trace.mmt").read_bytes() == b"kept"


def test_two_machine_files_of_one_name_are_refused(cli: Cli, tmp_path: Path) -> None:
    """A report could not distinguish their results."""
    (tmp_path / "mine.toml").write_text(cli("machines", "show", MACHINE).out)
    refused = cli("study", TRACE, "--machines", f"{MACHINE},mine.toml", "--out", "s")
    assert refused.code == 2
    assert "two machine files say the same name" in refused.err


def test_recordings_of_other_parameters_have_other_names(cli: Cli, tmp_path: Path) -> None:
    """`workloads record` names the file; a second recording of the same says that it replaced the first."""
    record = ("workloads", "record", "gups", "--max-instructions", "10k")
    for sets in ((), ("--set", "footprint=1M"), ("--set", "footprint=2M")):
        ran = cli(*record, *sets)
        assert ran.code == 0, ran.err
        assert "in place of" not in ran.err
    found = sorted(path.name for path in tmp_path.glob("*.mmt"))
    assert found == ["gups--footprint=1M.mmt", "gups--footprint=2M.mmt", "gups.mmt"]
    assert "to gups.mmt" in (again := cli(*record)).err
    assert "in place of an earlier file that was there" in again.err
