"""`mmulab doctor`: what is missing is named with its remedy, and only the main job's parts make it fail."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CHECKOUT

from mmulab import doctor, extras, paths
from mmulab.cli.app import invoke
from mmulab.stopwatch.counters import Counters

Captured = pytest.CaptureFixture[str]


def test_each_finding_that_does_not_work_says_why_and_the_json_holds_the_same(capsys: Captured) -> None:
    assert invoke(["doctor", "--json"]) in (0, 1)
    said = json.loads(capsys.readouterr().out)
    found = doctor.findings()
    assert [one["what"] for one in said["findings"]] == [one.what for one in found]
    assert said["ready"] == doctor.is_ready(found)
    assert all(one.found and one.serves for one in found)
    assert not [one.what for one in found if one.works and one.remedy]


def test_without_a_recorder_the_main_job_cannot_be_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    monkeypatch.setattr(paths, "plugin", lambda: tmp_path / "plugin.so")
    assert invoke(["doctor"]) == 1
    captured = capsys.readouterr()
    assert "MISSING  the recorder's plugin" in captured.out
    assert "remedy: `make build`" in captured.out
    assert "nothing can be recorded" in captured.err


def test_without_qemu_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = {one.what: one for one in doctor.findings() if not one.works}
    assert all("qemu-user" in missing[f"qemu-{isa}"].remedy for isa in ("x86_64", "aarch64", "riscv64"))
    assert "qemu-system" in missing["qemu-system-x86_64"].remedy


def test_a_qemu_that_does_not_run_is_no_qemu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for isa in ("x86_64", "aarch64", "riscv64"):
        (tmp_path / f"qemu-{isa}").write_text("#!/no/such/interpreter\n")
        (tmp_path / f"qemu-{isa}").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {one.what: one for one in doctor.findings()}
    assert not found["qemu-x86_64"].works
    assert "does not run" in found["qemu-x86_64"].found


def test_an_optional_part_that_is_missing_does_not_make_it_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    found = {one.what: one for one in doctor.findings()}
    assert found["scipy"].remedy == "make extras"
    monkeypatch.setattr(extras, "OF_A_CHECKOUT", set())
    elsewhere = {one.what: one for one in doctor.findings()}
    assert elsewhere["scipy"].remedy == "pip install 'mmulab[optimum]'"
    assert doctor.is_ready([one for one in found.values() if one.weight == doctor.OPTIONAL])


def test_what_make_extras_installs_has_the_packages_of_these_extras() -> None:
    """As pyproject.toml lists them, and `make extras` takes its list `dev`."""

    def packages(*names: str) -> set[str]:
        command = [sys.executable, "scripts/requirements.py", *names]
        return set(subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.split())

    listed = packages(*extras.OF_A_CHECKOUT)
    assert len(listed) > 5
    assert listed <= packages("dev")


def test_counters_that_cannot_be_had_are_told_with_the_systems_reason() -> None:
    with Counters() as counters:
        why = counters.why
    found = {one.what: one for one in doctor.findings()}["performance counters"]
    assert found.works == (why is None)
    assert why is None or found.found == why
