"""Which machines a study has if none are named."""

import pytest
from conftest import CHECKOUT

from mmulab import engine
from mmulab.probe import system
from mmulab.study import defaults


def _processor(monkeypatch: pytest.MonkeyPatch, **what: object) -> None:
    here = {"isa": "x86-64", "vendor": "AuthenticAMD", "family": 0x1A, "model": 2, "name": "", **what}
    monkeypatch.setattr(system, "processor", lambda: here)


def test_this_computer_s_kind_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is listed moves to the front; another one takes the last one's place."""
    _processor(monkeypatch, family=0x19, model=0x11)
    assert defaults.machines("x86-64")[:2] == ("zen4-epyc9004", "skylake-e3-1240v5")
    _processor(monkeypatch)
    assert defaults.machines("x86-64") == ("zen5-epyc9005", "skylake-e3-1240v5", "zen3-5900x", "zen4-epyc9004")
    _processor(monkeypatch, vendor="GenuineIntel", family=6, model=0x6A)
    assert defaults.machines("x86-64")[:2] == ("icelake-xeon8380", "skylake-e3-1240v5")
    # Where nothing says, as for this computer.
    assert defaults.machines(None) == defaults.machines("x86-64")


def test_machines_are_of_the_program_s_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this computer is, so that no machine of one's own default is warned of."""
    _processor(monkeypatch)
    assert defaults.machines("aarch64") == defaults.BY_ISA["aarch64"]
    _processor(monkeypatch, isa="aarch64", vendor="Arm", model=0xD40)
    assert defaults.machines("aarch64")[:2] == ("neoverse-v1-graviton3", "neoverse-n1")
    assert defaults.machines("x86-64") == defaults.BY_ISA["x86-64"]
    shipped = {machine["name"] for machine in engine.machines()}
    for isa, names in defaults.BY_ISA.items():
        assert set(names) <= shipped
        for name in names:
            assert engine.resolve(engine.Job(name, "linux-4k"))["machine"]["isa"] == isa


def test_graviton4_and_grace_differ_by_what_the_kernel_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have Neoverse V2 cores; Grace's have half the L2 cache."""
    _processor(monkeypatch, isa="aarch64", vendor="Arm", model=0xD4F)
    for size, name in ((1 << 20, "neoverse-v2-grace"), (2 << 20, "neoverse-v2-graviton4")):
        listed = [{"level": 2, "bytes": size, "ways": 8}]
        monkeypatch.setattr(system, "caches", lambda listed=listed: listed)
        assert defaults.machines("aarch64")[0] == name


def test_a_trace_says_its_instruction_set() -> None:
    """Recordings and generators do; what is no trace says nothing."""
    assert defaults.isa_of_trace(str(CHECKOUT / "tests" / "data" / "cc1-small.mmt")) == "x86-64"
    assert defaults.isa_of_trace("gen:gups") == "x86-64"
    assert defaults.isa_of_trace("gen:no-such-thing") is None
