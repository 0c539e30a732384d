"""`mmulab record --system`: programs made here, run on a Linux of their own, and what their traces tell."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Build, Cli, complete

from mmulab import Failure, UserError, guest, paths

DATA = Path(__file__).parents[2] / "tests" / "data"
SAMPLE = DATA / "system-small.mmt"
ARM_SAMPLE = DATA / "system-arm.mmt"
ARM_16K_SAMPLE = DATA / "system-arm-16k.mmt"
# How far the simulated kernel may be from a real one: pages of 2 MB; and others, as a share of the real number.
LARGE_APART = 1
SMALL_APART = 0.01
# As a kernel with --thp never --mthp 64K=always.
MTHP_ONLY = ("--set", "policy.thp.sizes={2M='never',64K='always'}")

# Threads, a copy of itself, another program, a shell, and memory shared with the copy.
FAMILY = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
static void *work(void *from) { volatile char *p = from; for (int i = 0; i < 50000; i++) p[i] += 1; return 0; }
int main(void) {
    pthread_t threads[3];
    char *heap = malloc(1 << 20);
    volatile char *shared = shmat(shmget(IPC_PRIVATE, 100000, IPC_CREAT | 0600), 0, 0);
    for (int i = 0; i < 3; i++) pthread_create(threads + i, 0, work, heap + 200000 * i);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    if (fork() == 0) { shared[70000] = 7; work(heap); execl("/bin/echo", "echo", "child", (char *)0); _exit(1); }
    wait(0);
    if (system("echo shell") != 0) return 1;
    return shared[70000] == 7 && shmdt((void *)shared) == 0 ? 3 : 2;
}
"""
# Says where its pages are, as its kernel tells it.
FRAMES = """
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    char *at = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int map = open("/proc/self/pagemap", O_RDONLY);
    char text[256];
    text[read(open("/proc/meminfo", O_RDONLY), text, 255)] = 0;
    puts(text);
    for (int i = 0; i < 8 << 20; i += 4096) at[i] = 1;
    for (int i = 0; i < 8 << 20; i += 64 << 10) {
        unsigned long entry;
        pread(map, &entry, 8, (unsigned long)(at + i) / 4096 * 8);
        printf("page %lx %lx\\n", (unsigned long)(at + i), entry & ((1ul << 55) - 1));
    }
    return 0;
}
"""
# Serves, asks once, or asks often.
SERVER = """
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(int count, char **args) {
    struct sockaddr_un place = {AF_UNIX, "/tmp/served"};
    char word[8] = "word";
    for (int i = 0; count > 1 && i < atoi(args[1]); i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(fd, (void *)&place, sizeof place) || write(fd, word, 8) != 8 || read(fd, word, 8) != 8) return 1;
        close(fd);
    }
    if (count > 1) return 0;
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(server, (void *)&place, sizeof place) || listen(server, 5)) return 1;
    for (;;) {
        int fd = accept(server, 0, 0);
        read(fd, word, 8);
        write(fd, word, 8);
        close(fd);
    }
}
"""


def _kernel(qemu: str, isa: str) -> Path | None:
    if shutil.which(qemu) is None or not paths.guest_agent(isa).exists():
        return None
    try:
        return guest.kernel(lambda _: None, isa)
    except (UserError, Failure):
        return None


ARM_CC = "aarch64-linux-gnu-gcc"
live = pytest.mark.skipif(
    _kernel("qemu-system-x86_64", "x86-64") is None, reason="needs qemu-system-x86_64 and a kernel for its guest"
)
live_arm = pytest.mark.skipif(
    shutil.which(ARM_CC) is None or _kernel("qemu-system-aarch64", "aarch64") is None,
    reason="needs qemu-system-aarch64, a compiler, the agent and a kernel for aarch64",
)


@live
def test_threads_children_and_the_kernel_are_recorded(cli: Cli, build: Build) -> None:
    """Each under a number of its own, with its mappings; the kernel works in the address space of whoever asks it."""
    files = ["--file", "/bin/echo", "--file", "/bin/sh"]
    ran = cli("record", "--system", "-o", "a.mmt", *files, "--json", "--", build(FAMILY))
    assert ran.code == 0, ran.err
    assert "child" in ran.err
    assert "shell" in ran.err
    found = json.loads(ran.out)
    assert (found["ended"], found["exit_status"], found["lost"]) == ("exited", 3, [])
    info = cli("trace", "info", "a.mmt", "--json").json()
    # The program with its three threads, the copy that becomes echo, and the shell.
    assert (info["processes"], info["threads"]) == (3, 6)
    assert (info["events"]["fork"], info["events"]["exec"], info["events"]["clone"]) == (2, 2, 3)
    kernel = next(m for m in info["mappings"] if m["name"] == "[kernel]")
    assert kernel["code_pages"] > 100
    [shared] = [m for m in info["mappings"] if m["name"].startswith("/SYSV#")]
    assert (shared["kind"], shared["data_pages"]) == ("file", 2), "a page of each of the two processes that use it"
    assert not [m for m in info["mappings"] if m["kind"] == "none"]
    complete(cli, "a.mmt")


@live
def test_frames_are_those_that_the_kernel_tells(cli: Cli, build: Build) -> None:
    """A program that looks into its own page map finds there what the trace says.

    Its memory is fragmented as was asked for, and the simulated kernel gives as many large pages in memory like that.
    """
    held = ["--memhog", "40", "--memhog-chunk", "1M"]
    real = ["--memory", "512M", "--thp", "always", "--tune", "/proc/sys/vm/compaction_proactiveness=0", *held]
    ran = cli("record", "--system", "--user-only", *real, "-o", "a.mmt", "--", build(FRAMES, "-static"))
    assert ran.code == 0, ran.err
    total, free = (int(re.findall(rf"{name}: *(\d+) kB", ran.err)[0]) for name in ("MemTotal", "MemFree"))
    assert 0.4 * total < free < 0.62 * total, "of what the kernel left, 60 %"
    told = {int(at, 16): int(frame, 16) for at, frame in re.findall(r"page (\w+) (\w+)", ran.err)}
    assert len(told) == 128
    assert _frames(cli, told) == told
    complete(cli, "a.mmt")
    command = ["--trace", "a.mmt", "--policies", "linux-4k,linux-thp", "--set", "memory.size=512M", *held]
    rows = cli("pages", "skylake-e3-1240v5", *command, "--json").json()
    sizes = {kernel: {row["size"]: row["pages"] for row in of} for kernel, of in rows.items()}
    assert sizes["recorded"]["2M"] >= 3, "of 8 MB, all but the ends"
    assert abs(sizes["recorded"]["2M"] - sizes["linux-thp"]["2M"]) <= LARGE_APART
    assert set(sizes["linux-4k"]) == {"4K"}
    kinds = cli("pages", "skylake-e3-1240v5", *command, "--by-kind", "--json").json()["recorded"]
    assert {row["kind"] for row in kinds if row["size"] == "2M"} == {"anon"}
    assert sum(row["pages"] for row in kinds) == sum(sizes["recorded"].values())


def _frames(cli: Cli, wanted: dict[int, int]) -> dict[int, int | None]:
    """Where the trace says that pages lie."""
    cli("trace", "convert", "a.mmt", "a.mmtx")
    pattern = r"^frames 0x(\w+) 0x(\w+) (\w+)(?: x(\d+))?$"
    base = {"4K": 1, "64K": 16, "2M": 512, "32M": 8192}
    recorded: dict[int, int] = {}
    for at, physical, size, count in re.findall(pattern, (cli.cwd / "a.mmtx").read_text(), re.MULTILINE):
        for i in range(int(count or 1) * base[size]):
            recorded[int(at, 16) + 4096 * i] = (int(physical, 16) >> 12) + i
    return {at: recorded.get(at) for at in wanted}


@live_arm
def test_arm_systems_tell_pages_that_are_kept_as_one(cli: Cli, tmp_path: Path) -> None:
    """Sixteen pages of 4 KB with the contiguous bit are told as one, and lie where the kernel says."""
    (tmp_path / "frames.c").write_text(FRAMES)
    subprocess.run([ARM_CC, "-O1", "-static", "-o", "frames", "frames.c"], cwd=tmp_path, check=True)
    system = ["--system", "--user-only", "--memory", "512M", "--thp", "never", "--mthp", "64K=always"]
    ran = cli("record", *system, "-o", "a.mmt", "--", tmp_path / "frames")
    assert ran.code == 0, ran.err
    told = {int(at, 16): int(frame, 16) for at, frame in re.findall(r"page (\w+) (\w+)", ran.err)}
    assert len(told) == 128
    assert _frames(cli, told) == told
    rows = cli("pages", "neoverse-n1", "--trace", "a.mmt", "--policies", "linux-mthp", "--json").json()["recorded"]
    assert {row["size"]: row["pages"] for row in rows}["64K"] >= 127


@live
def test_a_server_and_its_clients(cli: Cli, build: Build) -> None:
    """Recording begins with the clients; both sides are in it, and it ends with the limit or with them."""
    program = build(SERVER)
    asks = ["--ready", f"{program} 1", "--client", f"{program} 300"]
    ran = cli("record", "--system", "-o", "a.mmt", *asks, "--json", "--", program)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert (found["ended"], found["processes"]) == ("exited", 2)
    info = cli("trace", "info", "a.mmt", "--json").json()
    assert info["events"]["switch"] > 300, "each answer is another process's"
    complete(cli, "a.mmt")
    ran = cli("record", "--system", "-o", "a.mmt", *asks, "--max-instructions", "1M", "--json", "--", program)
    found = json.loads(ran.out)
    assert found["ended"] == "limit"
    assert 1_000_000 <= found["instructions"] < 1_000_200


@live
def test_ctrl_c_keeps_what_there_is(tmp_path: Path, build: Build) -> None:
    """The machine is stopped, the trace is whole, and nothing is left behind."""
    program = build("int main(void) { for (volatile int i = 0;; i++); }", "-static")
    command = [sys.executable, "-m", "mmulab", "record", "--system", "-o", "a.mmt", "--", str(program)]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=env) as process:
        while not (tmp_path / "a.mmt").exists() or not (tmp_path / "a.mmt").stat().st_size:
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "a.mmt holds what was recorded so far (interrupted)" in err
    assert Cli(tmp_path)("trace", "verify", "a.mmt").code == 0
    assert not list(tmp_path.glob("mmulab-system-*"))


def test_what_cannot_be_recorded_is_refused(cli: Cli, tmp_path: Path) -> None:
    """Each with what to do; nothing is left behind."""
    (tmp_path / "vmlinuz").write_text("not a kernel")
    system = ["--system", "--kernel", "vmlinuz"]
    for arguments, message in [
        (["--thp", "always", "--", "true"], "hint: add --system"),
        ([*system, "--ready", "x", "--", "true"], "name with --client who uses it"),
        ([*system, "--file", "no-such", "--", "true"], "no-such: no such file"),
        ([*system, "--memory", "1000000", "--", "true"], "'1000000': give 64M to 1T, a multiple of 1M"),
        ([*system, "--isa", "riscv64", "--", "true"], "--isa riscv64 is not for a whole system"),
        ([*system, "--mthp", "48K=always", "--", "true"], "write a size of pages"),
        ([*system, "--mthp", "64K=often", "--", "true"], "pages are given always, madvise, never or inherit"),
        ([*system, "--tune", "swappiness=1", "--", "true"], "write a path in the guest and a value"),
        ([*system, "--memhog-chunk", "64K", "--", "true"], "say with --memhog how much"),
        # QEMU is looked for first.
        (
            [*system, "--client", "no-such-client", "--", "true"],
            "no-such-client: no such program" if shutil.which("qemu-system-x86_64") else "qemu-system-x86_64 is not in",
        ),
    ]:
        ran = cli("record", "-o", "a.mmt", *arguments, TMPDIR=str(tmp_path))
        assert ran.code == 2, ran.err
        assert message in ran.err
    assert not (tmp_path / "a.mmt").exists()
    assert not list(tmp_path.glob("mmulab-system-*"))


def _sizes(cli: Cli, machine: str, trace: Path, *options: str) -> dict[str, dict[str, int]]:
    ran = cli("pages", machine, "--trace", trace, *options, "--json")
    assert ran.code == 0, ran.err
    return {kernel: {row["size"]: row["pages"] for row in of} for kernel, of in ran.json().items()}


def test_real_pages_stand_beside_simulated_ones(cli: Cli) -> None:
    """In recordings made once: Linux and the simulated kernel gave as many pages of each size."""
    sizes = _sizes(cli, "skylake-e3-1240v5", SAMPLE, "--set", "memory.size=1G")
    assert abs(sizes["recorded"]["2M"] - sizes["linux-thp"]["2M"]) <= LARGE_APART
    assert abs(sizes["recorded"]["4K"] - sizes["linux-thp"]["4K"]) <= sizes["recorded"]["4K"] * SMALL_APART
    # On Arm, with transparent pages of 64 KB. There, each has one entry. Here, each has sixteen base pages that lie
    # together or, if the simulated kernel sets the contiguous bit, one entry, too. Memory in order: in memory as a boot
    # leaves it, base pages of other faults lie together by chance, too.
    memory = ["--set", "memory.size=512M", "--set", "memory.aged=off"]
    options = ["--policies", "linux-mthp,linux-mthp-contpte", *memory, *MTHP_ONLY, "--json"]
    rows = cli("pages", "neoverse-n1", "--trace", ARM_SAMPLE, *options).json()
    real = {row["size"]: row["pages"] for row in rows["recorded"]}
    with_bit = {row["size"]: row["pages"] for row in rows["linux-mthp-contpte"]}
    assert set(with_bit) == {"4K", "64K"}
    for size, pages in real.items():
        assert abs(with_bit[size] - pages) <= LARGE_APART + pages * SMALL_APART
    [ours] = rows["linux-mthp"]
    assert set(real) == {"4K", "64K"}
    assert abs(real["64K"] * 16 - ours["in_blocks"]["64K"]) <= real["64K"] * 16 * SMALL_APART
    assert abs(real["64K"] * 16 + real["4K"] - ours["pages"]) <= ours["pages"] * SMALL_APART
    # A kernel with base pages of 16 KB, whose huge page is 32 MB.
    options = ["--policies", "linux-thp", "--set", "memory.size=512M", "--json"]
    rows = cli("pages", "neoverse-n1-16k", "--trace", ARM_16K_SAMPLE, *options).json()
    real, ours = ({row["size"]: row["pages"] for row in rows[kernel]} for kernel in ("recorded", "linux-thp"))
    assert real == {"16K": 225, "32M": 2}
    assert set(ours) == set(real)
    for size, pages in real.items():
        assert abs(ours[size] - pages) <= pages * SMALL_APART
    refused = cli("pages", "skylake-e3-1240v5", "--trace", "gen:gups?footprint=1M&updates=10")
    assert refused.code == 2
    assert "record it with --system --user-only" in refused.err
