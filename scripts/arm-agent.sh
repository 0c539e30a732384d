#!/usr/bin/env bash
# Builds the first program of recorded aarch64 systems with cargo's profile $1, where Rust's library and a linker for
# aarch64 are installed (`rustup target add aarch64-unknown-linux-gnu`, `apt-get install gcc-aarch64-linux-gnu`); without
# them it is left out.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
linker=aarch64-linux-gnu-gcc
if [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] && command -v "$linker" >/dev/null 2>&1; then
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$linker RUSTFLAGS="-C target-feature=+crt-static" \
        cargo build --profile "$1" --quiet -p mmulab-guest-agent --target "$target"
fi
