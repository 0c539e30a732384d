"""How `pip install .` and `python -m build` build mmulab (PEP 517): by maturin, after what maturin does not know.

    cargo: plugin, preloaded libraries, generators, guest agent --> python/mmulab/_lib --.
    machines/ policies/ workloads/ ------------------------------> python/mmulab/_lib --+--> wheel
    cargo, by maturin: the engine (_core) --------------------------------------------- '
    cargo: the engine once more for each newer processor level --> python/mmulab/_lib --'
    the wheel itself: manual pages and completion out of its commands ------------------> wheel's share/

The wheel's first engine runs on every processor of its architecture. The others are chosen when mmulab is imported
(`mmulab/_level.py`).

Settings, as `pip wheel --config-settings=NAME=VALUE` takes them:

    platform    An architecture and the oldest glibc, such as aarch64-unknown-linux-gnu.2.28: zig builds a manylinux
                wheel for them. Without it, the wheel is for this computer's architecture and glibc.
    profile     Cargo's profile, in place of `wheel`. With `dev` the wheel contains what `make checked` built, for this
                processor. So its contents can be tried without another build.
"""

import base64
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import maturin
from maturin import get_requires_for_build_sdist, prepare_metadata_for_build_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

CHECKOUT = Path(__file__).resolve().parents[1]
# What an sdist leaves out: GPL-2.0 files that are in no package, and what only the repository's own checks need.
NOT_IN_SDIST = ("moonshot/", ".ci/", "fuzz/", ".git")

Settings = dict[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What maturin needs, and mmulab, whose commands are imported to make their manual; for a platform, zig."""
    text = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    listed = text.partition("\ndependencies = [\n")[2].partition("\n]")[0]
    own = [line.strip().rstrip(",")[1:-1] for line in listed.splitlines()]
    cross = ["cargo-zigbuild>=0.20", "ziglang>=0.13"] if _setting(config_settings, "platform") else []
    return [*maturin.get_requires_for_build_wheel(config_settings), *own, *cross]


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """A wheel with all that mmulab needs at run time."""
    profile = _setting(config_settings, "profile") or "wheel"
    target = _setting(config_settings, "platform")
    arguments = f"--profile {profile}"
    if target:
        triple, _, glibc = target.partition(".")
        if not glibc:
            raise ValueError(f"platform={target}: name the oldest glibc, too, such as {triple}.2.28")
        os.environ["PLATFORM"] = target
        arguments += f" --zig --target {triple} --compatibility manylinux_{glibc.replace('.', '_')}"
    _run("scripts/wheel_parts.sh", profile, "python/mmulab")
    architecture = target.partition("-")[0] or platform.machine()
    if profile == "wheel":
        flags = subprocess.run(
            ["scripts/baseline.sh", architecture], cwd=CHECKOUT, check=True, capture_output=True, text=True
        ).stdout
        os.environ.setdefault("RUSTFLAGS", flags.strip())
    elif not target:
        # Nothing is built again: the wheel has the engine that is there.
        os.environ["CARGO"] = str(CHECKOUT / "scripts" / "cargo_as_built.sh")
    settings = {**(config_settings or {}), "build-args": arguments}
    try:
        name = str(maturin.build_wheel(wheel_directory, settings, metadata_directory))
        add_manual(Path(wheel_directory) / name, architecture)
        return name
    finally:
        # A checkout's own build is for its processor: nothing is chosen there.
        shutil.rmtree(CHECKOUT / "python" / "mmulab" / "_lib" / "levels", ignore_errors=True)


def add_manual(wheel: Path, architecture: str) -> None:
    """Puts manual pages and completion into a wheel: those that its own commands make.

    The commands of another architecture's wheel do not run here. They are those of the checkout, which has to be built.
    """
    with tempfile.TemporaryDirectory() as directory:
        package, share = Path(directory) / "package", Path(directory) / "share"
        if architecture == platform.machine():
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(package)
        else:
            # pip hides installed directories from a build, and the checkout's may be one. A link to it is none.
            package.mkdir()
            (package / "mmulab").symlink_to(CHECKOUT / "python" / "mmulab")
            if not list(package.glob("mmulab/_core*.so")):
                raise FileNotFoundError("the manual of a wheel for another architecture needs the checkout: make build")
        search = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "mmulab.cli.manual", str(share)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": search})
        made = {str(path.relative_to(share)): path.read_bytes() for path in sorted(share.rglob("*")) if path.is_file()}
    add_shared(wheel, made)


def add_shared(wheel: Path, made: dict[str, bytes]) -> None:
    """Puts files into a wheel that are installed below PREFIX/share, and lists them in its RECORD."""
    partial = wheel.with_suffix(".part")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as new:
        (record,) = (name for name in old.namelist() if name.endswith(".dist-info/RECORD"))
        rows = old.read(record).decode("utf-8")
        for item in old.infolist():
            if item.filename != record:
                new.writestr(item, old.read(item.filename))
        for name, content in made.items():
            path = f"{record.removesuffix('.dist-info/RECORD')}.data/data/share/{name}"
            hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode("ascii").rstrip("=")
            new.writestr(path, content)
            rows = f"{path},sha256={hashed},{len(content)}\n{rows}"
        new.writestr(record, rows)
    partial.replace(wheel)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """All files of the repository that a build needs. (maturin's own has only the crates that the engine needs.)"""
    version = _version()
    name = f"mmulab-{version}"
    target = Path(sdist_directory) / f"{name}.tar.gz"
    with (
        tempfile.TemporaryDirectory() as metadata,
        tarfile.open(target, "w:gz", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in _files():
            archive.add(CHECKOUT / file, f"{name}/{file}", recursive=False)
        told = prepare_metadata_for_build_wheel(metadata)
        archive.add(Path(metadata) / told / "METADATA", f"{name}/PKG-INFO")
    return target.name


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """As for a wheel."""
    return list(get_requires_for_build_wheel(config_settings))


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Settings = None) -> str:
    """As for a wheel."""
    return str(prepare_metadata_for_build_wheel(metadata_directory, config_settings))


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """A wheel that points to the checkout, whose parts are built there."""
    _run("scripts/wheel_parts.sh", "wheel", "python/mmulab")
    return str(maturin.build_editable(wheel_directory, config_settings, metadata_directory))


def _setting(config_settings: Settings, name: str) -> str:
    """A setting's value; "" where it is not given."""
    return str((config_settings or {}).get(name, ""))


def _run(*command: str) -> None:
    subprocess.run(command, cwd=CHECKOUT, check=True)


def _version() -> str:
    lines = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    return next(line.split('"')[1] for line in lines if line.startswith("version = "))


def _files() -> list[str]:
    """The repository's files, or those of an unpacked sdist."""
    if (CHECKOUT / ".git").exists():
        said = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, check=True, capture_output=True, text=True)
        found = [name for name in said.stdout.split("\0") if name]
    else:
        found = [str(path.relative_to(CHECKOUT)) for path in sorted(CHECKOUT.rglob("*")) if path.is_file()]
    return [name for name in found if not name.startswith(NOT_IN_SDIST) and name != "PKG-INFO"]
