#!/usr/bin/env bash
# Builds wheels for x86-64 and aarch64 into the directory $1, with zig as C compiler and linker, and checks that nothing in
# them needs a newer glibc than their names say. The guest agent of aarch64 systems is linked by gcc-aarch64-linux-gnu.
set -euo pipefail
cd "$(dirname "$0")/.."

# RHEL 8 and Debian 10 have it.
glibc=2.28
directory=$1
# Each wheel's parts are put into the checkout's package; what `make build` had there comes back.
trap 'scripts/assemble.sh release python/mmulab' EXIT
for architecture in x86_64 aarch64; do
    triple=$architecture-unknown-linux-gnu
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$triple/lib" ]; then
        echo "error: Rust has no library for $triple" >&2
        echo "hint: rustup target add $triple" >&2
        exit 1
    fi
    if ! command -v aarch64-linux-gnu-gcc >/dev/null 2>&1; then
        echo "error: no aarch64-linux-gnu-gcc, which links the first program of recorded aarch64 systems" >&2
        echo "hint: apt-get install gcc-aarch64-linux-gnu" >&2
        exit 1
    fi
    .venv/bin/python -m pip wheel -q --disable-pip-version-check --no-deps -w "$directory" \
        --config-settings="platform=$triple.$glibc" .
    .venv/bin/python scripts/glibc_needed.py "$glibc" "$directory"/mmulab-*_"$architecture".whl
done
