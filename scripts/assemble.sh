#!/usr/bin/env bash
# Puts beside the Python package what it needs at run time: the recorder's plugin (built before), and the machine and
# policy files, which an installed package has no checkout to read from.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
lib=python/mmulab/_lib
mkdir -p "$lib/machines" "$lib/policies"
# A new file each time: a QEMU that is recording keeps the one it mapped.
cp "$target/release/libmmulab_record_plugin.so" "$lib/libmmulab_record.so.new"
mv "$lib/libmmulab_record.so.new" "$lib/libmmulab_record.so"
cp machines/*.toml "$lib/machines/"
cp policies/*.toml "$lib/policies/"
