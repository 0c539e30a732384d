"""Which build of the engine a wheel's user gets."""

from pathlib import Path

import pytest

from mmulab._level import LEVELS, V3, best, flags


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    for level in LEVELS:
        (tmp_path / level).mkdir()
        (tmp_path / level / "_core.abi3.so").touch()
    return tmp_path


def test_the_best_that_runs_is_taken(engines: Path) -> None:
    v4 = LEVELS["x86-64-v4"]
    assert best(engines, v4 | {"sse"}) == engines / "x86-64-v4" / "_core.abi3.so"
    assert best(engines, V3) == engines / "x86-64-v3" / "_core.abi3.so"
    # AVX-512 without one of its parts, as some processors have it, is no v4.
    assert best(engines, v4 - {"avx512vl"}) == engines / "x86-64-v3" / "_core.abi3.so"
    assert best(engines, V3 - {"bmi2"}) is None
    assert best(engines, frozenset()) is None


def test_a_level_that_the_wheel_lacks_is_passed_over(engines: Path) -> None:
    (engines / "x86-64-v4" / "_core.abi3.so").unlink()
    assert best(engines, LEVELS["x86-64-v4"]) == engines / "x86-64-v3" / "_core.abi3.so"


def test_flags_are_read_as_linux_prints_them(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu avx avx2\nbugs\t: x\nflags\t\t: other\n")
    assert flags(cpuinfo) == {"fpu", "avx", "avx2"}
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd\n")
    assert flags(cpuinfo) == frozenset()
    assert flags(tmp_path / "absent") == frozenset()
