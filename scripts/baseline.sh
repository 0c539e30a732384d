#!/usr/bin/env bash
# Prints the compiler flags with which Rust's code runs on every processor of the architecture that the target $1 begins
# with, such as aarch64-unknown-linux-gnu; without $1, of this computer's architecture.
set -euo pipefail

# Rust's names of the oldest processors, which zig knows too.
case ${1:-$(uname -m)} in
x86_64*) echo "-C target-cpu=x86-64" ;;
# The target riscv64gc says it all. With a processor named, zig would take one without floating point. The flag is Rust's
# default: without any, cargo would take this computer's processor from .cargo/config.toml.
riscv64*) echo "-C relocation-model=pic" ;;
*) echo "-C target-cpu=generic" ;;
esac
