#!/usr/bin/env bash
# Puts beside the Python package what it needs at run time: the machine and policy files, which an installed package
# has no checkout to read from.
set -euo pipefail
cd "$(dirname "$0")/.."

lib=python/mmulab/_lib
mkdir -p "$lib/machines" "$lib/policies"
cp machines/*.toml "$lib/machines/"
cp policies/*.toml "$lib/policies/"
