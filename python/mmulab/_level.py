"""Which build of the engine is loaded: the best for this processor.

A wheel holds an engine for any x86-64 and two for newer levels of the architecture. The psABI names them x86-64-v3
(AVX2) and x86-64-v4 (AVX-512). TLB searches compare all tags of a set at once with them. A checkout's build is for the
processor at hand, and there is nothing to choose.
"""

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

# By level, the best first: the processor's flags that it needs, as /proc/cpuinfo says them (x86-64 psABI, table 3.1).
V3 = frozenset(["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"])
LEVELS = {"x86-64-v4": V3 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]), "x86-64-v3": V3}
_NAME = "mmulab._core"


def flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """What the first processor can do; nothing where the system does not say."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


def best(directory: Path, has: frozenset[str]) -> Path | None:
    """The engine of the highest level that the processor has; None: the one for any processor."""
    for level, needs in LEVELS.items():
        engine = directory / level / "_core.abi3.so"
        if needs <= has and engine.exists():
            return engine
    return None


def load() -> None:
    """Loads the best engine as `mmulab._core`, unless it is the one that Python finds by itself."""
    directory = Path(__file__).resolve().parent / "_lib" / "levels"
    if _NAME in sys.modules or not directory.is_dir():
        return
    engine = best(directory, flags())
    if engine is None:
        return
    spec = spec_from_file_location(_NAME, engine, loader=ExtensionFileLoader(_NAME, str(engine)))
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[_NAME] = module
