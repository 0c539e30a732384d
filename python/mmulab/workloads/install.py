"""What a recipe needs: what of it is missing, and how that is brought here."""

import glob
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mmulab import Failure, UserError
from mmulab.workloads import cache
from mmulab.workloads.recipe import Json, Recipe

# Asked by package scripts whether they may start a service; 101 says no (Debian's invoke-rc.d(8)).
POLICY = Path("/usr/sbin/policy-rc.d")
# Lines that an error shows of what an installer said.
TAIL_LINES = 12


def packages(recipe: Recipe) -> list[Json]:
    """Its Debian packages; the recorder's own need is one of them."""
    if (recipe.json.get("record") or {}).get("system"):
        qemu = {"package": "qemu-system-x86", "provides": "qemu-system-x86_64"}
    else:
        qemu = {"package": "qemu-user", "provides": f"qemu-{platform.machine()}"}
    return [qemu, *recipe.json["install"]["apt"]]


def is_there(package: Json) -> bool:
    """Whether a Debian package, or what stands for it, is installed."""
    provides = str(package["provides"])
    return bool(glob.glob(provides)) if provides.startswith("/") else shutil.which(provides) is not None


def missing_packages(recipe: Recipe) -> list[str]:
    """Names of the Debian packages that are missing."""
    return [str(p["package"]) for p in packages(recipe) if not is_there(p)]


def ensure(recipe: Recipe, allowed: bool, say: Callable[[str], None]) -> None:
    """Brings here what is missing. Raises UserError naming it where that is not possible or not `allowed`."""
    missing = missing_packages(recipe)
    if missing:
        _apt(recipe.name, missing, allowed, say)
    wants = _fetched(recipe)
    lacking = [(what, fetch) for what, is_here, fetch in wants if not is_here()]
    if lacking and not allowed:
        names = ", ".join(what for what, _ in lacking)
        raise UserError(
            f"{recipe.name} needs what is not here: {names}\nhint: leave --no-install out to have it fetched"
        )
    for what, fetch in lacking:
        say(f"fetching {what}")
        fetch()


def _fetched(recipe: Recipe) -> list[tuple[str, Callable[[], bool], Callable[[], None]]]:
    """What comes from registries: its name, whether it is here, and what fetches it."""
    home = cache.directory(recipe.name)
    install = recipe.json["install"]
    found: list[tuple[str, Callable[[], bool], Callable[[], None]]] = []
    if install["npm"]:
        wanted = [str(each) for each in install["npm"]]
        found.append((f"npm {' '.join(wanted)}", lambda: _has_npm(home, wanted), lambda: _npm(home, wanted)))
    for each in install["crate"]:
        target = home / Path(each["take"]).name
        found.append((f"crate {each['name']} {each['version']}", target.exists, _crate(each, target)))
    for each in install["maven"]:
        target = home / each["file"]
        found.append((f"maven {each['artifact']}", target.exists, _maven(each, target)))
    return found


def _apt(name: str, missing: list[str], allowed: bool, say: Callable[[str], None]) -> None:
    command = f"apt-get install {' '.join(missing)}"
    if not allowed or os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise UserError(f"{name} needs what is not installed: {', '.join(missing)}\nhint: as root: {command}")
    say(f"installing {', '.join(missing)}")
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _no_services():
        if subprocess.run(install, capture_output=True, stdin=subprocess.DEVNULL, env=env).returncode == 0:
            return
        # The list of packages may be old.
        _must(["apt-get", "update", "-q"], "the list of packages cannot be fetched", env=env)
        _must(install, f"{', '.join(missing)} cannot be installed", env=env)


@contextmanager
def _no_services() -> Iterator[None]:
    """While it lasts, no package that is installed starts a server."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    try:
        POLICY.chmod(0o755)
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def _must(command: list[str], what: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    try:
        ran = subprocess.run(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise UserError(f"{what}: {command[0]} is not in PATH\nhint: install {command[0]}") from error
    if ran.returncode:
        said = "".join(f"\n  | {line}" for line in ran.stdout.splitlines()[-TAIL_LINES:])
        raise Failure(f"{what}: `{' '.join(command[:3])} ...` ended with status {ran.returncode}{said}")


def _has_npm(home: Path, wanted: list[str]) -> bool:
    for each in wanted:
        name, _, version = each.rpartition("@")
        try:
            found = json.loads((home / "node_modules" / name / "package.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        if found.get("version") != version:
            return False
    return True


def _npm(home: Path, wanted: list[str]) -> None:
    # Made aside and renamed: a fetch that is cut short leaves nothing that looks whole.
    with _aside(home) as made:
        (made / "package.json").write_text("{}\n", encoding="utf-8")
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-save"]
        _must(["npm", "install", *options, *wanted], f"{' '.join(wanted)} cannot be fetched", cwd=made)
        shutil.rmtree(home / "node_modules", ignore_errors=True)
        (made / "node_modules").rename(home / "node_modules")


def _crate(each: Json, target: Path) -> Callable[[], None]:
    def fetch() -> None:
        what = f"crate {each['name']} {each['version']}"
        with _aside(target.parent) as made:
            (made / "src").mkdir()
            (made / "src" / "lib.rs").write_text("", encoding="utf-8")
            (made / "Cargo.toml").write_text(
                '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
                f'[dependencies]\n{each["name"]} = {{ version = "={each["version"]}", default-features = false }}\n',
                encoding="utf-8",
            )
            _must(["cargo", "vendor", "-q", "--versioned-dirs"], f"{what} cannot be fetched", cwd=made)
            source = made / "vendor" / f"{each['name']}-{each['version']}" / each["take"]
            if not source.exists():
                raise Failure(f"{what}: there is no {each['take']} in it")
            _keep(source, target, each["sha256"], what)

    return fetch


def _maven(each: Json, target: Path) -> Callable[[], None]:
    def fetch() -> None:
        what = f"maven {each['artifact']}"
        with _aside(target.parent) as made:
            options = ["-q", "-B", f"-Dartifact={each['artifact']}", f"-DoutputDirectory={made}"]
            _must(["mvn", "dependency:copy", *options], f"{what} cannot be fetched", cwd=made)
            files = sorted(made.glob("*.jar"))
            if not files:
                raise Failure(f"{what}: Maven brought no file")
            _keep(files[0], target, each["sha256"], what)

    return fetch


def _keep(source: Path, target: Path, sha256: str, what: str) -> None:
    found = cache.sha256(source)
    if found != sha256:
        raise Failure(f"{what}: {source.name} has the SHA-256 {found}, and the recipe says {sha256}: not used")
    source.rename(target)


@contextmanager
def _aside(home: Path) -> Iterator[Path]:
    """A directory on the cache's disk that is gone afterwards."""
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{home}: {error.strerror}\nhint: name another cache with XDG_CACHE_HOME=DIRECTORY") from error
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=home) as made:
        yield Path(made)
