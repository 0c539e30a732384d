"""Checks that no program or library in a wheel needs a newer glibc than its name says.

`python scripts/glibc_needed.py 2.28 WHEEL`. maturin checks the engine alone. The recorder's plugin and the preloaded
libraries meet the user's glibc, too.
"""

import re
import sys
import zipfile
from pathlib import Path

# A symbol version, as it stands in the string table of an ELF file (System V ABI, "Symbol Versioning").
VERSION = re.compile(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)")


def newest(content: bytes) -> tuple[int, int]:
    """The newest version of glibc's symbols that an ELF file names; (0, 0): none."""
    return max(((int(major), int(minor)) for major, minor in VERSION.findall(content)), default=(0, 0))


def main() -> None:
    oldest, wheel = tuple(map(int, sys.argv[1].split("."))), Path(sys.argv[2])
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    needed = {name: newest(content) for name, content in files.items() if content.startswith(b"\x7fELF")}
    # The first program of a guest is linked statically: its glibc is in it.
    needed = {name: version for name, version in needed.items() if "mmulab-guest-agent" not in name}
    for name, version in needed.items():
        print(f"{name}: glibc {version[0]}.{version[1]}")
    late = [name for name, version in needed.items() if version > oldest]
    if late or not needed:
        sys.exit(f"{wheel.name}: needs a newer glibc than {sys.argv[1]}: {', '.join(late) or 'no programs in it'}")


if __name__ == "__main__":
    main()
