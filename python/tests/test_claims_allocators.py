"""Claims about what allocators tell the memory manager (paper 1), by their numbers."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from claims import claim
from conftest import Cli

QEMU = f"qemu-{platform.machine()}"
JEMALLOC = next(iter(sorted(Path("/usr/lib").glob("*/libjemalloc.so.2"))), None)

# Builds a table of small records and drops it, time and again: as a compiler does, function by function.
ROUNDS = """
#include <stdlib.h>
#include <string.h>
enum { RECORDS = 60000, BYTES = 160, ROUNDS = 8 };
int main(void) {
    long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char **record = malloc(RECORDS * sizeof *record);
        for (int i = 0; i < RECORDS; i++) { record[i] = malloc(BYTES); memset(record[i], i, BYTES); }
        for (int i = 0; i < RECORDS; i++) sum += record[i * 7919L % RECORDS][round];
        for (int i = 0; i < RECORDS; i++) free(record[i]);
        free(record);
    }
    return sum == 42;
}
"""


def recorded(cli: Cli, *environment: str) -> None:
    """Records ROUNDS with these variables as a.mmt."""
    (cli.cwd / "program.c").write_text(ROUNDS)
    subprocess.run(["cc", "-O1", "-o", "program", "program.c"], cwd=cli.cwd, check=True)
    variables = [word for variable in environment for word in ("--env", variable)]
    ran = cli("record", "-o", "a.mmt", *variables, "--", "./program")
    assert ran.code == 0, ran.err
    assert "ERROR: ld.so" not in ran.err, ran.err


@claim(
    "S0-064",
    "5.1.1",
    "Clang: without MADV_FREE superpages serve more: 22% of the DTLB's hits in L2, fewer misses in L1",
    "direction, of a program of the test's own with jemalloc",
)
def test_madv_free_demotes_and_leaving_it_out_restores(cli: Cli) -> None:
    if shutil.which(QEMU) is None:
        pytest.skip(f"recording needs {QEMU} (package qemu-user)")
    if JEMALLOC is None:
        pytest.skip("needs Debian's jemalloc (package libjemalloc2)")
    # Time is the host's while a program is recorded: pages are given back after 1 ms in place of 10 s. They are freed
    # lazily only if they are not given back for good thereafter (muzzy_decay_ms, 0 by default on Linux).
    recorded(cli, f"LD_PRELOAD={JEMALLOC}", "MALLOC_CONF=dirty_decay_ms:1,muzzy_decay_ms:-1")
    results = {}
    for policy in ("freebsd-super", "freebsd-nomdv"):
        ran = cli("run", "zen3-5900x", "--trace", "a.mmt", "--policy", policy, "--unmapped", "stop", "--json")
        assert ran.code == 0, ran.err
        results[policy] = ran.json()["counts"]
    happened = {policy: counts["kernel"]["happenings"] for policy, counts in results.items()}
    assert happened["freebsd-super"]["split"] > 0
    assert happened["freebsd-nomdv"]["split"] == 0
    assert happened["freebsd-nomdv"]["madv_free_suppressed"] > 0

    def hits_in_2m(policy: str) -> int:
        data = [a for a in results[policy]["arrays"] if a["side"] == "data"]
        return sum(a["hits_by_size"].get("2M", 0) for a in data)

    assert hits_in_2m("freebsd-nomdv") > 2 * hits_in_2m("freebsd-super")
    misses = {policy: counts["tlb"]["l1d"]["misses"] for policy, counts in results.items()}
    assert misses["freebsd-nomdv"] < misses["freebsd-super"]


def test_glibc_asks_for_nothing(cli: Cli) -> None:
    """Paper 1, section 5: "the malloc included with glibc does not make use of MADV_FREE"."""
    if shutil.which(QEMU) is None:
        pytest.skip(f"recording needs {QEMU} (package qemu-user)")
    recorded(cli)
    events = cli("trace", "info", "a.mmt", "--json").json()["events"]
    assert events["brk"] > 0
    assert "madvise" not in events
