"""Text that a program changes, and code that it makes and unmaps: recorded, studied, tried and put in another order."""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import Cli

from mmulab import stopwatch
from mmulab.stopwatch import process
from mmulab.stopwatch.process import Program

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program is x86-64 assembly")
BY_NAME = {setting.name: setting for setting in stopwatch.SETTINGS}

# `answer` returns 41 until the program writes another function over it. It lies in the middle of 8 MB of code, so that
# it is moved with the code around it. Then memory for code: two functions are written to it, the page of one is
# unmapped, and the other still runs.
SOURCE = r"""
#include <string.h>
#include <sys/mman.h>
__asm__(".text\n.balign 4096\n.fill 4194304, 1, 0x90\n.globl answer\nanswer:\nmov $41, %eax\nret\n"
        ".balign 4096\n.fill 4194304, 1, 0x90\n");
int answer(void);
static void write_function(void *at, int value) {
    unsigned char code[] = {0xb8, value, 0, 0, 0, 0xc3};
    memcpy(at, code, sizeof code);
}
static int call(void *at) { return ((int (*)(void))at)(); }
int main(void) {
    int (*volatile ask)(void) = answer;
    char *page = (char *)((unsigned long)answer & ~4095ul);
    if (ask() != 41) return 1;
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC)) return 2;
    write_function(answer, 42);
    if (mprotect(page, 4096, PROT_READ | PROT_EXEC)) return 3;
    if (ask() != 42) return 4;
    for (int round = 0; round < 8; round++) {
        char *room = mmap(0, 4 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        char *code = (char *)(((unsigned long)room + (2 << 20) - 1) & ~((2ul << 20) - 1));
        write_function(code, round);
        write_function(code + 32768, round + 1);
        if (call(code) != round || call(code + 32768) != round + 1) return 5;
        if (munmap(code + 32768, 4096)) return 6;
        if (call(code) != round) return 7;
        munmap(room, 4 << 20);
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled, and known to be right as it is."""
    directory = tmp_path_factory.mktemp("changes")
    (directory / "changes.c").write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-w", "-o", "changes", "changes.c"], cwd=directory, check=True)
    assert subprocess.run([directory / "changes"], check=False).returncode == 0
    return directory / "changes"


@pytest.fixture(scope="module")
def recording(program: Path) -> Path:
    """The same, recorded: QEMU sees the changed function, too."""
    ran = Cli(program.parent)("record", "-o", "changes.mmt", "--json", "--", program)
    assert ran.code == 0, ran.err
    assert ran.json()["exit_status"] == 0
    return program.parent / "changes.mmt"


@pytest.mark.parametrize(
    "policy",
    ["linux-4k", "linux-thp", "linux-code-remap", "linux-code-hugetlb", "freebsd-code-1", "freebsd-code-shared"],
)
def test_simulated_kernels_serve_every_reference(policy: str, cli: Cli, recording: Path) -> None:
    """No store to text and no page of unmapped code is unmapped or forbidden where the program may use it."""
    ran = cli("run", "skylake-e3-1240v5", "--trace", recording, "--policy", policy, "--check", "translations", "--json")
    assert ran.code == 0, ran.err
    counts = ran.json()["counts"]
    # Pages of the pool change their rights by whole 2 MB: the mprotect fails, and so do the stores of six bytes.
    refused = 6 if policy == "linux-code-hugetlb" else 0
    assert counts["segfaults"] == {"unmapped": 0, "forbidden": refused}
    assert counts["kernel"]["events"]["munmap"] >= 16


def test_it_is_studied_and_put_in_another_order(cli: Cli, recording: Path) -> None:
    """Like any other program."""
    ran = cli(
        "study", recording, "--machines", "skylake-e3-1240v5", "--policies", "linux-4k,linux-code-remap", "--out", "s"
    )
    assert ran.code == 0, ran.err
    ran = cli("reorder", recording, "--out", "changes.order", "--machine", "skylake-e3-1240v5", "--json")
    assert ran.code == 0, ran.err
    before, after = (ran.json()["runs"][name][0]["counts"] for name in ("recorded", "ordered"))
    assert before["references"] == after["references"]


@pytest.mark.skipif(BY_NAME["code"].missing() is not None, reason=str(BY_NAME["code"].missing()))
def test_moved_text_can_be_changed_natively(program: Path, tmp_path: Path) -> None:
    """The copy on huge pages is this process's own, so that the program writes to it as to its text."""
    reports = tmp_path / "reports"
    reports.mkdir(exist_ok=True)
    assert process.run(Program([str(program)]), BY_NAME["code"], reports).exit_code == 0
    (written,) = process.reported(reports)
    assert written["code_moved"] >= 6 << 20
