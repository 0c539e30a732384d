#!/usr/bin/env bash
# Installs the aarch64 wheel $1 beside Debian's Python for aarch64, all in a directory of its own, and runs it by qemu-aarch64:
# the version, what works here, a generator on a Neoverse N1, and the generators' own program. Needs apt-get and dpkg.
set -euo pipefail

wheel=$(realpath "$1")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
root=$place/root
mkdir -p "$root" "$place"/{lists/partial,cache/archives/partial,packages}
chmod -R a+rwX "$place"

# This computer's package lists and architectures stay as they are.
debian() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State::lists="$place/lists" \
        -o Dir::Cache="$place/cache" "$@" >/dev/null
}
debian update
python=$(python3 -c 'import sys; print(f"python{sys.version_info.major}.{sys.version_info.minor}")')
if ! (cd "$place/packages" && debian download "$python-minimal" 2>/dev/null); then python=python3.11; fi
(cd "$place/packages" && debian download "$python-minimal" "lib$python-minimal" "lib$python-stdlib" libc6 libgcc-s1 \
    libstdc++6 zlib1g libexpat1 libssl3 libffi8 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libreadline8 libtinfo6)
for package in "$place"/packages/*.deb; do dpkg -x "$package" "$root"; done

# pip of this computer chooses and unpacks: it need not run there.
version=${python#python}
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q --disable-pip-version-check --target "$place/site" --only-binary=:all: \
    --implementation cp --python-version "$version" --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 \
    "$wheel"
arm() { env -i HOME="$place" PATH=/usr/bin:/bin PYTHONPATH="$place/site" qemu-aarch64 -L "$root" "$@"; }
mmulab() { arm "$root/usr/bin/$python" -m mmulab "$@"; }

mmulab --version
mmulab doctor || [ $? -le 1 ]
mmulab run neoverse-n1 --trace 'gen:gups?footprint=64M&updates=1M' >"$place/told"
grep -q Neoverse "$place/told" || grep -q neoverse "$place/told"
arm "$place/site/mmulab/_lib/mmulab-kernel" gups footprint=1M updates=1000 >/dev/null
echo "the wheel works: $(basename "$wheel")"
