"""Claims about what allocators tell the memory manager (paper 1), by their numbers."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from bench import Json
from claims import claim
from conftest import Cli

QEMU = f"qemu-{platform.machine()}"
JEMALLOC = next(iter(sorted(Path("/usr/lib").glob("*/libjemalloc.so.2"))), None)

# Builds a table of small records and drops it, time and again: as a compiler does, function by function.
ROUNDS = """
#include <stdlib.h>
#include <string.h>
enum { RECORDS = 60000, BYTES = 160 };
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


def recorded(cli: Cli, *options: str, rounds: int) -> None:
    """Records this number of ROUNDS, with these options as a.mmt."""
    (cli.cwd / "program.c").write_text(ROUNDS)
    subprocess.run(["cc", "-O1", f"-DROUNDS={rounds}", "-o", "program", "program.c"], cwd=cli.cwd, check=True)
    ran = cli("record", "-o", "a.mmt", *options, "--", "./program")
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
    decay = "MALLOC_CONF=dirty_decay_ms:1,muzzy_decay_ms:-1"
    recorded(cli, "--env", f"LD_PRELOAD={JEMALLOC}", "--env", decay, rounds=8)
    results = {}
    for policy in ("freebsd-super", "freebsd-nomdv"):
        ran = cli("run", "zen3-5900x", "--trace", "a.mmt", "--policy", policy, "--unmapped", "stop", "--json")
        assert ran.code == 0, ran.err
        results[policy] = ran.json()["counts"]
    happened = {policy: counts["kernel"]["events"] for policy, counts in results.items()}
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
    recorded(cli, rounds=2)
    events = cli("trace", "info", "a.mmt", "--json").json()["events"]
    assert events["brk"] > 0
    assert "madvise" not in events


@pytest.fixture(scope="module")
def with_heap(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """ROUNDS, recorded with its heap as a.mmt."""
    if shutil.which(QEMU) is None:
        pytest.skip(f"recording needs {QEMU} (package qemu-user)")
    cli = Cli(tmp_path_factory.mktemp("heap"))
    recorded(cli, "--heap", rounds=HEAP_ROUNDS)
    return cli


# Of the recording with its heap.
HEAP_ROUNDS = 3


def kept_by(cli: Cli, heap: str, policy: str) -> Json:
    """What a run counts whose heap that allocator keeps."""
    ran = cli(
        "run", "zen3-5900x", "--trace", "a.mmt", "--heap", heap, "--policy", policy, "--unmapped", "stop", "--json"
    )
    assert ran.code == 0, ran.err
    result: Json = ran.json()
    assert result["complete"]
    counts = result["trace"]["reshaped"]["heap"]["counts"]
    assert counts["objects"] >= counts["freed"] >= HEAP_ROUNDS * 60001
    assert counts["references_moved"] > HEAP_ROUNDS * 60000 * 20
    return result


def test_a_recorded_heap_under_other_allocators(with_heap: Cli) -> None:
    """One recording: superpages are split where the allocator tells of unused pages, and only there."""
    # Each round is some 8 ms of instructions.
    jemalloc = "jemalloc,dirty_decay_ms=1,bookkeeping=drop"
    happened = {
        (heap, policy): kept_by(with_heap, heap, policy)["counts"]["kernel"]["events"]
        for heap in (jemalloc, "glibc,bookkeeping=drop")
        for policy in ("freebsd-super", "freebsd-nomdv")
    }
    assert happened[jemalloc, "freebsd-super"]["split"] > 0
    assert happened[jemalloc, "freebsd-nomdv"]["split"] == 0
    assert happened[jemalloc, "freebsd-nomdv"]["madv_free_suppressed"] > 0
    glibc = happened["glibc,bookkeeping=drop", "freebsd-super"]
    assert glibc["madvise"] == 0
    assert glibc == happened["glibc,bookkeeping=drop", "freebsd-nomdv"]


def test_blocks_are_reserved_and_never_promoted(with_heap: Cli) -> None:
    """Paper 1, section 5.1.5, of Node.js: reservations have pages coalesce, and superpages never come about."""
    heap = "blocks,bookkeeping=drop"
    counts = {p: kept_by(with_heap, heap, p)["counts"] for p in ("freebsd-noresv", "freebsd-reserv", "freebsd-super")}
    assert counts["freebsd-super"]["kernel"]["events"]["promotions"] == 0
    assert counts["freebsd-super"]["kernel"]["events"]["reservations_made"] > 8
    misses = {policy: found["tlb"]["l1d"]["misses"] for policy, found in counts.items()}
    assert misses["freebsd-reserv"] < misses["freebsd-noresv"]
    assert misses["freebsd-super"] == misses["freebsd-reserv"]


def test_a_changed_trace_is_what_was_run(with_heap: Cli) -> None:
    """`trace reshape` writes what `run --heap` runs."""
    heap = "jemalloc,dirty_decay_ms=1"
    assert with_heap("trace", "reshape", "a.mmt", "b.mmt", "--heap", heap).code == 0
    run = ("run", "zen3-5900x", "--policy", "freebsd-super", "--unmapped", "stop", "--json", "--trace")
    assert with_heap(*run, "b.mmt").json()["counts"] == with_heap(*run, "a.mmt", "--heap", heap).json()["counts"]


def test_what_no_allocator_can_do_is_refused(cli: Cli) -> None:
    """A trace without its heap, an allocator that is none, a parameter that is none or cannot be."""
    (cli.cwd / "a.mmtx").write_text("#: heap told\nmmap 0x60000000 1M rw anon\nmalloc 0x60000010 64K\nw 0x60000010\n")
    for trace, heap, message in [
        ("gen:gups?updates=10", "glibc", "does not tell what the program asks of its allocator"),
        ("a.mmtx", "dlmalloc", "'dlmalloc' is not an allocator"),
        ("a.mmtx", "glibc,top_pad", "'top_pad' sets no parameter"),
        ("a.mmtx", "glibc,top_pat=4K", "unknown field `top_pat`"),
        ("a.mmtx", "glibc,top_pad=-1", "give 0 to 128G"),
        ("a.mmtx", "blocks,block=2M", "block is 2M: give 4K to 2044K"),
    ]:
        ran = cli("run", "zen3-5900x", "--trace", trace, "--heap", heap)
        assert ran.code == 2, ran.err
        assert message in ran.err


def test_objects_that_are_not_told_of_whole_are_told(cli: Cli) -> None:
    """A trace without any, ends that are missing, and beginnings."""
    objects = "malloc 0x60000010 64K\nmalloc 0x60000020 16\nfree 0x60000030\n"
    for lines, warnings in [
        ("", ["nothing is asked of an allocator in this trace"]),
        (objects, ["whose memory others have later: 1", "whose beginning is not told: 1; they were not moved"]),
    ]:
        (cli.cwd / "a.mmtx").write_text(f"#: heap told\nmmap 0x60000000 1M rw anon\n{lines}w 0x60000010\n")
        ran = cli("run", "zen3-5900x", "--trace", "a.mmtx", "--heap", "glibc")
        assert ran.code == 0, ran.err
        assert [warning for warning in warnings if warning not in ran.err] == [], ran.err
