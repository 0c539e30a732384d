#!/usr/bin/env bash
# Builds the parts of mmulab that are not Python with cargo's profile $1 (`release`, or `dev`, which checks arithmetic and
# assertions), and puts them into the Python package in the directory $2.
set -euo pipefail
cd "$(dirname "$0")/.."

# A make with several jobs hands its job server on, and cargo would wait for a place there.
unset MAKEFLAGS MFLAGS

profile=$1 package=$2
# Beside the engine, whose last crates leave a core free: until then they wait, so that the engine is not held up.
nice -n 19 scripts/parts.sh "$profile" &
parts=$!
cargo build --profile "$profile" --quiet -p mmulab-python -p mmulab-record-plugin || { wait; exit 1; }
wait "$parts"
scripts/assemble.sh "$profile" "$package"
# Cargo keeps what its profile `dev` builds under `debug`.
cp "${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/lib_core.so" "$package/_core.abi3.so.new"
mv "$package/_core.abi3.so.new" "$package/_core.abi3.so"
# Of a wheel that was built here before.
rm -rf "${package:?}/_lib/levels"
