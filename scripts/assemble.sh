#!/usr/bin/env bash
# Puts beside the Python package what it needs at run time: the recorder's plugin, which QEMU loads by its path, and the
# machine and policy files, which an installed package has no checkout to read from.
set -euo pipefail
cd "$(dirname "$0")/.."

lib=python/mmulab/_lib
mkdir -p "$lib/machines" "$lib/policies"
cp machines/*.toml "$lib/machines/"
cp policies/*.toml "$lib/policies/"
# Copied aside and renamed: a recording that runs keeps the plugin it has loaded.
cp "${CARGO_TARGET_DIR:-target}/release/libmmulab_record_plugin.so" "$lib/libmmulab_record.so.new"
mv "$lib/libmmulab_record.so.new" "$lib/libmmulab_record.so"
