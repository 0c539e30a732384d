"""Guests whose memory is a file: one that has a disk and is used, and the one that `mmulab record --system` boots."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import free_lists
from free_lists import Lists, Memory

# In the order in which they need each other.
MODULES = ("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk")
# The guest says where it is, and waits for a line. A guest that waits is read.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin
mount -t proc proc /proc; mount -t devtmpfs dev /dev 2>/dev/null
echo 0 > /proc/sys/kernel/printk
for m in {modules}; do insmod /modules/$m.ko; done
for s in {symbols}; do echo "SYMBOL $(grep " $s$" /proc/kallsyms | head -1)"; done
mkdir -p /disk; mount -t ext4 /dev/vda /disk; mount --bind /proc /disk/proc; mount --bind /dev /disk/dev
i=0
while [ $i -lt {rounds} ]; do
  chroot /disk /bin/sh /work/round.sh $i
  echo "ROUND $i"; read -r answer
  i=$((i+1))
done
poweroff -f
"""
QEMU = "qemu-system-x86_64"
# The recorder's QEMU with a file for memory; its clock and its placement are left to chance, as without --fixed-layout.
WRAPPER = """#!/bin/bash
args=() skip=0
for a in "$@"; do
  if [ $skip = 1 ]; then skip=0; continue; fi
  case "$a" in
    -icount|-seed) skip=1; continue;;
    memory-backend-memfd,id=ram,size=*,share=on)
      size=${{a#*size=}}; a="memory-backend-file,id=ram,size=${{size%%,*}},mem-path={ram},share=on";;
  esac
  args+=("$a")
done
exec {qemu} "${{args[@]}}"
"""
# It is read while it sleeps, after a second in which all comes to rest.
HOLD = '#include <unistd.h>\nint main() { write(1, "READY\\n", 6); sleep(12); }\n'
REST_S = 1.0


def used(
    kernel: Path, disk: Path, place: Path, mebibytes: int, rounds: int
) -> Iterator[tuple[int, dict[str, int], Lists]]:
    """Boots a guest and uses it: after each round its number, the kernel's symbols, and the free lists."""
    root, ram = place / "root", place / "ram"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "modules", "proc", "sys", "dev"):
        (root / name).mkdir(parents=True)
    shutil.copy("/usr/bin/busybox", root / "bin")
    for module in MODULES:
        [file] = kernel.glob(f"lib/modules/*/kernel/**/{module}.ko")
        shutil.copy(file, root / "modules")
    init = INIT.format(modules=" ".join(MODULES), symbols=" ".join(free_lists.SYMBOLS), rounds=rounds)
    (root / "init").write_text(init)
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with (place / "initrd").open("wb") as archive:
        subprocess.run(
            ["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(), stdout=archive, check=True
        )
    [image] = kernel.glob("boot/vmlinuz-*")
    backend = f"memory-backend-file,id=ram,size={mebibytes}M,mem-path={ram},share=on"
    command = [QEMU, "-accel", "tcg", "-cpu", "max,la57=off", "-m", f"{mebibytes}M", "-object", backend]
    command += ["-machine", "pc,memory-backend=ram", "-nographic", "-no-reboot", "-net", "none"]
    command += ["-kernel", str(image), "-initrd", str(place / "initrd"), "-append"]
    command += ["console=ttyS0 nokaslr quiet panic=-1", "-drive", f"file={disk},format=raw,if=virtio,snapshot=on"]
    guest = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert guest.stdin is not None
    assert guest.stdout is not None
    symbols: dict[str, int] = {}
    try:
        for raw in guest.stdout:
            words = raw.decode(errors="replace").split()
            if "SYMBOL" in raw.decode(errors="replace"):
                symbols[words[-1]] = int(words[-3], 16)
            elif words[:1] == ["ROUND"]:
                time.sleep(REST_S)
                yield int(words[1]), symbols, free_lists.read(Memory(ram, symbols), mebibytes)
                guest.stdin.write(b"\n")
                guest.stdin.flush()
    finally:
        guest.kill()
        guest.wait()
        ram.unlink(missing_ok=True)


def booted(place: Path, symbols: dict[str, int], mebibytes: int) -> Lists:
    """Boots the guest of a recording, and reads its free lists when the recorded program has begun."""
    ram, wrapper, program = place / "ram", place / "bin" / QEMU, place / "hold"
    wrapper.parent.mkdir(exist_ok=True)
    qemu = shutil.which(QEMU)
    wrapper.write_text(WRAPPER.format(ram=ram, qemu=qemu))
    wrapper.chmod(0o755)
    subprocess.run(["gcc", "-O1", "-static", "-x", "c", "-", "-o", str(program)], input=HOLD.encode(), check=True)
    command = ["mmulab", "record", "--system", "--user-only", "--thp", "never", "--memory", f"{mebibytes}M"]
    command += ["--fixed-layout", "-o", str(place / "hold.mmt"), "--", str(program)]
    environment = os.environ | {"PATH": f"{wrapper.parent}:{os.environ['PATH']}"}
    recorder = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert recorder.stdout is not None
    try:
        for line in recorder.stdout:
            if b"READY" in line:
                time.sleep(REST_S)
                return free_lists.read(Memory(ram, symbols), mebibytes)
        raise SystemExit("the recorded program did not begin: see what mmulab record said above")
    finally:
        recorder.wait()
        ram.unlink(missing_ok=True)
