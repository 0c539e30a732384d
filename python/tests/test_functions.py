"""Names of functions: of stripped files, with debug files, and of code made at run time."""

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from conftest import Build, Cli

from mmulab import engine
from mmulab.result import Result
from mmulab.study import jit, symbols
from mmulab.study.naming import asking_for_names
from mmulab.study.places import functions

# Two functions that nothing exports, and one that everybody sees.
SOURCE = """
__attribute__((noinline)) static int hidden(int x) { volatile int y = x; return y * 3; }
__attribute__((noinline)) static int other(int x) { volatile int y = x; return hidden(y) + 1; }
int seen(int x) { return other(x) - hidden(x); }
"""


def _offsets(library: Path) -> dict[str, int]:
    """The file offsets of a library's functions, by nm; its code is mapped with address = offset + shift."""
    header = subprocess.run(["readelf", "-lW", library], capture_output=True, text=True, check=True).stdout
    loads = [line.split() for line in header.splitlines() if line.split()[:1] == ["LOAD"]]
    places = [(int(w[2], 16), int(w[1], 16), int(w[4], 16)) for w in loads]
    listed = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in listed.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in "tT":
            address = int(words[0], 16)
            found[words[2]] = next(address - a + o for a, o, size in places if a <= address < a + size)
    return found


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The library, with its symbols."""
    (tmp_path / "a.c").write_text(SOURCE)
    made = tmp_path / "a.so"
    command = ["cc", "-O1", "-g", "-shared", "-fPIC", "-Wl,--build-id", "-o", str(made), str(tmp_path / "a.c")]
    subprocess.run(command, check=True)
    return made


def test_stripped_functions_are_told_apart_by_where_they_begin(library: Path) -> None:
    """Unwind tables stay when symbols go; what is exported keeps its name."""
    offsets = _offsets(library)
    stripped = library.with_name("stripped.so")
    subprocess.run(["strip", "-o", stripped, library], check=True)
    for name in ("hidden", "other"):
        assert symbols.named(str(library), offsets[name] + 1) == symbols.Named(name, known=True)
        expected = symbols.Named(f"stripped.so+{offsets[name]:#x}", known=False)
        assert symbols.named(str(stripped), offsets[name] + 1) == expected
    assert symbols.named(str(stripped), offsets["seen"] + 1) == symbols.Named("seen", known=True)
    assert symbols.lacks(str(stripped)) is None


def test_an_installed_debug_file_names_them(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by build-id; the file of another build in its place is not believed."""
    offsets = _offsets(library)
    stripped = library.with_name("with-debug.so")
    subprocess.run(["strip", "-o", stripped, library], check=True)
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    build_id = notes.split("Build ID:")[1].split()[0]
    debug = library.parent / "debug" / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", library, debug], check=True)
    monkeypatch.setattr(symbols, "DEBUG_ROOTS", (str(library.parent / "debug"),))
    assert symbols.named(str(stripped), offsets["hidden"] + 1) == symbols.Named("hidden", known=True)
    rebuilt = library.with_name("rebuilt.so")
    shutil.copy(stripped, rebuilt)
    data = bytearray(rebuilt.read_bytes())
    at = data.index(bytes.fromhex(build_id))
    data[at] ^= 1
    rebuilt.write_bytes(data)
    wrong = debug.parent.parent / f"{data[at]:02x}" / debug.name
    wrong.parent.mkdir(exist_ok=True)
    shutil.copy(debug, wrong)
    assert not symbols.named(str(rebuilt), offsets["hidden"] + 1).known


def test_files_without_functions_say_why(tmp_path: Path, library: Path) -> None:
    """No ELF, cut, packed, gone: a reason for each, and offsets by page."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    cut = tmp_path / "cut"
    cut.write_bytes(library.read_bytes()[:100])
    packed = tmp_path / "packed"
    data = bytearray(library.read_bytes())
    data[0x28:0x30] = bytes(8)  # e_shoff
    data[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    first, size, count = struct.unpack_from("<Q", data, 0x20)[0], *struct.unpack_from("<HH", data, 0x36)
    for at in range(first, first + size * count, size):
        if struct.unpack_from("<I", data, at)[0] == 0x6474E550:  # PT_GNU_EH_FRAME
            struct.pack_into("<I", data, at, 0)
    packed.write_bytes(data)
    for path, why in ((script, "not an ELF file"), (cut, "not a whole"), (packed, "neither symbols nor unwind tables")):
        assert why in str(symbols.lacks(str(path))), path
        assert symbols.named(str(path), 0x1234) == symbols.Named(f"{path.name}+0x1000 (page)", known=False)
    assert symbols.lacks(str(tmp_path / "gone")) == "it is not there any more"


def test_perf_maps_are_read_as_far_as_they_go() -> None:
    """Later names stand where code was replaced; half a line is none."""
    text = "1000 100 first\n2000 100 second one\nnonsense\n1080 10 patch\n-5 5 no\n3000 0 empty\n4000 1"
    names = jit.Names(jit.perf_map(text))
    assert [names.at(at) for at in (0xFFF, 0x1000, 0x107F, 0x1080, 0x1090, 0x10FF, 0x1100, 0x2050)] == [
        None, "first", "first", "patch", "first", "first", None, "second one",
    ]  # fmt: skip
    assert names.at(0x4000) is None


@pytest.mark.parametrize("order", ["<", ">"])
def test_jitdumps_are_read_in_either_byte_order(order: str) -> None:
    """Code that was loaded, and moved."""
    head = struct.pack(f"{order}IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, 1, 0, 0)

    def record(kind: int, body: bytes) -> bytes:
        return struct.pack(f"{order}IIQ", kind, 16 + len(body), 0) + body

    load = struct.pack(f"{order}IIQQQQ", 1, 1, 0x1000, 0x1000, 0x20, 7) + b"jitted\0" + b"\xc3" * 0x20
    moved = struct.pack(f"{order}IIQQQQQ", 1, 1, 0x5000, 0x1000, 0x5000, 0x20, 7)
    data = head + record(0, load) + record(2, b"") + record(1, moved)
    assert jit.jitdump(data) == [(0x1000, 0x1020, "jitted"), (0x5000, 0x5020, "jitted")]
    assert jit.jitdump(data[:-1]) == [(0x1000, 0x1020, "jitted")]


def test_damaged_names_do_no_harm() -> None:
    """Thousands of damaged files end in names or in none."""
    rng = random.Random(5)
    head = struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, 1, 0, 0)
    for _ in range(3000):
        tail = bytes(rng.choice((0, 1, 2, 16, 40, 255, rng.randrange(256))) for _ in range(rng.randrange(200)))
        jit.Names(jit.jitdump(head[: rng.randrange(30, 41)] + tail))
        text = "".join(rng.choice("0123456789abcdef \nxf-") for _ in range(rng.randrange(200)))
        names = jit.Names(jit.perf_map(text))
        assert len(names) >= 0
    spans = [(start := rng.randrange(100), start + rng.randrange(30), str(i)) for i in range(500)]
    names = jit.Names(spans)
    for at in range(130):
        held = [name for start, end, name in spans if start <= at < end]
        assert names.at(at) == (held[-1] if held else None)


# A run-time compiler: a page of returns, called all over, and a perf map that names its two halves.
COMPILER = """
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    unsigned long size = 4 << 20;
    unsigned char *code = mmap(0, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#if defined(__x86_64__)
    memset(code, 0xc3, size);
#else
    for (unsigned long i = 0; i < size; i += 4) memcpy(code + i, "\\xc0\\x03\\x5f\\xd6", 4);
    __builtin___clear_cache((char *)code, (char *)code + size);
#endif
    char name[64];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx %lx lower_half\\n%lx %lx upper_half\\n", (unsigned long)code, size / 2,
            (unsigned long)code + size / 2, size / 2);
    fclose(map);
    for (int round = 0; round < 3; round++)
        for (unsigned long at = 0; at < size; at += 4096) ((void (*)(void))(code + at))();
    return 0;
}
"""


def test_names_of_jit_code_are_kept_with_a_recording(cli: Cli, build: Build, tmp_path: Path) -> None:
    """The program's own words for the code that it made."""
    program = build(COMPILER)
    out = tmp_path / "study"
    ran = cli("study", "--machines", "skylake-e3-1240v5", "--out", out, "--no-here", "--", program)
    assert ran.code == 0, ran.err
    assert (out / "trace.mmt.jit" / "perf-1.map").exists()
    summary = (out / "summary.txt").read_text(encoding="utf-8")
    assert "lower_half" in summary
    assert "upper_half" in summary
    result = Result.load(out / "results" / "skylake-e3-1240v5--linux-4k.json")
    named = {f.name: f for f in functions(result, str(out / "trace.mmt"))}
    assert named["lower_half"].misses > 400
    assert named["lower_half"].known
    assert "anon (no names kept)" in {f.name for f in functions(result)}
    hint = "Code that a run-time compiler made has no names here. To have them, record the program with "
    assert hint not in summary
    # The same without what the recorder kept beside it.
    shutil.copy(out / "trace.mmt", tmp_path / "alone.mmt")
    ran = cli("study", "alone.mmt", "--machines", "skylake-e3-1240v5", "--out", "alone", "--no-here")
    assert ran.code == 0, ran.err
    assert hint in (tmp_path / "alone" / "summary.txt").read_text(encoding="utf-8")
    assert hint in (tmp_path / "alone" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        (("/usr/bin/node",), "record the program with node --perf-basic-prof."),
        (("/bin/sh", "/usr/bin/python3.12"), "record the program with python -X perf (3.12 and later)."),
        (("./own",), "node --perf-basic-prof, java -XX:+DumpPerfMapAtExit or python -X perf (3.12 and later)."),
    ],
)
def test_run_time_compilers_are_asked_for_names(programs: tuple[str, ...], said: str) -> None:
    """By the way of the program that ran; all ways, where it is none of those that are known."""
    assert asking_for_names(programs).endswith(said)


def test_functions_have_the_source_lines_of_their_line_tables(cli: Cli, build: Build, tmp_path: Path) -> None:
    """Of a program built with -g, also with compressed tables; one without them has no column."""
    for flags, has_lines in ((("-g",), True), (("-g", "-gz=zlib"), True), ((), False)):
        program = build(COMPILER, *flags)
        offsets = engine.elf_functions(str(program), ())[0]
        (main,) = (start for start, _, name in offsets if name == "main")
        (found,) = symbols.sources(str(program), [main])
        line = COMPILER.splitlines().index("int main(void) {") + 1
        assert found.endswith(f".c:{line}") == has_lines, found
        assert bool(found) == has_lines
    assert symbols.sources("/nowhere/at/all", [0]) == [""]
