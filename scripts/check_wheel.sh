#!/usr/bin/env bash
# Installs the wheel $1 outside the checkout and runs it: the version, what works, a study of `ls`, and the first page of the
# guide. As root it does this as another user. All of it sees only a directory of links to python3, QEMU and coreutils as
# its PATH, so that neither a compiler nor anything else of a build is needed at run time.
set -euo pipefail

wheel=$(realpath "$1")
guide=$(realpath "$(dirname "$0")/../docs/guide/getting-started.md")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cp "$wheel" "$place"

tools=$place/tools
mkdir "$tools"
for tool in basename cat cp dirname env false head ls mkdir mv rm sort tail test tr true uname wc; do
    ln -s "$(type -P "$tool")" "$tools/$tool"
done
for qemu in $(compgen -c qemu- | sort -u); do
    if [ ! -e "$tools/$qemu" ]; then ln -s "$(type -P "$qemu")" "$tools/$qemu"; fi
done
for tool in cc gcc clang ld cargo rustc make git; do
    if PATH=$tools type -P "$tool" >/dev/null; then
        echo "$tool is in $tools: this would not show what a user without compilers sees" >&2
        exit 1
    fi
done

chmod -R a+rX "$place"
run() {
    if [ "$(id -u)" = 0 ]; then
        chown -R nobody "$place"
        setpriv --reuid=nobody --regid=nogroup --clear-groups env -i HOME="$place" PATH="$tools" "$@"
    else
        env -i HOME="$place" PATH="$tools" "$@"
    fi
}
cd "$place"
# The first Python that this user may run: one in root's home is not for others.
for python in $(type -ap python3); do
    if run "$python" -c 'import ensurepip, venv' 2>/dev/null; then break; fi
    python=
done
if [ -z "${python:-}" ]; then
    echo "no python3 with venv that another user may run (Debian: apt-get install python3-venv)" >&2
    exit 1
fi
ln -s "$python" "$tools/python3"
run "$python" -m venv "$place/venv"
run "$place/venv/bin/pip" install -q --disable-pip-version-check "$place/$(basename "$wheel")"
run "$place/venv/bin/mmulab" --version
run "$place/venv/bin/python" -c 'import mmulab._core as core; print("engine:", core.__file__)'
run "$place/venv/bin/mmulab" study --out "$place/study" ls -la /
for made in study/report.html venv/share/man/man1/mmulab-study.1 venv/share/bash-completion/completions/mmulab; do
    test -s "$place/$made"
done

# The first page of the guide, whose program is any.
cp "$(type -P true)" my-program
chmod a+rx my-program
ran=0
while IFS= read -r line; do
    echo "$line"
    # The words of the line as a shell takes them, but for the prompt and the command's name. A comment ends with the line.
    eval "words=(${line#\$ mmulab}
    )"
    run "$place/venv/bin/mmulab" "${words[@]}" </dev/null
    ran=$((ran + 1))
done < <(grep '^\$ mmulab ' "$guide")
if [ "$ran" -lt 3 ]; then
    echo "$guide has $ran lines that begin with '\$ mmulab': the first page of the guide is elsewhere" >&2
    exit 1
fi
echo "the wheel works: $(basename "$wheel")"
