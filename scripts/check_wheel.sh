#!/usr/bin/env bash
# Installs the wheel $1 outside the checkout and runs it: the version, what works, and a study of `ls`. As root it does
# this as another user, who sees neither the checkout nor cargo, so that nothing of a build is needed at run time.
set -euo pipefail

wheel=$(realpath "$1")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cp "$wheel" "$place"
chmod -R a+rX "$place"
run() {
    if [ "$(id -u)" = 0 ]; then
        chown -R nobody "$place"
        setpriv --reuid=nobody --regid=nogroup --clear-groups env -i HOME="$place" PATH=/usr/bin:/bin "$@"
    else
        env -i HOME="$place" PATH=/usr/bin:/bin "$@"
    fi
}
cd "$place"
run python3 -m venv "$place/venv"
run "$place/venv/bin/pip" install -q --disable-pip-version-check "$place/$(basename "$wheel")"
run "$place/venv/bin/mmulab" --version
run "$place/venv/bin/python" -c 'import mmulab._core as core; print("engine:", core.__file__)'
run "$place/venv/bin/mmulab" doctor
run "$place/venv/bin/mmulab" study --out "$place/study" ls -la /
test -s "$place/study/report.html"
echo "the wheel works: $(basename "$wheel")"
