"""`mmulab elf`: programs made here with other page sizes, and requests that cannot be met."""

import subprocess
from pathlib import Path

import pytest
from conftest import Cli


@pytest.mark.parametrize("size", [4096, 1 << 16, 1 << 21])
def test_a_program_linked_here(cli: Cli, tmp_path: Path, size: int) -> None:
    """What the linker was told is what is found, and every segment keeps the rule of the ELF specification."""
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    options = [f"-Wl,-z,max-page-size={size}", f"-Wl,-z,common-page-size={min(size, 4096)}"]
    subprocess.run(["cc", *options, "-o", "a", "a.c"], cwd=tmp_path, check=True)
    ran = cli("elf", "check", "--libraries", "--json", "./a")
    assert ran.code == 0, ran.err
    files = ran.json()["files"]
    assert any("libc.so" in f["path"] for f in files)
    segments = files[0]["segments"]
    assert all(s["align"] == size for s in segments)
    assert all(s["address"] % size == s["offset"] % size for s in segments)
    for segment in segments:
        groups = zip((16 << 10, 32 << 10, 64 << 10, 2 << 20), segment["phase"]["groups"], strict=True)
        assert all(g["shift"] == 0 for group, g in groups if group <= size)


def test_figure_1_is_drawn(cli: Cli) -> None:
    """Page by page, as the paper does."""
    ran = cli("elf", "layout", "--part", "r--:26K", "--part", "r-x:22K", "--max-page-size", "16K")
    assert ran.code == 0, ran.err
    assert "Page 6 of the file is mapped twice: by segments 0 and 1." in ran.out
    assert "V12: P8     V13: P9     V14: P10    V15: P11" in ran.out
    assert "V8: .      V9: .      V10: P6     V11: P7" in ran.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("check /etc/passwd", "/etc/passwd: not an ELF file"),
        ("check /no/such/file", "/no/such/file: No such file"),
        ("layout --part r--:26K --max-page-size 5000", "maxpagesize is 5000 bytes: give a power of two"),
        ("layout --part rx:26K", "'rx:26K' is not a part"),
        ("layout --part r--:26Q", "'26Q' is not a size"),
        ("layout", "give a file, or parts with --part"),
        ("layout /bin/sh --part r--:4K", "give a file, or parts with --part"),
    ],
)
def test_impossible_requests_are_refused(cli: Cli, arguments: str, message: str) -> None:
    """With the place and the remedy."""
    ran = cli("elf", *arguments.split())
    assert ran.code == 2
    assert message in ran.err
