"""`mmulab record`: real programs, made here with the C compiler, and what must be in their traces."""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Build, Cli, complete

QEMU = f"qemu-{platform.machine()}"

# One process works for some 1.2 million instructions and waits. Then another one works for ten million.
RELAY = """
#include <sys/wait.h>
#include <unistd.h>
static void work(long rounds) {
    volatile long sum = 0;
    for (long i = 0; i < rounds; i++) sum += i;
}
int main(void) {
    int go[2], end[2];
    char byte;
    if (pipe(go) || pipe(end)) return 1;
    if (fork() == 0) { work(200000); write(go[1], "", 1); read(end[0], &byte, 1); _exit(0); }
    if (fork() == 0) { read(go[0], &byte, 1); work(2000000); write(end[1], "", 1); _exit(0); }
    wait(0);
    wait(0);
    return 0;
}
"""
# Threads, a copy of itself, and another program.
FAMILY = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *work(void *from) { volatile char *p = from; for (int i = 0; i < 200000; i++) p[i] += 1; return 0; }
int main(int count, char **args) {
    pthread_t threads[3];
    char *heap = malloc(1 << 20);
    for (int i = 0; i < 3; i++) pthread_create(threads + i, 0, work, heap + 200000 * i);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    if (fork() == 0) { work(heap); execl("/bin/echo", "echo", "child", (char *)0); _exit(1); }
    wait(0);
    if (system("echo shell") != 0) return 1;
    return 3;
}
"""
CRASH = "int main(void) { volatile int s = 0; for (int i = 0; i < 100000; i++) s += i; *(volatile int *)8 = 1; }"
# Maps, unmaps, moves, protects and advises; every page is touched while it is there.
SPACE = """
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    for (int round = 0; round < 3; round++) {
        char *a = mmap(0, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(a, 1, 64 << 10);
        madvise(a, 32 << 10, MADV_DONTNEED);
        a = mremap(a, 64 << 10, 1 << 20, MREMAP_MAYMOVE);
        memset(a, 2, 1 << 20);
        mprotect(a, 4096, PROT_READ);
        munmap(a, 1 << 20);
        char *end = sbrk(1 << 20);
        memset(end, 3, 1 << 20);
    }
    return 0;
}
"""
# 3 + 1000 * 10 + 3 instructions. One of the loop crosses a page boundary. QEMU reads a part of it and ends the block
# before it. Version 7.2 counts the part as an instruction.
CROSSING = """
.globl _start
.text
.balign 4096
_start:
    mov $1000, %ecx
    xor %edx, %edx
    jmp loop
.balign 4096
    .skip 4096 - 13
loop:
    nop; nop; nop; nop; nop
    add $1, %rdx
    nop
    movabs $0x1122334455667788, %rax
    dec %ecx
    jne loop
    mov $60, %eax
    xor %edi, %edi
    syscall
"""
# Is interrupted wherever it is, on its own stack and on another one, and so is a copy of itself.
SIGNALS = """
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int heard;
static void hear(int number) { heard++; }
static void work(int until) {
    struct itimerval often = { { 0, 500 }, { 0, 500 } };
    setitimer(ITIMER_REAL, &often, 0);
    for (volatile long i = 0; heard < until; i++) raise(SIGUSR1 + (i & 1) * (SIGUSR2 - SIGUSR1));
}
int main(void) {
    stack_t other = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
    sigaltstack(&other, 0);
    struct sigaction on_stack = { .sa_handler = hear, .sa_flags = SA_ONSTACK };
    sigaction(SIGUSR2, &on_stack, 0);
    signal(SIGALRM, hear);
    signal(SIGCHLD, hear);
    signal(SIGUSR1, SIG_IGN);
    work(500);
    if (fork() == 0) { work(600); _exit(0); }
    wait(0);
    return 0;
}
"""
# Loads a library, leaves it and loads it again; a copy of itself has it, too.
LOADER = """
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
static char zeroes[100000];
int main(void) {
    for (int round = 0; round < 3; round++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
        zeroes[round * 30000] = cosine(round) > 0;
        if (fork() == 0) _exit(cosine(3) > 0);
        wait(0);
        if (round < 2) dlclose(library);
    }
    return 0;
}
"""

if shutil.which(QEMU) is None:

    def test_without_qemu_it_says_what_to_install(cli: Cli) -> None:
        """Everything else works; this says what it needs."""
        ran = cli("record", "-o", "a.mmt", "--", "true")
        assert ran.code == 2
        assert "install the package `qemu-user`" in ran.err

else:

    def test_threads_children_and_programs_they_become(cli: Cli, build: Build) -> None:
        """All of them are in the trace as themselves, and none is lost."""
        ran = cli("record", "-o", "a.mmt", "--json", "--", build(FAMILY))
        assert ran.code == 0, ran.err
        assert "child" in ran.err
        assert "shell" in ran.err
        found = json.loads(ran.out)
        assert found["exit_status"] == 3
        # The program, its copy that becomes echo, and the shell.
        assert found["processes"] == 3
        assert found["threads"] == 6
        assert found["lost"] == []
        info = cli("trace", "info", "a.mmt", "--json").json()
        assert info["instructions"] == found["instructions"]
        assert info["events"]["fork"] == 2
        assert info["events"]["clone"] == 3
        assert info["events"]["exec"] == 2
        complete(cli, "a.mmt")

    @pytest.mark.parametrize("program", [FAMILY, LOADER])
    def test_its_files_can_be_linked_anew(cli: Cli, build: Build, program: str) -> None:
        """The program headers are in the trace, and every reference still finds its page."""
        assert cli("record", "-o", "a.mmt", "--", build(program)).code in (0, 3)
        assert cli("trace", "info", "a.mmt", "--json").json()["events"]["image"] >= 3
        for size in ("4K", "2M"):
            complete(cli, "a.mmt", "--max-page-size", size)
        complete(cli, "a.mmt", "--linker", "gnu-separate-code")

    def test_the_address_space_is_followed(cli: Cli, build: Build) -> None:
        """What is mapped, moved and unmapped in the trace is what the program touched."""
        ran = cli("record", "-o", "a.mmt", "--", build(SPACE))
        assert ran.code == 0, ran.err
        events = cli("trace", "info", "a.mmt", "--json").json()["events"]
        assert events["mremap"] == 3
        assert events["madvise"] == 3
        assert events["brk"] >= 4
        complete(cli, "a.mmt")

    @pytest.mark.parametrize("linked", ["-pie", "-no-pie", "-static", "-static-pie"])
    def test_what_the_emulator_maps_for_signals_is_told(cli: Cli, build: Build, linked: str) -> None:
        """Returns from handlers look at it: at tables of segments on x86-64, at code on others."""
        ran = cli("record", "-o", "a.mmt", "--", build(SIGNALS, linked))
        assert ran.code == 0, ran.err
        assert "label=[emulator]" in cli("trace", "head", "a.mmt", "--count", "200").out
        complete(cli, "a.mmt")

    @pytest.mark.skipif(platform.machine() != "x86_64", reason="the program is for x86-64")
    def test_an_instruction_across_a_page_boundary_is_one(cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "c.s").write_text(CROSSING)
        subprocess.run(["cc", "-nostdlib", "-static", "-o", "c", "c.s"], cwd=tmp_path, check=True)
        assert cli("record", "-o", "a.mmt", "--", "./c").code == 0
        ran = cli("run", "zen4-epyc9004", "--trace", "a.mmt", "--timing", "--json")
        assert ran.code == 0, ran.err
        timing = ran.json()["timing"]
        assert (timing["instructions"], timing["unknown_instructions"]) == (10_006, 0)

    def test_a_crash_loses_nothing(cli: Cli, build: Build) -> None:
        """The trace holds everything up to the fault, and says how the program ended."""
        ran = cli("record", "-o", "a.mmt", "--json", "--", build(CRASH))
        assert ran.code == 0, ran.err
        assert "the program ended with status 139" in ran.err
        assert ran.json()["instructions"] > 300_000
        assert cli("trace", "verify", "a.mmt").code == 0
        assert "signal 11 ended the program" in cli("trace", "info", "a.mmt").err + cli("trace", "info", "a.mmt").out

    def test_two_recordings_with_a_fixed_layout_are_equal(cli: Cli, build: Build, tmp_path: Path) -> None:
        """Bit for bit."""
        program = build(SPACE)
        for name in ("a.mmt", "b.mmt"):
            assert cli("record", "-o", name, "--fixed-layout", "--", program).code == 0
        assert (tmp_path / "a.mmt").read_bytes() == (tmp_path / "b.mmt").read_bytes()

    def test_a_part(cli: Cli, build: Build) -> None:
        """What comes before is left out, but what it mapped is there."""
        program = build(FAMILY)
        ran = cli("record", "-o", "a.mmt", "--skip", "500k", "--max-instructions", "1M", "--json", "--", program)
        assert ran.code == 0, ran.err
        found = json.loads(ran.out)
        assert found["ended"] == "limit"
        assert 1_000_000 <= found["instructions"] < 1_000_100
        complete(cli, "a.mmt")

    def test_a_part_of_several_processes_begins_where_it_was_asked_to(cli: Cli, build: Build) -> None:
        """The process that crosses the limit waits right after it, while another one works on."""
        ran = cli("record", "-o", "a.mmt", "--skip", "1M", "--json", "--", build(RELAY))
        assert ran.code == 0, ran.err
        recorded = json.loads(ran.out)["instructions"]
        ran = cli("run", "skylake-e3-1240v5", "--trace", "a.mmt", "--json")
        assert ran.code == 0, ran.err
        # Some thousand instructions stand for the pages that were in use before.
        assert ran.json()["counts"]["instructions"] > 0.95 * recorded > 5_000_000

    def test_ctrl_c_keeps_what_there_is(tmp_path: Path) -> None:
        """The program is ended, and the trace is whole."""
        command = [sys.executable, "-m", "mmulab", "record", "-o", "a.mmt", "--", "sleep", "60"]
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
            while not (tmp_path / "a.mmt").exists() or not (tmp_path / "a.mmt").stat().st_size:
                assert process.poll() is None
                time.sleep(0.05)
            time.sleep(0.3)
            os.kill(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=300)
        assert process.returncode == 130
        assert "a.mmt holds what was recorded so far (interrupted)" in err
        assert Cli(tmp_path)("trace", "verify", "a.mmt").code == 0

    def test_a_full_disk_is_told(cli: Cli, build: Build) -> None:
        """Linux has a device that is always full."""
        ran = cli("record", "-o", "/dev/full", "--", build(FAMILY))
        assert ran.code == 1, ran.err
        assert "No space left on device" in ran.err

    def test_what_cannot_be_recorded_is_refused(cli: Cli, tmp_path: Path) -> None:
        """A missing program, a file that is none, a CPU that QEMU does not know: nothing is left behind."""
        (tmp_path / "data").write_text("not a program")
        (tmp_path / "data").chmod(0o755)
        for arguments, code, message in [
            (["--", "no-such-program"], 2, "no-such-program: no such program"),
            (["--", "./data"], 2, "neither an ELF file nor a script"),
            (["--cpu", "none-such", "--", "true"], 1, "QEMU did not start"),
            ([], 2, "no program to record"),
        ]:
            ran = cli("record", "-o", "a.mmt", *arguments)
            assert ran.code == code, ran.err
            assert message in ran.err
            assert not (tmp_path / "a.mmt").exists()

    def test_a_study_records_by_itself(cli: Cli, tmp_path: Path, build: Build) -> None:
        """`study -- PROGRAM`: the recording stays beside the report."""
        options = ("--machines", "skylake-e3-1240v5", "--out", "out")
        ran = cli("study", *options, "--", build(SPACE))
        assert ran.code == 0, ran.err
        assert "report: out/report.html" in ran.err
        assert (tmp_path / "out" / "trace.mmt").exists()

    HEAP = r"""
    #pragma GCC optimize("O0") // Otherwise what is given back unused is never asked for.
    #define _GNU_SOURCE
    #include <malloc.h>
    #include <pthread.h>
    #include <stdlib.h>
    #include <unistd.h>
    static void *work(void *unused) { for (int i = 0; i < 100; i++) free(malloc(777)); return unused; }
    int main(void) {
        char *a = malloc(1001), *b = calloc(3, 1002), *c, *d = aligned_alloc(64, 1024), *e = memalign(128, 1005);
        if (posix_memalign((void **)&c, 4096, 1003)) return 1;
        a = realloc(a, 50001);
        a = realloc(a, 50002);
        volatile size_t too_much = (size_t)1 << 60;
        if (realloc(b, too_much)) return 1;
        free(a); free(b); free(c); free(d); free(e); free(0);
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) pthread_create(threads + i, 0, work, 0);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
        if (fork() == 0) { free(malloc(888)); _exit(0); }
        execl("/bin/true", "true", (char *)0);
    }
    """

    def test_the_heap_is_told(cli: Cli, build: Build, tmp_path: Path) -> None:
        """Every object that a program has, from its first byte to its end, also of threads and children."""
        ran = cli("record", "-o", "a.mmt", "--heap", "--", build(HEAP))
        assert ran.code == 0, ran.err
        complete(cli, "a.mmt")
        assert cli("trace", "convert", "a.mmt", "a.mmtx").code == 0
        lines = (tmp_path / "a.mmtx").read_text().splitlines()
        assert "#: heap told" in lines
        live: dict[str, int] = {}
        had: dict[int, list[str]] = {}
        for words in (line.split() for line in lines):
            if words[0] == "exec":
                live.clear()
            elif words[0] == "malloc":
                assert words[1] not in live
                live[words[1]] = int(words[2], 16)
                had.setdefault(live[words[1]], []).append(words[1] if len(words) == 3 else words[3])
            elif words[0] == "free":
                had.setdefault(-live.pop(words[1]), []).append(words[1])
        assert len(had[1001]) == len(had[-1001]) == 1
        assert len(had[3006]) == 1, "calloc"
        assert had[1003] == ["align=0x1000"]
        assert had[1024] == ["align=0x40"]
        assert had[1005] == ["align=0x80"]
        assert len(had[50001]) == len(had[50002]) == len(had[-50002]) == 1
        assert not [size for size in had if size > 1 << 40]
        assert len(had[777]) == len(had[-777]) == 200
        assert len(had[888]) == len(had[-888]) == 1

    def test_a_heap_that_cannot_be_seen_is_refused(cli: Cli, tmp_path: Path) -> None:
        """A static program's allocator is its own."""
        (tmp_path / "s.c").write_text("int main(void) { return 0; }")
        subprocess.run(["cc", "-static", "-o", "s", "s.c"], cwd=tmp_path, check=True)
        ran = cli("record", "-o", "a.mmt", "--heap", "--", "./s")
        assert ran.code == 2
        assert "its heap cannot be recorded: it is linked statically" in ran.err
        assert not (tmp_path / "a.mmt").exists()
