#!/usr/bin/env bash
# Builds with cargo's profile $1 what runs on other processors than this one: the libraries that recorded programs for
# aarch64 and riscv64 preload, and the first program of recorded aarch64 systems. Each needs Rust's library and a linker for
# its processor (`rustup target add aarch64-unknown-linux-gnu`, `apt-get install gcc-aarch64-linux-gnu`; and
# riscv64gc-unknown-linux-gnu, gcc-riscv64-linux-gnu). What cannot be built is left out. With PLATFORM (see cargo_build.sh) zig
# links the libraries, for the same oldest glibc.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=$1
libraries="$(rustc --print sysroot)/lib/rustlib"
build() { # build TARGET LINKER ARGUMENT...: where both are installed
    local target=$1 linker=$2 name
    shift 2
    if [ -d "$libraries/$target/lib" ] && command -v "$linker" >/dev/null 2>&1; then
        name=${target//-/_}
        env "CARGO_TARGET_${name^^}_LINKER=$linker" cargo build --profile "$profile" --quiet --target "$target" "$@"
    fi
}

# What the parts themselves are built for (PLATFORM: see cargo_build.sh) has its libraries already.
own=${PLATFORM:-$(uname -m)}
preloaded="-p mmulab-record-heap -p mmulab-record-sites"
for pair in aarch64:aarch64 riscv64:riscv64gc; do
    arch=${pair%:*} target=${pair#*:}-unknown-linux-gnu
    if [ "${own%%-*}" = "$arch" ]; then continue; fi
    # shellcheck disable=SC2086 # Two packages.
    if [ -z "${PLATFORM:-}" ]; then
        RUSTFLAGS=$(scripts/baseline.sh "$target") build "$target" "$arch-linux-gnu-gcc" $preloaded
    elif [ -d "$libraries/$target/lib" ]; then
        BASELINE=1 PLATFORM=$target.${PLATFORM#*.} scripts/cargo_build.sh --profile "$profile" $preloaded
    fi
done
RUSTFLAGS="-C target-feature=+crt-static" build aarch64-unknown-linux-gnu aarch64-linux-gnu-gcc -p mmulab-guest-agent
