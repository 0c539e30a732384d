#!/usr/bin/env bash
# Records a real compiler while it compiles a real C file of 7,800 lines, and studies it. The file is zstd's
# compressor, which is here because mmulab itself is built with it. Without QEMU the recording that the repository
# carries is studied instead.
set -euo pipefail
cd "$(dirname "$0")/.."

mmulab=.venv/bin/mmulab
out=build/demo
# Enough to be past start-up, and done within minutes on two cores.
limit=${DEMO_INSTRUCTIONS:-300M}
rm -rf "$out"
mkdir -p build

if ! command -v "qemu-$(uname -m)" >/dev/null 2>&1; then
    echo "no qemu-user here: studying the recording in tests/data instead of making one" >&2
    exec "$mmulab" study tests/data/cc1-small.mmt --out "$out"
fi

source=$(cargo metadata --format-version 1 --locked | python3 -c '
import json, pathlib, sys
packages = json.load(sys.stdin)["packages"]
manifest = next(p["manifest_path"] for p in packages if p["name"] == "zstd-sys")
print(pathlib.Path(manifest).parent / "zstd/lib/compress/zstd_compress.c")')

if command -v clang >/dev/null 2>&1; then
    # A driver that compiles in its own process.
    compiler=("$(command -v clang)" -O2 -c "$source" -o /dev/null)
else
    # gcc only starts the compiler proper; this is that, with the include path gcc would give it.
    compiler=("$(gcc -print-prog-name=cc1)" -quiet -imultiarch "$(gcc -print-multiarch)" -O2 "$source" -o /dev/null)
fi
echo "recording ${compiler[*]}" >&2
exec "$mmulab" study --out "$out" --max-instructions "$limit" -- "${compiler[@]}"
