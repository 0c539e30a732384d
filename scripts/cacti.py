#!/usr/bin/env python3
"""Fits the energy model's constants (crates/energy/src/structure.rs) to what CACTI says.

    scripts/cacti.py DIRECTORY

DIRECTORY holds CACTI 7.0, compiled (`g++ -O2 -w -DNTHREADS=1 -o cacti *.cc -lpthread`), and its `cache.cfg`. What is
not set here is as that file has it: high-performance cells (itrs-hp), 360 K, the fastest cycle, one port to read and
write. At 32 nm, without error correction; tags are read beside data, as CACTI's access mode `normal` has it.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

SETS, WAYS, ENTRIES = (32, 64, 128, 256, 512), (2, 4, 8), (4, 8, 16, 32, 64, 128, 256)
# Data are whole powers of two of bytes; an entry's bits are these and its tag's.
BLOCKS, TAGS = (8, 16), (24, 32, 40)
# KiB and ways; lines of 64 bytes.
CACHES = ((32, 8), (64, 8), (128, 8), (256, 8), (512, 8), (1024, 16), (2048, 16), (8192, 16), (24576, 16))
LINE = 64
Found = dict[str, float]


def ask(cacti: Path, size: int, block: int, ways: int, tag: int | None) -> Found | None:
    """What CACTI says of a structure, fully associative if it has 0 ways; None where it finds no shape for it."""
    settings = {
        "-size (bytes)": size,
        "-block size (bytes)": block,
        "-associativity": ways,
        "-search port": int(ways == 0),
        "-technology (u)": 0.032,
        "-output/input bus width": block * 8,
        "-tag size (b)": tag or '"default"',
        "-access mode (normal, sequential, fast) -": '"normal"',
        "-Add ECC -": '"false"',
    }
    lines = (cacti / "cache.cfg").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not any(line.startswith(key) for key in settings)]
    given = cacti / "mmulab.cfg"
    given.write_text("\n".join([*kept, *(f"{key} {value}" for key, value in settings.items()), ""]), encoding="utf-8")
    said = subprocess.run(
        ["./cacti", "-infile", given.name], cwd=cacti, capture_output=True, text=True, check=False
    ).stdout
    names = {
        "read": "Total dynamic associative search energy per access (nJ)"
        if ways == 0
        else "Total dynamic read energy per access (nJ)",
        "write": "Total dynamic write energy per access (nJ)",
        "leak": "Total leakage power of a bank (mW)",
    }
    found = {key: re.search(re.escape(name) + r":\s*([-+.\de]+)", said) for key, name in names.items()}
    if not all(found.values()):
        return None
    return {key: float(m[1]) * (1 if key == "leak" else 1000) for key, m in found.items() if m}


def fit(what: str, said: list[float], terms: dict[str, list[float]]) -> None:
    """Least squares of the relative error."""
    y, columns = np.array(said), np.array(list(terms.values())).T
    x, *_ = np.linalg.lstsq(columns / y[:, None], np.ones(len(y)), rcond=None)
    off = columns @ x / y - 1
    factors = ", ".join(f"{value:.3g} {name}" for name, value in zip(terms, x, strict=True))
    print(
        f"{what}: {factors}; {len(y)} structures, off by {np.sqrt((off**2).mean()):.0%}, at most {abs(off).max():.0%}"
    )


def of_sets(cacti: Path) -> None:
    """Arrays of sets."""
    rows = []
    for block, tag, ways, sets in ((b, t, w, s) for b in BLOCKS for t in TAGS for w in WAYS for s in SETS):
        if found := ask(cacti, sets * ways * block, block, ways, tag):
            rows.append((sets, ways * (8 * block + tag), found))
    one = [1.0] * len(rows)
    line, column = [float(bits) for _, bits, _ in rows], [float(sets * bits) for sets, bits, _ in rows]
    for key in ("read", "write"):
        fit(f"sets, {key} pJ", [f[key] for *_, f in rows], {"": one, "w b": line, "w b s": column})
    fit("sets, mW", [f["leak"] for *_, f in rows], {"w b s": column})


def associative(cacti: Path) -> None:
    """Fully associative ones."""
    rows = []
    for block, tag, entries in ((b, t, n) for b in BLOCKS for t in TAGS for n in ENTRIES):
        if found := ask(cacti, entries * block, block, 0, tag):
            rows.append((entries, 8 * block + tag, found))
    entry, whole = [float(bits) for _, bits, _ in rows], [float(n * bits) for n, bits, _ in rows]
    for key in ("read", "write", "leak"):
        fit(f"associative, {key}", [f[key] for *_, f in rows], {"b": entry, "n b": whole})


def caches(cacti: Path) -> None:
    """Caches: a power of their size."""
    rows = [(kib, ask(cacti, kib << 10, LINE, ways, None)) for kib, ways in CACHES]
    for key in ("read", "write", "leak"):
        said = [(kib, f[key]) for kib, f in rows if f]
        x, y = np.log2(np.array(said)).T
        power, at = np.polyfit(x, y, 1)
        exact = ", ".join(f"{kib} KiB {value:.4g}" for kib, value in said)
        print(f"caches, {key}: {2 ** (at + 5 * power):.4g} (KiB / 32)^{power:.3f}; {exact}")


def examples(cacti: Path) -> None:
    """Some that the tests hold the formulas against."""
    for sets, ways, block, tag in ((32, 4, 8, 40), (128, 4, 8, 40), (128, 8, 8, 32), (256, 4, 8, 40)):
        print(f"{sets} sets, {ways} ways, {8 * block + tag} bits: {ask(cacti, sets * ways * block, block, ways, tag)}")
    for entries in (8, 32, 128):
        print(f"{entries} entries, associative, 104 bits: {ask(cacti, entries * 8, 8, 0, 40)}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for each in (of_sets, associative, caches, examples):
        each(Path(sys.argv[1]))
