"""docs/gups-curve.md: memory accesses per TLB miss of random updates, against the closed form."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "gups_curve.py"
MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture(scope="module")
def curve() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gups_curve", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("size", [64 * MIB, 128 * MIB, 256 * MIB, 1 * GIB, 4 * GIB, 16 * GIB])
def test_a_short_run_is_near_the_closed_form(curve: ModuleType, size: int) -> None:
    assert curve.measure(size, updates=60_000) == pytest.approx(curve.closed_form(size), rel=0.02)


def test_the_closed_form_has_the_values_the_page_speaks_of(curve: ModuleType) -> None:
    assert curve.closed_form(64 * MIB) == 1
    assert curve.closed_form(128 * MIB) == pytest.approx(1 + 1 / 64)
    assert curve.closed_form(4 * GIB) == pytest.approx(2 - (64 - 4) / 2048, abs=1e-4)
    assert curve.closed_form(64 * GIB) == pytest.approx(2.567, abs=2e-3)


def test_the_page_has_the_table_of_the_script(curve: ModuleType) -> None:
    rows = re.findall(r"^\| (\d+ [MG]iB) \| \d+ \| \d+ \| ([\d.]+) \| ([\d.]+) \|", curve.PAGE.read_text("utf-8"), re.M)
    assert [row[0] for row in rows] == [curve.label(size) for size in curve.SIZES]
    for size, (_, measured, form) in zip(curve.SIZES, rows, strict=True):
        assert form == f"{curve.closed_form(size):.3f}"
        assert float(measured) == pytest.approx(curve.closed_form(size), rel=0.02)
    measured = [float(row[1]) for row in rows]
    assert measured == sorted(measured), "accesses rise with the footprint"
