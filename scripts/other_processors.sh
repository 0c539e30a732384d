#!/usr/bin/env bash
# Builds with cargo's profile $1 what runs on other processors than this one: the libraries that recorded programs for
# aarch64 and riscv64 preload, and the first program of recorded aarch64 systems. Each needs Rust's library and a linker for
# its processor (`rustup target add aarch64-unknown-linux-gnu`, `apt-get install gcc-aarch64-linux-gnu`; and
# riscv64gc-unknown-linux-gnu, gcc-riscv64-linux-gnu). What cannot be built is left out.
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
    arch=${pair%:*}
    if [ "${own%%-*}" != "$arch" ]; then
        # shellcheck disable=SC2086 # Two packages.
        RUSTFLAGS="-C target-cpu=generic" build "${pair#*:}-unknown-linux-gnu" "$arch-linux-gnu-gcc" $preloaded
    fi
done
RUSTFLAGS="-C target-feature=+crt-static" build aarch64-unknown-linux-gnu aarch64-linux-gnu-gcc -p mmulab-guest-agent
