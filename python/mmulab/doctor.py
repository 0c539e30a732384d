"""What of mmulab works on this computer, and what to install or allow for the rest.

Each check looks at one thing that a command needs. A check that fails names the command that does without, and the
remedy. Only checks of the main job (recording and the engine's data) make `mmulab doctor` fail.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mmulab import engine, extras, paths
from mmulab.stopwatch.counters import Counters
from mmulab.stopwatch.settings import SETTINGS, sizes_kb

# The main job cannot be done without it, or only a part of mmulab needs it.
NEEDED, OPTIONAL = "needed", "optional"
_QEMU_TIMEOUT_S = 10


@dataclass(frozen=True)
class Finding:
    """What a check found."""

    what: str
    # Which commands need it.
    serves: str
    weight: str
    works: bool
    # What was found, or the reason why it does not work.
    found: str
    # What to do; empty where it works or nothing can be done.
    remedy: str = ""

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def findings() -> list[Finding]:
    """All checks, in the order of the work: record, run, time, extras."""
    return [finding for check in CHECKS for finding in check()]


def is_ready(found: list[Finding]) -> bool:
    """Whether the main job, `mmulab study PROGRAM`, can be done."""
    return all(one.works for one in found if one.weight == NEEDED)


def _file(what: str, serves: str, weight: str, path: Path) -> Finding:
    if path.exists():
        return Finding(what, serves, weight, True, str(path))
    return Finding(
        what, serves, weight, False, f"{path}: not there", "`make build` in a checkout, or install mmulab anew"
    )


def _qemu(name: str, package: str, serves: str, weight: str) -> Finding:
    path = shutil.which(name)
    if path is None:
        return Finding(name, serves, weight, False, "not in PATH", f"apt-get install {package} (Debian, Ubuntu)")
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_QEMU_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(name, serves, weight, False, f"{path} does not run: {error}", f"install {package} anew")
    return Finding(name, serves, weight, True, f"{said.stdout.splitlines()[0]}")


def _recording() -> list[Finding]:
    native = platform.machine()
    serves = "record, study PROGRAM"
    others = [isa for isa in ("x86_64", "aarch64", "riscv64") if isa != native]
    return [
        _file("the recorder's plugin", serves, NEEDED, paths.plugin()),
        _qemu(f"qemu-{native}", "qemu-user", serves, NEEDED),
        *(_qemu(f"qemu-{isa}", "qemu-user", f"record, of {isa} programs", OPTIONAL) for isa in others),
        _file("the heap's library", "record --heap", OPTIONAL, paths.heap_library()),
        _file("the library for allocation sites", "record --sites", OPTIONAL, paths.sites_library()),
        _qemu("qemu-system-x86_64", "qemu-system-x86", "record --system", OPTIONAL),
        _qemu("qemu-system-aarch64", "qemu-system-arm", "record --system --isa aarch64", OPTIONAL),
    ]


def _data() -> list[Finding]:
    found = []
    for what, rows in (("machines", engine.machines), ("policies", engine.policies)):
        number = len(rows())
        remedy = "" if number else "install mmulab anew"
        found.append(Finding(what, "run, study", NEEDED, number > 0, f"{number} of them", remedy))
    return found


def _timing() -> list[Finding]:
    found = [_file("the stopwatch's library", "try", OPTIONAL, paths.try_library())]
    system = "`mmulab try --system` as root changes the setting for the time of the trial"
    for setting in SETTINGS:
        if setting.large or setting.pool:
            why = setting.missing()
            remedy = system if why and setting.large else ""
            what = f"try's setting `{setting.name}`"
            found.append(Finding(what, "try", OPTIONAL, why is None, why or "can be had as the system is set", remedy))
    sizes = [setting for setting in SETTINGS if setting.size_kb is not None]
    had = [setting.name for setting in sizes if setting.missing() is None]
    if sizes_kb():
        names = ", ".join(setting.name for setting in sizes)
        said = f"{', '.join(had) or 'none'} of {names} can be had as the system is set"
        found.append(Finding("try's mTHP sizes", "try", OPTIONAL, bool(had), said, "" if had else system))
    else:
        said = "this kernel has none (Linux 6.8 and later have)"
        found.append(Finding("try's mTHP sizes", "try", OPTIONAL, False, said))
    with Counters() as counters:
        why = counters.why
    found.append(
        Finding(
            "performance counters",
            "try (times are told without them)",
            OPTIONAL,
            why is None,
            why or "instructions and cycles in user mode",
            ""
            if why is None
            else "none in many virtual machines; elsewhere lower /proc/sys/kernel/perf_event_paranoid",
        )
    )
    return found


def _this_computer() -> list[Finding]:
    # Imported here: what reads it imports much.
    from mmulab.study.here import DEFAULT

    probed = DEFAULT.exists()
    is_root = os.geteuid() == 0
    return [
        Finding(
            "a description of this computer",
            "study (forecasts for this computer)",
            OPTIONAL,
            probed,
            str(DEFAULT) if probed else "not probed in this directory",
            "" if probed else "mmulab probe (a minute, on an idle computer)",
        ),
        Finding(
            "frames of a program's pages",
            "study, probe (how scattered memory is)",
            OPTIONAL,
            is_root,
            "/proc/PID/pagemap can be read" if is_root else "only root sees them",
            "" if is_root else "run as root; without it frames are taken to lie in order",
        ),
    ]


def _extras() -> list[Finding]:
    rows = (
        ("scikit-learn", "sklearn", "try --mosaics", "mosaics"),
        ("scipy", "scipy", "leshy --method optimum", "optimum"),
        ("distributed", "distributed", "sweep with several workers", "sweep"),
        ("pyarrow", "pyarrow", "sweep", "sweep"),
        ("duckdb", "duckdb", "results query", "sweep"),
    )
    found = []
    for name, module, serves, extra in rows:
        works = find_spec(module) is not None
        remedy = "" if works else extras.remedy(extra)
        found.append(Finding(name, serves, OPTIONAL, works, "installed" if works else "not installed", remedy))
    return found


CHECKS: tuple[Callable[[], list[Finding]], ...] = (_recording, _data, _timing, _this_computer, _extras)
