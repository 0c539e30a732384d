#!/usr/bin/env bash
# Builds with cargo's profile $1 what is not Python, the engine or the recorder's plugin: what runs in recorded programs, or
# is one, here or on other processors, and the first program of recorded systems. Their flags differ from the engine's, so they share nothing with it
# and have a directory of their own, in which cargo can build while it builds the engine.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=$1
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/parts
# QEMU must know their instructions.
BASELINE=1 scripts/cargo_build.sh --profile "$profile" \
    -p mmulab-workload -p mmulab-record-heap -p mmulab-record-sites -p mmulab-try-preload
# The first program of a guest that has no libraries, linked statically: it meets no other glibc than this computer's.
if [ "$(uname -m)" = x86_64 ]; then
    RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile "$profile" --quiet -p mmulab-guest-agent \
        --target x86_64-unknown-linux-gnu
fi
scripts/other_processors.sh "$profile"
