"""`record --sites`: memory of real programs is named by the functions that asked for it."""

import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import Build, Cli, complete

from mmulab import paths

MACHINE = "skylake-e3-1240v5"
MIB = 1 << 20
pytestmark = pytest.mark.skipif(
    shutil.which(f"qemu-{platform.machine()}") is None or shutil.which("cc") is None, reason="QEMU or cc is missing"
)

# Two blocks from two functions, one through a wrapper; a mapping; a small block; and a thread.
TWO = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define APART __attribute__((noinline, noclone))
static void touch(char *p, size_t bytes) { for (size_t i = 0; i < bytes; i += 4096) p[i] = 1; p[bytes - 1] = 1; }
APART static void *xmalloc(size_t bytes) { void *p = malloc(bytes); if (!p) abort(); return p; }
APART static char *table_new(void) {
    char *p = xmalloc(8 << 20);
    touch(p, 8 << 20);
    return p;
}
APART static char *index_new(void) {
    char *p = calloc(1024, 4096);
    touch(p, 4 << 20);
    return p;
}
APART static char *arena_new(void) {
    char *p = mmap(0, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    touch(p, 2 << 20);
    return p;
}
APART static char *small_new(void) {
    char *p = malloc(100000);
    touch(p, 100000);
    return p;
}
static void *work(void *from) {
    char own[64 << 10];
    memset(own, 5, sizeof own);
    memcpy(from, own, sizeof own);
    return 0;
}
int main(void) {
    char *table = table_new(), *index = index_new(), *arena = arena_new(), *little = small_new();
    pthread_t thread;
    pthread_create(&thread, 0, work, arena);
    pthread_join(thread, 0);
    for (int i = 0; i < 8 << 20; i += 4096) table[i] += index[i / 2] + arena[i / 4] + little[i / 128];
    free(index);
    index = index_new();
    return table[5] == 77;
}
"""


def _regions(cli: Cli, trace: str, *others: str) -> dict[str, dict[str, Any]]:
    ran = cli("run", MACHINE, "--trace", trace, "--unmapped", "stop", "--json", *others)
    assert ran.code == 0, ran.err
    return {region["name"]: region for region in ran.json()["regions"]}


def _size(region: dict[str, Any]) -> int:
    return int(region["end"]) - int(region["start"])


def _names(cli: Cli, trace: str, tmp_path: Path) -> list[str]:
    assert cli("trace", "convert", trace, "text.mmtx").code == 0
    lines = (tmp_path / "text.mmtx").read_text().splitlines()
    return [line.split()[3].replace("%20", " ") for line in lines if line.startswith("name ") and line.count(" ") == 3]


def test_regions_carry_the_functions_that_asked(cli: Cli, build: Build, tmp_path: Path) -> None:
    """Each block and mapping is a region by its function's name, with the line of the call; so is a thread's stack."""
    ran = cli("record", "-o", "a.mmt", "--sites", "--", build(TWO, "-g"))
    assert ran.code == 0, ran.err
    complete(cli, "a.mmt")
    lines = TWO.splitlines()
    found = _regions(cli, "a.mmt")

    def asked(function: str, call: str) -> dict[str, Any]:
        line = 1 + next(i for i, text in enumerate(lines) if call in text)
        return found[f"anon: {function} (program.c:{line})"]

    table, index = asked("table_new", "xmalloc(8"), asked("index_new", "calloc(")
    arena = asked("arena_new", "p = mmap(")
    assert _size(table) == 8 * MIB + 4096, "with the allocator's record"
    assert table["resident"]["peak"] == 8 * MIB + 4096, "it was named before its first page was touched"
    assert index["resident"]["peak"] in (4 * MIB, 4 * MIB + 4096), "freed and had again: never both"
    assert arena["resident"]["peak"] == 2 * MIB
    stack = found["[stack of thread 1]"]
    assert stack["kind"] == "stack"
    assert stack["resident"]["peak"] > 64 << 10
    assert not [name for name in found if "small_new" in name or "xmalloc" in name]
    # A trace says the same as text, and made from that again.
    assert cli("trace", "convert", "a.mmt", "a.mmtx").code == 0
    assert cli("trace", "convert", "a.mmtx", "b.mmt").code == 0
    assert _regions(cli, "b.mmt").keys() == found.keys()
    info = cli("trace", "info", "a.mmt", "--json").json()
    assert any(row["name"].startswith("anon: table_new (program.c:") for row in info["mappings"])


def test_the_verdict_names_the_place(cli: Cli, build: Build, tmp_path: Path) -> None:
    """The verdict's region, and the line to paste, say where the program asks for the memory."""
    random = (
        TWO.replace("8 << 20", "64 << 20")
        .replace(
            "return table[5] == 77;",
            """
        unsigned at = 1;
        for (int i = 0; i < 400000; i++) { at = at * 1664525 + 1013904223; table[at >> 6]++; }
        return table[5] == 77;
        """,
        )
        .replace("index[i / 2] + arena[i / 4] + little[i / 128]", "index[i / 16] + arena[i / 32] + little[i / 1024]")
    )
    options = ("--sites", "--machines", MACHINE, "--policies", "linux-4k,linux-thp", "--out", "out")
    ran = cli("study", *options, "--", build(random, "-g"))
    assert ran.code == 0, ran.err
    report = (tmp_path / "out" / "report.html").read_text()
    assert "anon: table_new (program.c:" in report
    shown = " ".join(ran.out.split())
    assert "anonymous memory: table_new (program.c:" in shown
    assert "behind the call at table_new (program.c:" in shown


def test_without_the_option_only_stacks_have_names(cli: Cli, build: Build, tmp_path: Path) -> None:
    """And no instruction of the library is recorded."""
    assert cli("record", "-o", "a.mmt", "--", build(TWO)).code == 0
    assert _names(cli, "a.mmt", tmp_path) == ["[stack of thread 1]"]
    assert "libmmulab" not in (tmp_path / "text.mmtx").read_text()


def test_blocks_in_the_heap_have_names_until_they_are_freed(cli: Cli, build: Build, tmp_path: Path) -> None:
    """glibc takes large blocks out of its heap if it may not map them."""
    source = r"""
    #include <malloc.h>
    #include <stdlib.h>
    #include <string.h>
    __attribute__((noinline, noclone)) static char *buffer_new(size_t n) {
        char *p = malloc(n);
        memset(p, 1, n);
        return p;
    }
    int main(void) {
        mallopt(M_MMAP_MAX, 0);
        mallopt(M_TRIM_THRESHOLD, 1 << 30);
        free(buffer_new(1 << 20));
        char *small = malloc(50000);
        memset(small, 1, 50000);
        return small[3] == 7;
    }
    """
    assert cli("record", "-o", "a.mmt", "--sites", "--", build(source)).code == 0
    found = _regions(cli, "a.mmt")
    named = found["[heap]: buffer_new"]
    assert named["kind"] == "heap"
    assert MIB - 8192 <= named["resident"]["peak"] <= MIB
    assert cli("trace", "convert", "a.mmt", "a.mmtx").code == 0
    names = [line.split() for line in (tmp_path / "a.mmtx").read_text().splitlines() if line.startswith("name ")]
    assert [len(words) for words in names] == [4, 3], "one name, which ends"
    assert names[0][1] == names[1][1]


def test_a_block_that_cannot_grow_keeps_a_name(cli: Cli, build: Build, tmp_path: Path) -> None:
    """realloc fails, and what it was given stays as it was."""
    source = r"""
    #include <malloc.h>
    #include <stdlib.h>
    #include <string.h>
    __attribute__((noinline, noclone)) static char *buffer_new(size_t n) { return malloc(n); }
    __attribute__((noinline, noclone)) static int grow(char **p) {
        char *more = realloc(*p, (size_t)1 << 60);
        if (more) *p = more;
        return more != 0;
    }
    int main(void) {
        mallopt(M_MMAP_MAX, 0);
        char *p = buffer_new(1 << 20);
        int grew = grow(&p);
        memset(p, 1, 1 << 20);
        return grew;
    }
    """
    assert cli("record", "-o", "a.mmt", "--sites", "--", build(source)).code == 0
    found = _regions(cli, "a.mmt")
    assert found["[heap]: grow"]["resident"]["peak"] >= MIB - 8192
    assert _names(cli, "a.mmt", tmp_path) == ["buffer_new", "grow"]


# Compilers for other processors, and where their libraries are.
OTHERS = {"aarch64": "aarch64-linux-gnu-gcc", "riscv64": "riscv64-linux-gnu-gcc"}


@pytest.mark.parametrize("isa", [isa for isa in OTHERS if isa != platform.machine()])
def test_programs_for_other_processors_have_names(cli: Cli, tmp_path: Path, isa: str) -> None:
    """Where mmulab was built with the library that they preload; otherwise it says that it was not."""
    if shutil.which(OTHERS[isa]) is None or shutil.which(f"qemu-{isa}") is None:
        pytest.skip(f"needs {OTHERS[isa]} and qemu-{isa}")
    (tmp_path / "program.c").write_text(TWO)
    subprocess.run([OTHERS[isa], "-O1", "-g", "-pthread", "-w", "-o", "p", "program.c"], cwd=tmp_path, check=True)
    ran = cli("record", "-o", "a.mmt", "--sites", "--", "./p")
    assert ran.code == 0, ran.err
    if not paths.sites_library().with_name(f"libmmulab_sites-{isa}.so").exists():
        assert "built without the library for its instruction set" in " ".join(ran.err.split())
        pytest.skip(f"mmulab was built without its library for {isa}")
    found = cli("run", MACHINE, "--trace", "a.mmt", "--unmapped", "stop", "--json")
    assert found.code == 0, found.err
    regions = {region["name"].partition(" (")[0]: region for region in found.json()["regions"]}
    # GCC writes no .eh_frame for C on riscv64: there the callers are found by .debug_frame, which -g asks for.
    assert _size(regions["anon: table_new"]) == 8 * MIB + 4096
    assert _size(regions["anon: arena_new"]) == 2 * MIB
    assert "anon: index_new" in regions


def test_a_program_described_for_debuggers_alone_has_names(cli: Cli, build: Build) -> None:
    """It has `.debug_frame` in place of `.eh_frame`. Without either, the function that calls malloc is named."""
    for options, asks in ((["-g"], "table_new"), ([], "xmalloc")):
        program = build(TWO, "-fno-asynchronous-unwind-tables", *options)
        assert cli("record", "-o", "a.mmt", "--sites", "--", program).code == 0
        assert f"anon: {asks}" in {name.partition(" (")[0] for name in _regions(cli, "a.mmt")}


def test_a_program_without_symbols_is_named_by_its_file(cli: Cli, build: Build, tmp_path: Path) -> None:
    """Its offset is where the call lies."""
    program = build(TWO, "-s")
    assert cli("record", "-o", "a.mmt", "--sites", "--", program).code == 0
    names = [name for name in _names(cli, "a.mmt", tmp_path) if not name.startswith("[")]
    assert names
    assert all(name.startswith("program+0x") for name in names)


def test_objects_that_another_allocator_places_keep_their_names(cli: Cli, build: Build) -> None:
    """`--heap` of run moves the objects, and the names with them."""
    assert cli("record", "-o", "a.mmt", "--sites", "--heap", "--", build(TWO)).code == 0
    complete(cli, "a.mmt")
    found = _regions(cli, "a.mmt", "--heap", "glibc")
    table = [region for name, region in found.items() if name.endswith(": table_new")]
    assert max(region["resident"]["peak"] for region in table) >= 8 * MIB - 8192


@pytest.mark.skipif(shutil.which("c++") is None, reason="c++ is missing")
def test_a_vector_is_named_by_the_function_that_has_it(cli: Cli, tmp_path: Path) -> None:
    """The frames of `operator new` and of the library's templates are left out."""
    (tmp_path / "v.cc").write_text(
        """
        #include <vector>
        namespace shop { __attribute__((noinline, noclone)) std::vector<long> stock(int n) {
            std::vector<long> v(n, 7); v.push_back(8); return v; } }
        int main() { return shop::stock(1 << 20)[5] == 9; }
        """
    )
    subprocess.run(["c++", "-O0", "-o", "v", "v.cc"], cwd=tmp_path, check=True)
    assert cli("record", "-o", "a.mmt", "--sites", "--", "./v").code == 0
    names = _names(cli, "a.mmt", tmp_path)
    assert [name for name in names if name.startswith("_ZN4shop5stock")], names
    ran = cli("study", "a.mmt", "--machines", MACHINE, "--policies", "linux-4k,linux-thp", "--out", "out")
    assert ran.code == 0, ran.err
    assert "anon: shop::stock(int)" in (tmp_path / "out" / "report.html").read_text()


def test_programs_that_preload_nothing_are_recorded_without_names(cli: Cli, tmp_path: Path) -> None:
    """The report says why; a whole system takes no such option."""
    (tmp_path / "s.c").write_text("#include <stdlib.h>\nint main(void) { return malloc(1 << 20) == 0; }")
    subprocess.run(["cc", "-static", "-o", "s", "s.c"], cwd=tmp_path, check=True)
    ran = cli("record", "-o", "a.mmt", "--sites", "--", "./s")
    assert ran.code == 0, ran.err
    assert "its memory has no names: it is linked statically" in " ".join(ran.err.split())
    assert _names(cli, "a.mmt", tmp_path) == []
    ran = cli("record", "-o", "b.mmt", "--sites", "--system", "--", "./s")
    assert ran.code == 2
    assert "--sites does not apply to a whole system" in ran.err
