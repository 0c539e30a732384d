#!/usr/bin/env bash
# Builds with cargo's profile $1 what a wheel contains besides its first engine, and puts it into the Python package in the
# directory $2. With the profile `wheel` it is for any processor of the architecture. On x86-64 the engine is then also built
# for newer levels of the architecture (x86-64-v3: AVX2; x86-64-v4: AVX-512), of which mmulab takes the best that runs
# (python/mmulab/_level.py). Another profile builds for this processor alone. PLATFORM: see cargo_build.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=$1 package=$2
baseline= crates=(-p mmulab-record-plugin)
# Named beside the engine, the plugin's dependencies have the features that they have there: `make checked` has built them.
if [ "$profile" = wheel ]; then baseline=1; else crates+=(-p mmulab-python); fi
BASELINE=$baseline scripts/cargo_build.sh --profile "$profile" "${crates[@]}"
scripts/parts.sh "$profile"
scripts/assemble.sh "$profile" "$package"
rm -rf "$package/_lib/levels"
PLATFORM=${PLATFORM:-}
triple=${PLATFORM%%.*}
arch=${triple%%-*}
if [ "$profile" = wheel ] && [ "${arch:-$(uname -m)}" = x86_64 ]; then
    for level in x86-64-v3 x86-64-v4; do
        target=${CARGO_TARGET_DIR:-target}/$level
        RUSTFLAGS="-C target-cpu=$level" CARGO_TARGET_DIR=$target \
            scripts/cargo_build.sh --profile wheel -p mmulab-python
        mkdir -p "$package/_lib/levels/$level"
        cp "$target${triple:+/$triple}/wheel/lib_core.so" "$package/_lib/levels/$level/_core.abi3.so"
    done
fi
