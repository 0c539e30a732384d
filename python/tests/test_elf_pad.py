"""`mmulab elf pad`: real programs padded, run, compared page by page with what was there before, and undone."""

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Build, Cli

MB2 = 2 << 20
# Segments at multiples of 2 MB, code and constants in one: as GNU ld linked before 2018, and as PostgreSQL in paper 2.
APART = ("-Wl,-z,max-page-size=0x200000", "-Wl,-z,common-page-size=0x1000", "-Wl,-z,noseparate-code")
LINKED = {
    "static": ("-static", "-no-pie", *APART),
    "pie": ("-pie", "-fPIE", *APART),
    "position": ("-no-pie", *APART),
    "stripped": ("-no-pie", "-s", *APART),
    "separate": ("-no-pie", "-Wl,-z,max-page-size=0x200000", "-Wl,-z,separate-code"),
}
# Compares each byte of its own code, as the loader mapped it, with its file; then works with its constants and data.
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
static const char constant[] = "constants are read";
static int data[1024] = {1, 2, 3};
static int zeros[4096];
int main(int argc, char **argv) {
    FILE *maps = fopen("/proc/self/maps", "r"), *file = fopen("/proc/self/exe", "rb");
    char line[4096], rights[8], path[4096], own[4096];
    unsigned long start, end, offset, pages = 0, same = 0;
    if (!maps || !file || !realpath("/proc/self/exe", own)) return 3;
    while (fgets(line, sizeof line, maps)) {
        path[0] = 0;
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %4095s", &start, &end, rights, &offset, path) < 4) continue;
        if (strcmp(rights, "r-xp") || strcmp(path, own)) continue;
        printf("code %#lx %#lx\n", start, end);
        for (unsigned long at = start; at < end; at += 4096, pages++) {
            char page[4096] = {0};
            fseek(file, offset + (at - start), SEEK_SET);
            if (!fread(page, 1, 4096, file)) return 4;
            /* A program whose data lie behind its code has its own data's first values in the fill. */
            same += !memcmp(page, (char *)at, 4096);
        }
    }
    printf("pages %lu same %lu\n", pages, same);
    for (int i = 0; i < 4096; i++) zeros[i] += i + data[i % 1024];
    data[7] = argc;
    printf("%s %d %d %d\n", constant, data[2], zeros[4095], data[7]);
    return 0;
}
"""


def run(program: Path) -> tuple[list[tuple[int, int]], tuple[int, int], str]:
    """The program's code as mapped, its pages and those that equal the file's, and what it makes of its data."""
    out = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    ranges = [(int(line.split()[1], 16), int(line.split()[2], 16)) for line in out if line.startswith("code")]
    counted = next(line.split() for line in out if line.startswith("pages"))
    return ranges, (int(counted[1]), int(counted[3])), out[-1]


@pytest.mark.parametrize("linked", LINKED)
def test_a_program_is_padded_runs_and_is_undone(cli: Cli, build: Build, linked: str) -> None:
    """Its code ends at a multiple of 2 MB; each page of it is the file's; undone, the bytes are the original's."""
    program = build(PROGRAM, *LINKED[linked])
    original, mode = program.read_bytes(), program.stat().st_mode
    before, pages, said = run(program)
    assert pages[0] == pages[1] > 0
    assert all(end % MB2 for _, end in before)
    shown = cli("elf", "pad", "--dry-run", "--json", program).json()
    assert program.read_bytes() == original
    ran = cli("elf", "pad", "--json", program)
    assert ran.code == 0, ran.err
    done = ran.json()
    assert done["plan"] == shown["plan"]
    assert done["bytes_after"] == program.stat().st_size
    assert program.stat().st_mode == mode
    after, padded, still = run(program)
    assert still == said
    assert (
        padded[0]
        == padded[1]
        == pages[0] + sum(code["file_pages"] + code["no_op_pages"] for code in done["plan"]["padded"])
    )
    # A kernel before 5.10 loads a position-independent program at any page.
    assert all(end % MB2 == 0 and start % MB2 == 0 for start, end in after)
    assert [end - start for start, end in after] == [code["superpages"] * MB2 for code in done["plan"]["padded"]]
    again = cli("elf", "pad", program)
    assert (again.code, "padded already" in again.err) == (2, True)
    undone = cli("elf", "pad", "--undo", program)
    assert undone.code == 0, undone.err
    assert program.read_bytes() == original
    assert run(program)[1:] == (pages, said)
    assert sorted(os.listdir(program.parent)) == ["program", "program.c"]


def test_the_residual_code_is_shown(cli: Cli, build: Build) -> None:
    """Its size, what it costs, and whether the pages to the next superpage are free."""
    program = build(PROGRAM, *LINKED["position"])
    code = next(s for s in cli("elf", "check", "--json", program).json()["files"][0]["segments"] if "residual" in s)
    residual = code["residual"]
    pages = -(-code["bytes"] // 4096)
    assert (residual["superpages"], residual["head_pages"], residual["pages"]) == (0, 0, pages)
    assert residual["short_pages"] == 512 - pages
    shown = cli("elf", "check", program).out
    counted = (
        f"{pages} residual page behind: up to {pages} TLB entry" if pages == 1 else f"{pages} residual pages behind"
    )
    assert counted in shown
    assert f"between them and the next superpage {512 - pages} pages: free" in shown
    packed = build(PROGRAM, "-Wl,-z,max-page-size=0x1000")
    assert "1 page before: up to 1 TLB entry of 4 KB" in cli("elf", "check", packed).out


def paddable() -> Iterator[Path]:
    """Programs of this system that their linkers gave a gap: Node.js, rustup, and what else lies in /usr/bin."""
    named = [shutil.which("node"), shutil.which("rustup"), shutil.which("rustc")]
    for path in (Path(name) for name in named if name):
        yield path.resolve()
    yield from sorted(path for path in Path("/usr/bin").iterdir() if path.is_file() and not path.is_symlink())


def test_a_program_of_the_system_is_padded_and_runs(cli: Cli, tmp_path: Path) -> None:
    """A copy of one that this system has. Most distributions link without a gap: then there is none to be padded."""
    from mmulab import UserError, engine

    for path in paddable():
        try:
            plan = engine.elf_pad({"file": str(path), "dry_run": True})
        except UserError:
            continue
        if plan["bytes_after"] < 256 << 20:
            break
    else:
        pytest.skip("no program of this system can be padded")
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    original = copy.read_bytes()
    said = subprocess.run([copy, "--version"], capture_output=True, check=False)
    assert cli("elf", "pad", copy).code == 0
    padded = subprocess.run([copy, "--version"], capture_output=True, check=False)
    assert (padded.returncode, padded.stdout) == (said.returncode, said.stdout)
    assert cli("elf", "pad", "--undo", copy).code == 0
    assert copy.read_bytes() == original


def test_a_program_of_the_system_without_a_gap_is_refused(cli: Cli, tmp_path: Path) -> None:
    """Python, or what this system links as usual: the reason, and what to do."""
    program = tmp_path / "python"
    shutil.copy(os.path.realpath(sys.executable), program)
    original = program.read_bytes()
    ran = cli("elf", "pad", program)
    if ran.code == 0:
        pytest.skip("this system's Python can be padded")
    assert ran.code == 2
    assert "hint: link the program with -Wl,-z,max-page-size=0x200000" in ran.err
    assert program.read_bytes() == original


def test_what_is_written_elsewhere_leaves_the_file(cli: Cli, build: Build) -> None:
    """`--out`, for a padding and for its undoing."""
    program = build(PROGRAM, *LINKED["position"])
    original = program.read_bytes()
    ran = cli("elf", "pad", "--out", "padded", program)
    assert ran.code == 0, ran.err
    assert program.read_bytes() == original
    padded = program.with_name("padded")
    assert run(padded)[2] == run(program)[2]
    assert cli("elf", "pad", "--undo", "--out", "again", padded).code == 0
    assert program.with_name("again").read_bytes() == original


def refused(cli: Cli, program: Path, message: str, code: int = 2) -> None:
    """The file is refused with this message, and stays as it was."""
    original = program.read_bytes()
    ran = cli("elf", "pad", program)
    assert (ran.code, message in ran.err) == (code, True), ran.err
    assert program.read_bytes() == original
    assert not [path for path in program.parent.iterdir() if ".mmulab-" in path.name]


def test_files_that_are_not_padded_have_a_name(cli: Cli, build: Build, tmp_path: Path) -> None:
    """No ELF, 32 bits, packed, cut, with data of its own at its end, setuid, with two names, read-only."""
    program = build(PROGRAM, *LINKED["position"])
    original = program.read_bytes()

    def changed(content: bytes) -> Path:
        path = tmp_path / "changed"
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        path.chmod(0o755)
        return path

    headers = 64 + 56 * struct.unpack_from("<H", original, 56)[0]
    refused(cli, changed(b"#!/bin/sh\n"), "changed: not an ELF file")
    refused(cli, changed(b""), "changed: not an ELF file")
    refused(cli, changed(original[:4] + b"\x01" + original[5:]), "a 32-bit ELF file")
    refused(cli, changed(original[: headers + 4] + b"UPX!" + original[headers + 8 :]), "packed by UPX")
    refused(cli, changed(original[:2000]), "changed: ")
    refused(cli, changed(original + b"an archive that the program reads"), "33 bytes stand behind all")
    path = changed(original)
    path.chmod(0o4755)
    refused(cli, path, "mode 4755 is setuid or setgid")
    path.chmod(0o555)
    refused(cli, path, "read-only (mode 555)")
    path.chmod(0o755)
    (tmp_path / "second").hardlink_to(path)
    refused(cli, path, "2 names (hard links)")
    (tmp_path / "second").unlink()
    for missing, message in (("none", "No such file"), (".", "not a regular file")):
        ran = cli("elf", "pad", tmp_path / missing)
        assert (ran.code, message in ran.err) == (2, True), ran.err
    undone = cli("elf", "pad", "--undo", path)
    assert (undone.code, "not padded by `mmulab elf pad`" in undone.err) == (2, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file capabilities")
def test_a_file_with_capabilities_is_refused(cli: Cli, build: Build) -> None:
    """A new file would not have them: they belong to the file and not to its content."""
    program = build(PROGRAM, *LINKED["position"])
    # Version 2, effective; permitted: CAP_NET_BIND_SERVICE (linux/capability.h, struct vfs_cap_data).
    capabilities = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)
    try:
        os.setxattr(program, "security.capability", capabilities)
    except OSError as error:
        pytest.skip(f"no capabilities on this file system: {error}")
    refused(cli, program, "capabilities")


def test_a_file_without_section_headers_is_padded(cli: Cli, build: Build, tmp_path: Path) -> None:
    """Programs run without them; so does a padded one."""
    program = build(PROGRAM, *LINKED["stripped"])
    content = bytearray(program.read_bytes())
    (at,) = struct.unpack_from("<Q", content, 32)
    (count,) = struct.unpack_from("<H", content, 56)
    loads = [struct.unpack_from("<IIQQQQ", content, at + 56 * n) for n in range(count)]
    end = max(offset + size for kind, _, offset, _, _, size in loads if kind == 1)
    struct.pack_into("<Q", content, 40, 0)
    struct.pack_into("<HHH", content, 58, 0, 0, 0)
    bare = tmp_path / "bare"
    bare.write_bytes(content[:end])
    bare.chmod(0o755)
    said = run(bare)[2]
    ran = cli("elf", "pad", bare)
    assert ran.code == 0, ran.err
    ranges, (pages, same), still = run(bare)
    assert (still, pages) == (said, same)
    assert all(stop % MB2 == 0 for _, stop in ranges)


def test_a_program_that_runs_goes_on_as_it_was(cli: Cli, build: Build) -> None:
    """Writing into it would fail (ETXTBSY): the new file takes its place by name, and the process keeps the old one."""
    program = build(
        '#include <unistd.h>\nint main() { write(1, "up", 2); read(0, &(char){0}, 1); return 42; }', *LINKED["position"]
    )
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(2) == b"up"
        with pytest.raises(OSError, match="Text file busy"), program.open("r+b"):
            pass
        ran = cli("elf", "pad", program)
        assert ran.code == 0, ran.err
        assert f"processes {process.pid} run it as it was" in " ".join(ran.err.split())
        process.communicate(b"x")
    assert process.returncode == 42
    assert subprocess.run([program], input=b"x", capture_output=True, check=False).returncode == 42


def test_a_full_disk_leaves_the_file(cli: Cli, build: Build) -> None:
    """The file beside it cannot be written: an error of the system's, and nothing is left."""
    program = build(PROGRAM, *LINKED["position"])
    original = program.read_bytes()
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); "
    limited += f"from mmulab.cli import main; sys.argv = ['mmulab', 'elf', 'pad', {str(program)!r}]; sys.exit(main())"
    ran = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=False)
    assert (ran.returncode, "cannot be written: File too large" in ran.stderr) == (1, True), ran.stderr
    assert program.read_bytes() == original
    assert sorted(os.listdir(program.parent)) == ["program", "program.c"]


def test_padding_in_a_full_file_system_says_so(cli: Cli, build: Build, tmp_path: Path) -> None:
    """ENOSPC, by a file system of 1 MB in a mount namespace of its own."""
    program = build(PROGRAM, *LINKED["position"])
    command = (
        f"mount -t tmpfs -o size=1M none /mnt && cp {program} /mnt/p && exec {sys.executable} -m mmulab elf pad /mnt/p"
    )
    ran = subprocess.run(["unshare", "--mount", "sh", "-c", command], capture_output=True, text=True, check=False)
    if "unshare failed" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip("no mount namespaces here")
    assert (ran.returncode, "No space left on device" in ran.stderr) == (1, True), ran.stderr
