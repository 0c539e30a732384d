#!/usr/bin/env bash
# Builds all parts of mmulab that are not Python but the engine, with cargo's profile $1, and puts them into the Python
# package in the directory $2.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=$1 package=$2
cargo build --profile "$profile" --quiet -p mmulab-record-plugin
# What runs in recorded programs, or is one: QEMU must know its instructions.
RUSTFLAGS="-C target-cpu=generic" cargo build --profile "$profile" --quiet \
    -p mmulab-workload -p mmulab-record-heap -p mmulab-try-preload
# The first program of a guest that has no libraries.
if [ "$(uname -m)" = x86_64 ]; then
    RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile "$profile" --quiet -p mmulab-guest-agent \
        --target x86_64-unknown-linux-gnu
fi
scripts/arm-agent.sh "$profile"
scripts/assemble.sh "$profile" "$package"
