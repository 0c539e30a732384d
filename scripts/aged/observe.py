"""Makes crates/frames/data/aged-linux-6.1.txt: the free lists of real guests, after boot and after use.

    apt-get install qemu-system-x86 busybox-static cpio e2fsprogs gcc
    apt-get download linux-image-6.1.0-NN-cloud-amd64; dpkg-deb -x linux-image-*.deb KERNEL
    PATH=$PWD/.venv/bin:$PATH .venv/bin/python scripts/aged/observe.py KERNEL > crates/frames/data/aged-linux-6.1.txt

A guest of 1 GiB and one of 2 GiB are booted and used, three times each; those of `mmulab record --system` five times
and twice. Guests are emulated, so that all of it takes an hour.
What is counted differs a little from one time to the next.
"""

import sys
import tempfile
from pathlib import Path

import disk
import guest
import summary
from free_lists import Lists

MEMORY_MIB = (1024, 2048)
USED_GUESTS, BOOTED_GUESTS = (3, 3), (5, 2)
ROUNDS = 3
HEAD = """# Free lists of guests of Linux 6.1 with one CPU, counted by scripts/aged/observe.py.
# scripts/aged/summary.py says how to read a line."""


def main() -> None:
    """Boots, uses and reads all guests."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    kernel = Path(sys.argv[1])
    after_use: list[Lists] = []
    after_boot: list[Lists] = []
    symbols: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        disk.make(place / "disk", place / "disk.img")
        for mebibytes, guests in zip(MEMORY_MIB, USED_GUESTS, strict=True):
            for _ in range(guests):
                for number, found, lists in guest.used(kernel, place / "disk.img", place, mebibytes, ROUNDS):
                    symbols = found
                    # After one round memory has hardly been given back to anybody.
                    after_use += [lists] if number > 0 else []
                    print(f"used: {mebibytes} MiB, round {number}", file=sys.stderr)
        for mebibytes, guests in zip(MEMORY_MIB, BOOTED_GUESTS, strict=True):
            after_boot += [guest.booted(place, symbols, mebibytes) for _ in range(guests)]
    print("\n".join([HEAD, *summary.lines("booted", after_boot), *summary.lines("used", after_use)]))


if __name__ == "__main__":
    main()
