#!/usr/bin/env bash
# `cargo build` with the arguments given, for this computer; for PLATFORM, if that is set, such as
# aarch64-unknown-linux-gnu.2.28 (an architecture, and the oldest glibc that it will meet), with zig as C compiler and linker.
#
# With BASELINE=1 it is for every processor of the architecture, not for this one alone.
set -euo pipefail

if [ -n "${BASELINE:-}" ]; then
    RUSTFLAGS=$("$(dirname "$0")/baseline.sh" "${PLATFORM:-}")
    export RUSTFLAGS
fi
if [ -n "${PLATFORM:-}" ]; then
    exec cargo zigbuild --quiet --target "$PLATFORM" "$@"
fi
exec cargo build --quiet "$@"
