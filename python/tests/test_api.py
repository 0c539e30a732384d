"""The Python API in one place: it gives what the parts below give, and refuses what they refuse."""

import shutil
from pathlib import Path

import pytest

from mmulab import Failure, UserError, api, engine
from mmulab.engine import Job, Options

TRACE = "gen:gups?footprint=4M&updates=2000"
MACHINE = "zen3-5900x"


def test_runs_and_explanations_are_the_engines() -> None:
    trace = api.open(TRACE)
    sets = ("tlb.L2-DTLB.entries=1024",)
    found = trace.run(MACHINE, ["linux-4k", "linux-thp"], sets=sets)
    for policy, result in zip(("linux-4k", "linux-thp"), found, strict=True):
        assert result.data == engine.run(TRACE, [Job(MACHINE, policy, sets)]).results[0].data
    assert found[0].walk_count > found[1].walk_count > 0
    assert trace.info()["instructions"] == found[0].instructions
    lines = trace.explain(MACHINE, "linux-thp", instructions=500)
    (few,) = trace.run(MACHINE, ["linux-thp"], options=Options(max_instructions=500))
    assert len([line for line in lines if "i" in line]) == few.references
    assert trace.head(2).count("\n") == 2


def test_a_study_and_a_forecast_have_their_findings() -> None:
    trace = api.open("gen:gups?footprint=64M&updates=20000")
    found = trace.study([MACHINE], ["linux-thp"])
    # The baseline is always among the policies.
    assert found.policies == ["linux-4k", "linux-thp"]
    assert found.regions[MACHINE][0].kind == "anon"
    here = trace.forecast("zen4-epyc9004")
    assert 0 < here.saving < 1
    assert here.bounds[0] < here.saving < here.bounds[1]
    with pytest.raises(UserError, match=r"sandybridge: it has no core\.timing"):
        trace.forecast("sandybridge")


@pytest.mark.parametrize(("name", "said"), [("no.mmt", r"no\.mmt"), ("gen:gup", "gup"), ("mix:nothing", "nothing")])
def test_what_cannot_be_opened_is_refused_with_a_remedy(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as refused:
        api.open(name)
    assert "hint:" in str(refused.value) or "did you mean" in str(refused.value)


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-user to record")
def test_a_program_is_recorded_and_one_that_fails_is_named(tmp_path: Path) -> None:
    trace = api.record(["true"], tmp_path / "true.mmt", fixed_layout=True, env={"MMULAB_SEEN": "1"})
    assert api.open(trace.name).info()["instructions"] > 1000
    with pytest.raises(Failure, match=r"false: it ended with status 1"):
        api.record(["false"], tmp_path / "false.mmt")
    with pytest.raises(UserError, match="no-such-program: no such program"):
        api.record(["no-such-program"], tmp_path / "no.mmt")
    few = api.record(["true"], tmp_path / "few.mmt", max_instructions=5000)
    assert few.info()["instructions"] < trace.info()["instructions"]
