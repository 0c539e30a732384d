#!/usr/bin/env bash
# Builds what a wheel contains besides its first engine, for any processor of this architecture, and puts it into the
# Python package in the directory $1. On x86-64 the engine is also built for newer levels of the architecture (x86-64-v3:
# AVX2; x86-64-v4: AVX-512), of which mmulab takes the best that runs (python/mmulab/_level.py).
set -euo pipefail
cd "$(dirname "$0")/.."

package=$1
export RUSTFLAGS="-C target-cpu=generic"
cargo build --profile wheel --quiet -p mmulab-record-plugin
scripts/parts.sh wheel
scripts/assemble.sh wheel "$package"
rm -rf "$package/_lib/levels"
if [ "$(uname -m)" = x86_64 ]; then
    for level in x86-64-v3 x86-64-v4; do
        target=${CARGO_TARGET_DIR:-target}/$level
        RUSTFLAGS="-C target-cpu=$level" CARGO_TARGET_DIR=$target cargo build --profile wheel --quiet -p mmulab-python
        mkdir -p "$package/_lib/levels/$level"
        cp "$target/wheel/lib_core.so" "$package/_lib/levels/$level/_core.abi3.so"
    done
fi
