"""Numbers as people read them, and names for code."""

import ctypes.util
import subprocess
from pathlib import Path

import pytest

from mmulab import units
from mmulab.study.symbols import Named, demangle, named


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("10k", 10_000), ("1.5M", 1_500_000), ("2G", 2 * 10**9), ("x", None), ("1Q", None)]
)
def test_counts(text: str, value: int | None) -> None:
    """Powers of 1000."""
    assert units.parse_count(text) == value


def test_showing() -> None:
    """Three digits, and no rounding to a wrong unit."""
    assert units.show_bytes(4096) == "4 KB"
    assert units.show_bytes(1023 << 10) == "1023 KB"
    assert units.show_bytes(-(3 << 20)) == "−3 MB"
    assert units.show_count(999) == "999"
    assert units.show_count(1_234_567) == "1.23 M"
    assert units.show_percent(0.0123) == "1.2 %"
    assert units.show_percent(-0.5, signed=True) == "−50.0 %"
    assert units.show_percent(0.0001) == "<0.1 %"
    assert units.show_rate(0.00001) == "<0.001"
    assert units.show_seconds(75) == "1 min 15 s"


def test_a_function_is_found_by_file_offset(tmp_path: Path) -> None:
    """The compiler's own object knows where it put each function."""
    source = tmp_path / "a.c"
    source.write_text("int first(int x) { return x + 1; }\nint second(int x) { return first(x) * 3; }\n")
    library = tmp_path / "a.so"
    subprocess.run(["cc", "-O0", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    loaded = ctypes.CDLL(str(library))
    base = _base(str(library))
    for name in ("first", "second"):
        at = ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value
        assert at is not None
        start, offset = next((s, o) for s, e, o in base if s <= at < e)
        assert named(str(library), at - start + offset) == Named(name, known=True, is_start=True)
        assert named(str(library), at - start + offset + 3) == Named(name, known=True)
    assert not named(str(library), 0).known
    assert not named(str(source), 0).known
    assert not named(str(tmp_path / "absent"), 0).known


def _base(path: str) -> list[tuple[int, int, int]]:
    rows = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(path)]
    return [(*(int(x, 16) for x in row[0].split("-")), int(row[2], 16)) for row in rows]  # type: ignore[misc]


def test_cpp_names_are_read() -> None:
    """And others left alone."""
    assert demangle("main") == "main"
    if ctypes.util.find_library("stdc++"):
        assert demangle("_ZN4llvm5Value7getNameEv") == "llvm::Value::getName()"
