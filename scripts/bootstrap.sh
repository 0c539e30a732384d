#!/usr/bin/env bash
# Checks that what mmulab is built with is here. As root on Debian it installs what is missing, otherwise it says
# exactly what that is. Without QEMU everything but recording works.
set -euo pipefail

rust_needed=1.88
python_needed=3.10
packages=()

want() { # want COMMAND PACKAGE: the package is missing if the command is
    command -v "$1" >/dev/null 2>&1 || packages+=("$2")
}

want cc gcc
[ -e /usr/include/stdio.h ] || packages+=(libc6-dev)
want python3 python3
if ! command -v python3 >/dev/null 2>&1 || ! python3 -c 'import ensurepip, venv' >/dev/null 2>&1; then
    packages+=(python3-venv)
fi
want "qemu-$(uname -m)" qemu-user
# One test records a program that uses jemalloc; as root on Debian it is installed, elsewhere that test is left out.
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && ! compgen -G '/usr/lib/*/libjemalloc.so.2' >/dev/null; then
    packages+=(libjemalloc2)
fi

# Servers are recorded where CI runs; a developer's machine is not made to serve for that.
if [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    want redis-server redis-server
    want memcached memcached
    # So are whole systems; the guest's kernel is fetched when the first is.
    want qemu-system-x86_64 qemu-system-x86
fi

if [ ${#packages[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing ${packages[*]}" >&2
        apt-get install -y -q "${packages[@]}" >/dev/null 2>&1 ||
            { apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -q "${packages[@]}" >/dev/null; }
    elif [ "${packages[*]}" = qemu-user ]; then
        echo "missing: qemu-user (nothing can be recorded without it)" >&2
        echo "hint: apt-get install qemu-user" >&2
    else
        echo "error: missing packages: ${packages[*]}" >&2
        echo "hint: as root: apt-get install ${packages[*]}" >&2
        exit 1
    fi
fi

at_least() { # at_least HAVE WANT
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

if ! command -v cargo >/dev/null 2>&1; then
    echo "error: no cargo: mmulab is built with Rust $rust_needed or newer" >&2
    echo "hint: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y && . ~/.cargo/env" >&2
    exit 1
fi
rust=$(cargo --version | cut -d ' ' -f 2)
if ! at_least "$rust" "$rust_needed"; then
    echo "error: cargo is $rust; mmulab is built with Rust $rust_needed or newer" >&2
    echo "hint: rustup update stable" >&2
    exit 1
fi
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if ! at_least "$python" "$python_needed"; then
    echo "error: python3 is $python; mmulab runs on Python $python_needed or newer" >&2
    exit 1
fi
