#!/usr/bin/env bash
# Prints the compiler flags with which Rust's code runs on every processor of the architecture that the target $1 begins
# with, such as aarch64-unknown-linux-gnu; without $1, of this computer's architecture.
set -euo pipefail

# Rust's names of the oldest processors, which zig knows too.
case ${1:-$(uname -m)} in
x86_64*) echo "-C target-cpu=x86-64" ;;
# The target riscv64gc already stands for the oldest processor. If a processor is named, zig takes one without floating
# point. Without any flag, cargo takes those of .cargo/config.toml. So this is a flag that Rust sets anyway.
riscv64*) echo "-C relocation-model=pic" ;;
*) echo "-C target-cpu=generic" ;;
esac
