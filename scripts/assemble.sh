#!/usr/bin/env bash
# Puts into the Python package in the directory $2 what it needs at run time besides the engine, built with cargo's profile
# $1: the recorder's plugin, which QEMU loads by its path; the libraries that programs preload, recorded ones and those under
# the stopwatch; the generators as a program of their own; the first program of recorded systems; and the machine, policy
# and workload files and the glossary, which an installed package has no checkout to read from. PLATFORM: see
# cargo_build.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

# Cargo keeps what its profile `dev` builds under `debug`.
built=${1/#dev/debug} package=$2
target=${CARGO_TARGET_DIR:-target}
parts=$target/parts
# Cargo has a directory for each platform that it was told.
platform=${PLATFORM:-}
own=${platform:-$(uname -m)}
platform=${platform:+/${platform%%.*}}
lib=$package/_lib
mkdir -p "$lib"
for kind in machines policies workloads; do
    rm -rf "${lib:?}/$kind"
    cp -r "$kind" "$lib/$kind"
done
mkdir -p "$lib/docs"
cp docs/glossary.md "$lib/docs/"
# Copied aside and renamed: a recording that runs keeps what it has loaded.
for pair in "$target:record_plugin:record" "$parts:record_heap:heap" "$parts:record_sites:sites" "$parts:try_preload:try"; do
    IFS=: read -r from crate name <<<"$pair"
    cp "$from$platform/$built/libmmulab_$crate.so" "$lib/libmmulab_$name.so.new"
    mv "$lib/libmmulab_$name.so.new" "$lib/libmmulab_$name.so"
done
# What programs for other processors preload, where it could be built.
for pair in aarch64:aarch64 riscv64gc:riscv64; do
    for kind in heap sites; do
        library=$parts/${pair%:*}-unknown-linux-gnu/$built/libmmulab_record_$kind.so
        name=$lib/libmmulab_$kind-${pair#*:}.so
        if [ -e "$library" ] && [ "${own%%-*}" != "${pair#*:}" ]; then
            cp "$library" "$name.new"
            mv "$name.new" "$name"
        fi
    done
done
for pair in x86_64:x86-64 aarch64:aarch64; do
    agent=$parts/${pair%:*}-unknown-linux-gnu/$built/mmulab-guest-agent
    if [ -e "$agent" ]; then
        cp "$agent" "$lib/mmulab-guest-agent-${pair#*:}.new"
        mv "$lib/mmulab-guest-agent-${pair#*:}.new" "$lib/mmulab-guest-agent-${pair#*:}"
    fi
done
cp "$parts$platform/$built/mmulab-kernel" "$lib/mmulab-kernel.new"
mv "$lib/mmulab-kernel.new" "$lib/mmulab-kernel"
