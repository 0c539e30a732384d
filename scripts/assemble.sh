#!/usr/bin/env bash
# Puts beside the Python package what it needs at run time: the recorder's plugin, which QEMU loads by its path; the
# libraries that programs preload, recorded ones and those under the stopwatch; the generators as a program of their own;
# the first program of recorded systems; and the machine, policy and workload files, which an installed package has no
# checkout to read from.
set -euo pipefail
cd "$(dirname "$0")/.."

lib=python/mmulab/_lib
mkdir -p "$lib/machines" "$lib/policies"
cp machines/*.toml "$lib/machines/"
cp policies/*.toml "$lib/policies/"
rm -rf "$lib/workloads"
cp -r workloads "$lib/workloads"
# Copied aside and renamed: a recording that runs keeps what it has loaded.
for pair in record_plugin:record record_heap:heap try_preload:try; do
    cp "${CARGO_TARGET_DIR:-target}/release/libmmulab_${pair%:*}.so" "$lib/libmmulab_${pair#*:}.so.new"
    mv "$lib/libmmulab_${pair#*:}.so.new" "$lib/libmmulab_${pair#*:}.so"
done
for pair in x86_64:x86-64 aarch64:aarch64; do
    agent=${CARGO_TARGET_DIR:-target}/${pair%:*}-unknown-linux-gnu/release/mmulab-guest-agent
    if [ -e "$agent" ]; then
        cp "$agent" "$lib/mmulab-guest-agent-${pair#*:}.new"
        mv "$lib/mmulab-guest-agent-${pair#*:}.new" "$lib/mmulab-guest-agent-${pair#*:}"
    fi
done
cp "${CARGO_TARGET_DIR:-target}/release/mmulab-kernel" "$lib/mmulab-kernel.new"
mv "$lib/mmulab-kernel.new" "$lib/mmulab-kernel"
