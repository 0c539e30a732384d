"""A disk for guests that are to be used: a compiler, sources for it, files to read, and a script for a round of use."""

import math
import random
import shutil
import subprocess
from pathlib import Path

FILES_MIB, SPARE_MIB = 1000, 400
SOURCES = 24
SMALLEST_FILE, LARGEST_FILE = 2 << 10, 16 << 20
TOOLS = "sh cat rm seq wc sort head find xargs md5sum ls mkdir sync true"
GCC_FILES = (
    "crt1.o Scrt1.o crti.o crtn.o libc.so.6 libm.so.6 libc.so libc_nonshared.a libm.so libmvec.so.1 libgcc_s.so.1"
)
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
# Each round reads a fifth of the files whole, compiles by two compilers at a time, starts some 300 short processes, and
# sorts what fits in memory.
ROUND = """cd /work
export PATH=/bin:/usr/bin
n=$1
for d in $(seq $((n*4%20)) $((n*4%20+3))); do cat files/d$d/* > /dev/null; done
mkdir -p /tmp/o
for i in $(seq $((n*6)) 2 $((n*6+4))); do
  gcc -O1 -c src/s$i.c -o /tmp/o/s$i.o & gcc -O1 -c src/s$((i+1)).c -o /tmp/o/s$((i+1)).o; wait
done
gcc -c src/main.c -o /tmp/o/main.o; gcc /tmp/o/s$((n*6)).o /tmp/o/main.o -o /tmp/o/prog && /tmp/o/prog
for i in $(seq 1 80); do /bin/busybox true; echo $i | cat | wc -c > /dev/null; done
cat files/d$((n%20))/* | head -c 16000000 | sort | md5sum > /dev/null
find files -type f | xargs ls -l | sort -k5 | md5sum > /tmp/o/list
rm -rf /tmp/o
sync
"""


def make(root: Path, image: Path) -> None:
    """Fills the directory `root`, and makes a disk of it."""
    for name in ("bin", "usr/bin", "usr/lib", "work/src", "work/files", "tmp", "proc", "dev", "lib64"):
        (root / name).mkdir(parents=True)
    (root / "lib").symlink_to("usr/lib")
    shutil.copy("/usr/bin/busybox", root / "bin/busybox")
    for tool in TOOLS.split():
        (root / "bin" / tool).symlink_to("busybox")
    _compiler(root)
    rng = random.Random(1)
    for i in range(SOURCES):
        (root / f"work/src/s{i}.c").write_text(_source(rng, i))
    (root / "work/src/main.c").write_text("int main() { return 0; }\n")
    (root / "work/round.sh").write_text(ROUND)
    _files(rng, root / "work/files")
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", str(root), str(image), f"{FILES_MIB + SPARE_MIB}M"], check=True)


def _put(root: Path, path: Path) -> None:
    """Copies a file to the place it has here; /lib is /usr/lib."""
    target = root / ("usr" if path.parts[1] == "lib" else "") / path.relative_to("/")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def _compiler(root: Path) -> None:
    inner = [_said(["gcc", f"-print-prog-name={name}"]).strip() for name in ("cc1", "collect2")]
    for program in ("/usr/bin/gcc", "/usr/bin/as", "/usr/bin/ld", *inner):
        _put(root, Path(program))
        for word in _said(["ldd", program]).split():
            if word.startswith("/"):
                _put(root, Path(word))
    for pattern in ("*.[oa]", "*.so*"):
        for path in Path(inner[0]).parent.glob(pattern):
            _put(root, path)
    for name in GCC_FILES.split():
        if (LIBRARIES / name).exists():
            _put(root, LIBRARIES / name)
    _put(root, Path("/usr/include/stdc-predef.h"))


def _said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _source(rng: random.Random, number: int) -> str:
    """A file of functions that a compiler has work with."""
    functions = rng.randint(20, 60)
    lines = [
        f"static int f{k}(int *a, int n) {{ int s = {rng.randint(1, 99)}; for (int i = 0; i < n; i++) "
        f"{{ s += a[i] * {rng.randint(2, 9)}; if (s & {1 << rng.randint(0, 9)}) s ^= i * {rng.randint(2, 99)}; }} "
        "return s; }"
        for k in range(functions)
    ]
    total = " + ".join(f"f{k}(a, n)" for k in range(functions))
    return "\n".join([*lines, f"int g{number}(int *a, int n) {{ return {total}; }}", ""])


def _files(rng: random.Random, directory: Path) -> None:
    """Files whose sizes are spread evenly by their logarithm, in twenty directories."""
    block = rng.randbytes(1 << 16)
    made = 0
    while made < FILES_MIB << 20:
        size = int(math.exp(rng.uniform(math.log(SMALLEST_FILE), math.log(LARGEST_FILE))))
        number = sum(1 for _ in directory.glob("*/*"))
        (directory / f"d{number % 20}").mkdir(exist_ok=True)
        (directory / f"d{number % 20}" / f"f{number}").write_bytes((block * (size // len(block) + 1))[:size])
        made += size
