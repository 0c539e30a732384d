"""Traces in all their formats: what is written is read, what is damaged is told, what is lost is said."""

import gzip
import lzma
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import SMALL, Cli

MACHINE = "compendia-baseline"
# Several chunks of a native trace.
LARGE = "gen:gups?footprint=8M&updates=600000"

LACKEY = """\
==7== Lackey, an example Valgrind tool
==7== Command: /bin/x -a
==7==\x20
I  00401000,3
 L 1fff000678,8
I  00401003,4
 M 04033ffc,8
==7==\x20
==7== Exit code:       0
"""

VIEW = """\
Output format:
<--record#-> <--instr#->: <---tid---> <record details>
------------------------------------------------------------
           1           0:     2765542 <marker: version 5>
           2           0:     2765542 <marker: filetype 0xe40>
           8           1:     2765542 ifetch       3 byte(s) @ 0x0000000000401000 48 8b 08  mov (%rax), %rcx
           9           1:     2765542 read         8 byte(s) @ 0x0000001fff000678 by PC 0x0000000000401000
          10           2:     2765542 ifetch       4 byte(s) @ 0x0000000000401003 48 83 00 01  add $1, (%rax)
          11           2:     2765542 read         8 byte(s) @ 0x0000000004033ffc by PC 0x0000000000401003
          12           2:     2765542 write        8 byte(s) @ 0x0000000004033ffc by PC 0x0000000000401003
View tool results:
              2 : total instructions
"""

TEXT = """\
#: mappings untold
f 0x401000
r 0x1fff000678
f 0x401003
r 0x4033ffc
r 0x4034000
w 0x4033ffc
w 0x4034000
"""


def record(ip: int, loads: list[int], stores: list[int]) -> bytes:
    """One of ChampSim's `input_instr`."""
    return struct.pack("<Q2B2B4B2Q4Q", ip, 0, 0, *[0] * 6, *[*stores, 0, 0][:2], *[*loads, 0, 0, 0, 0][:4])


CHAMPSIM = record(0x401000, [0x1FFF000678], []) + record(0x401003, [0x4033FFC, 0x4034000], [0x4033FFC, 0x4034000])


def counts(cli: Cli, trace: str) -> dict:
    """What a machine counts on a trace."""
    ran = cli("run", MACHINE, "--trace", trace, "--json")
    assert ran.code == 0, ran.err
    found = ran.json()["counts"]
    return {key: found[key] for key in ("instructions", "references", "fetches", "reads", "writes", "tlb")}


def test_every_way_round_is_the_same_program(cli: Cli) -> None:
    """A generator, native, text and native again; the identity of equal content is equal."""
    steps = [(SMALL, "a.mmt"), ("a.mmt", "b.mmtx"), ("b.mmtx", "c.mmt"), ("c.mmt", "d.mmtx.xz"), ("d.mmtx.xz", "e.mmt")]
    for source, target in steps:
        ran = cli("trace", "convert", source, target)
        assert ran.code == 0, ran.err
        assert f"wrote {target}: 32 k instructions" in ran.err
        assert ran.out == ""
    expected = counts(cli, SMALL)
    assert all(counts(cli, target) == expected for _, target in steps)
    hashes = [cli("trace", "info", t, "--json").json()["hash"] for t in ("a.mmt", "c.mmt", "e.mmt", "b.mmtx")]
    assert re.fullmatch("[0-9a-f]{32}", hashes[0])
    assert hashes[0] == hashes[1] == hashes[2] != hashes[3]


def test_info_head_and_slice(cli: Cli, tmp_path: Path) -> None:
    """Each says something of the trace, as data."""
    assert cli("trace", "convert", SMALL, "a.mmt").code == 0
    found = cli("trace", "info", "a.mmt", "--json").json()
    assert (found["references"], found["complete"], found["events"]) == (6000, True, {"mmap": 2})
    assert found["bytes_per_instruction"] == (tmp_path / "a.mmt").stat().st_size / 32000
    assert {(m["kind"], m["mapped_bytes"], m["code_pages"], m["data_pages"]) for m in found["mappings"]} == {
        ("anon", 1 << 20, 0, 256),
        ("file", 4096, 1, 0),
    }
    assert "6,000" in cli("trace", "info", "a.mmt").out
    (tmp_path / "named.mmtx").write_text("mmap 0x1000 4K rw anon label=[vvar]\nr 0x1000\n")
    assert "[vvar]" in cli("trace", "info", "named.mmtx").out
    head = cli("trace", "head", "a.mmt", "-n", "5")
    assert head.code == 0
    assert [line.split()[0] for line in head.out.splitlines()] == ["mmap", "mmap", "f", "r", "w"]
    for target in ("part.mmt", "part.mmtx"):
        cut = cli("trace", "slice", "a.mmt", target, "--start", "1600", "--end", "3200")
        assert cut.code == 0, cut.err
        part = cli("run", MACHINE, "--trace", target, "--json").json()
        assert part["counts"]["instructions"] == 1600
        assert part["counts"]["segfaults"] == dict.fromkeys(part["counts"]["segfaults"], 0)
    # From the middle of a trace of several chunks: equal to reading up to there.
    assert cli("trace", "convert", LARGE, "large.mmt").code == 0
    assert cli("trace", "slice", "large.mmt", "by-seeking.mmtx", "--start", "8M", "--end", "8100k").code == 0
    assert cli("trace", "slice", LARGE, "by-reading.mmtx", "--start", "8M", "--end", "8100k").code == 0
    assert (tmp_path / "by-seeking.mmtx").read_text() == (tmp_path / "by-reading.mmtx").read_text()
    limited = cli("trace", "convert", "large.mmt", "short.mmt", "--max-instructions", "160")
    assert limited.code == 0
    assert counts(cli, "short.mmt")["instructions"] == 160


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.lackey", LACKEY.encode()),
        ("a.view", VIEW.encode()),
        ("a.champsimtrace", CHAMPSIM),
        ("a.champsim.gz", gzip.compress(CHAMPSIM, mtime=0)),
        ("a.champsim.xz", lzma.compress(CHAMPSIM)),
        ("without-any-end", CHAMPSIM),
        ("a.log.gz", gzip.compress(LACKEY.encode(), mtime=0)),
    ],
)
def test_other_tools_traces_are_known_by_content(cli: Cli, tmp_path: Path, name: str, content: bytes) -> None:
    """Each tells the same two instructions, and runs without mappings being told."""
    (tmp_path / name).write_bytes(content)
    (tmp_path / "same.mmtx").write_text(TEXT)
    ran = cli("trace", "convert", name, "a.mmt")
    assert ran.code == 0, ran.err
    back = cli("trace", "convert", "a.mmt", "a.mmtx")
    assert back.code == 0
    words = [line for line in (tmp_path / "a.mmtx").read_text().splitlines() if line[0] in "frw"]
    assert sorted(words) == sorted(line for line in TEXT.splitlines() if line[0] in "frw")
    assert "mappings untold" in (tmp_path / "a.mmtx").read_text()
    found = [counts(cli, trace) for trace in (name, "a.mmt", "a.mmtx")]
    assert found[0] == found[1] == found[2]
    assert found[0]["instructions"] == 2
    assert counts(cli, "same.mmtx")["tlb"]["l1i"] == found[0]["tlb"]["l1i"]
    result = cli("run", MACHINE, "--trace", name, "--json").json()
    assert sum(result["counts"]["segfaults"].values()) == 0
    assert "not recorded" in cli("trace", "info", name).out


def test_writing_champsim_says_what_is_lost(cli: Cli, tmp_path: Path) -> None:
    """One record for each instruction, and warnings for the rest; what ChampSim holds comes back as it was."""
    ran = cli("trace", "convert", SMALL, "a.champsim.xz")
    assert ran.code == 0, ran.err
    assert "a.champsim.xz: left out: 2 events" in ran.err
    assert len(lzma.decompress((tmp_path / "a.champsim.xz").read_bytes())) == 64 * 32000
    assert counts(cli, "a.champsim.xz")["writes"] == 2000
    (tmp_path / "b.champsim").write_bytes(CHAMPSIM)
    assert cli("trace", "convert", "b.champsim", "b.mmt").code == 0
    assert cli("trace", "convert", "b.mmt", "c.champsim").code == 0
    assert (tmp_path / "c.champsim").read_bytes() == CHAMPSIM


def test_a_cut_native_trace_gives_a_marked_partial_result(cli: Cli, tmp_path: Path) -> None:
    """What came before the cut counts; the exit code says that it is not all, the error where it is."""
    assert cli("trace", "convert", LARGE, "whole.mmt").code == 0
    whole = (tmp_path / "whole.mmt").read_bytes()
    (tmp_path / "cut.mmt").write_bytes(whole[: len(whole) * 3 // 4])
    ran = cli("run", MACHINE, "--trace", "cut.mmt", "--json")
    assert ran.code == 1
    result = ran.json()
    assert result["complete"] is False
    assert result["ended"]["reason"] == "trace-damaged"
    assert 0 < result["counts"]["references"] < 1_800_000
    assert re.search(r"cut\.mmt: byte \d+: cut short", ran.err)
    verified = cli("trace", "verify", "cut.mmt")
    assert verified.code == 1
    assert "cut short" in verified.err
    info = cli("trace", "info", "cut.mmt", "--json")
    assert info.code == 1
    assert info.json()["complete"] is False
    assert info.json()["references"] == result["counts"]["references"]
    # What can be read can be kept, and the copy says what it is.
    copy = cli("trace", "convert", "cut.mmt", "kept.mmt")
    assert copy.code == 1
    assert "kept.mmt is valid up to there" in copy.err
    assert cli("trace", "verify", "kept.mmt").code == 0
    kept = cli("trace", "info", "kept.mmt", "--json").json()
    assert kept["references"] == result["counts"]["references"]
    assert any("cut short" in warning for warning in kept["warnings"])
    assert cli("trace", "verify", "whole.mmt").code == 0


def test_flipped_bits_are_found_and_placed(cli: Cli, tmp_path: Path) -> None:
    """By their chunk's checksum, each with its byte; the whole chunks are counted."""
    assert cli("trace", "convert", LARGE, "whole.mmt").code == 0
    content = bytearray((tmp_path / "whole.mmt").read_bytes())
    chunks = [m.start() for m in re.finditer(b"MMTC", bytes(content))]
    assert len(chunks) == 3
    for chunk in (chunks[0], chunks[2]):
        content[chunk + 200] ^= 4
    (tmp_path / "bad.mmt").write_bytes(content)
    ran = cli("trace", "verify", "bad.mmt")
    assert ran.code == 1
    for chunk, at in ((0, chunks[0]), (2, chunks[2])):
        assert f"byte {at}: chunk {chunk}: its checksum does not hold" in ran.err
    assert "whole: 1 chunks" in ran.err
    run = cli("run", MACHINE, "--trace", "bad.mmt")
    assert run.code == 1
    assert f"byte {chunks[0]}: damaged" in run.err


@pytest.mark.parametrize("end", [30, 64 * 1000 + 7])
def test_cut_packed_files_say_so(cli: Cli, tmp_path: Path, end: int) -> None:
    """In the middle of a record, and in the middle of what packed it."""
    assert cli("trace", "convert", SMALL, "a.champsim").code == 0
    whole = (tmp_path / "a.champsim").read_bytes()
    (tmp_path / "cut.champsim").write_bytes(whole[: 64 * 1000 + 7])
    packed = lzma.compress(whole)
    (tmp_path / "cut.champsim.xz").write_bytes(packed[: len(packed) * end // 70000])
    for name in ("cut.champsim", "cut.champsim.xz"):
        ran = cli("trace", "verify", name)
        assert ran.code == 1
        assert "cut short" in ran.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.mmt", b""),
        ("empty.mmtx.gz", gzip.compress(b"", mtime=0)),
        ("foreign.mmt", b"GIF89a" + bytes(range(256)) * 8),
        ("foreign.champsim", b"GIF89a" + bytes(range(256)) * 8),
        ("zeros", bytes(4096)),
        ("letter.txt", b"Dear Sir,\nplease find enclosed\n"),
        ("short.mmt", b"\x89MMT\r\n\x1a\n\x01"),
        ("next.mmt", b"\x89MMT\r\n\x1a\n\x02\0\0\0" + bytes(50)),
    ],
)
def test_a_file_that_is_no_trace_is_refused(cli: Cli, tmp_path: Path, name: str, content: bytes) -> None:
    """With its name and the place, by every command that reads."""
    (tmp_path / name).write_bytes(content)
    for args in (["run", MACHINE, "--trace", name], ["trace", "info", name], ["trace", "convert", name, "out.mmt"]):
        ran = cli(*args)
        assert ran.code in (1, 2)
        assert name in ran.err
        assert "byte " in ran.err
    assert not (tmp_path / "out.mmt").exists() or cli("trace", "verify", "out.mmt").code == 0


def test_targets_that_cannot_be(cli: Cli, tmp_path: Path) -> None:
    """Names that tell nothing, the source itself, places that are not there, a full disk."""
    assert cli("trace", "convert", SMALL, "a.mmt").code == 0
    before = (tmp_path / "a.mmt").read_bytes()
    for target, code, said in (
        ("out.what", 2, "has no ending of a format"),
        ("a.mmt", 2, "the source itself"),
        ("no/where.mmt", 2, "no/where.mmt"),
        ("a.mmt.xz", 2, "packed already"),
    ):
        ran = cli("trace", "convert", "a.mmt", target)
        assert (ran.code, said in ran.err) == (code, True), ran.err
    full = cli("trace", "convert", "a.mmt", "/dev/full", "--to", "text")
    assert full.code == 1
    assert "/dev/full: cannot be written: No space left" in full.err
    assert (tmp_path / "a.mmt").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.mmt"]


@pytest.mark.parametrize(("target", "kept"), [("out.mmt", True), ("out.champsim", False)])
def test_ctrl_c_leaves_a_valid_file_or_none(cli: Cli, tmp_path: Path, target: str, kept: bool) -> None:
    """And says which."""
    command = [sys.executable, "-m", "mmulab", "trace", "convert", "gen:gups?footprint=1G&updates=2000000000", target]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}
    ) as work:
        while not (tmp_path / f"{target}.part").exists():
            assert work.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        work.send_signal(signal.SIGINT)
        _, err = work.communicate(timeout=300)
    assert work.returncode == 130, err
    assert "interrupted" in err
    assert not (tmp_path / f"{target}.part").exists()
    assert (tmp_path / target).exists() == kept
    assert ("valid up to there" in err) == kept
    if kept:
        assert cli("trace", "verify", target).code == 0
        assert any("interrupted" in w for w in cli("trace", "info", target, "--json").json()["warnings"])


def test_accel_sims_kernels_become_traces_of_warps(cli: Cli, tmp_path: Path) -> None:
    """The list, whichever way its blocks are dealt out, and what it is converted to, run alike."""
    kernels = Path(__file__).parents[2] / "tests" / "data" / "accel-sim" / "kernelslist.g"
    dealt = f"accel-sim:{kernels}?cores=2&warps=2"
    assert cli("trace", "convert", dealt, "k.mmt").code == 0
    assert cli("trace", "convert", "k.mmt", "k.mmtx").code == 0
    lines = (tmp_path / "k.mmtx").read_text().splitlines()
    assert "#: warps 2" in lines
    assert "#: mappings untold" in lines
    # A load or store a line, the first one of the first core; and instructions that end warps.
    told = [line for line in lines if line.startswith("warp ")]
    assert told[0] == "warp 0.0 0x100000010 x2 r 0xffffffff 0x7f3000000000+4"
    assert told[2] == "warp 0.1 0x100000010 r 0x7 0x7f3000001000,0x7f3000002000,0x7f3000000000"
    assert len(told) == 5
    sets = ("--set", "gpu.warps=2", "--set", "core.count=2")
    ran = [cli("run", "gpu-mix-baseline", "--trace", name, *sets, "--json") for name in (dealt, "k.mmt", "k.mmtx")]
    assert [result.code for result in ran] == [0, 0, 0]
    found = [result.json()["counts"] for result in ran]
    assert found[0] == found[1] == found[2]
    assert found[0]["warps"]["instructions"] == 5
    assert found[0]["warps"]["lanes"] == 32 + 16 + 3 + 2 + 1
    assert found[0]["instructions"] == 12
    assert cli("trace", "info", str(kernels), "--json").json()["format"] == "accel-sim"
    hashes = {cli("trace", "info", name, "--json").json()["hash"] for name in (dealt, f"accel-sim:{kernels}?cores=3")}
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("accel-sim:no-such-file", "no-such-file: no such trace"),
        ("accel-sim:k.traceg?core=2", "'core' is not a key of it: the keys are cores and warps"),
        ("accel-sim:k.traceg?warps=0", "warps is '0': give 1 to 1024"),
        ("accel-sim:k.traceg?warps=1", "a block has 2 warps, and a core 1"),
        ("accel-sim:k.mmtx?warps=4", "cores= and warps= apply only to Accel-Sim traces"),
        ("list.g", "kernel-9.traceg"),
        ("wrong.g", "line 2: damaged: 'kernel-1.trace' is not grouped by thread blocks"),
    ],
)
def test_what_is_wrong_with_a_gpus_trace_is_said(cli: Cli, tmp_path: Path, name: str, says: str) -> None:
    """With its place, and what to do."""
    kernel = Path(__file__).parents[2] / "tests" / "data" / "accel-sim" / "kernel-1.traceg"
    (tmp_path / "k.traceg").write_text(kernel.read_text())
    (tmp_path / "k.mmtx").write_text("r 0x1000\n")
    (tmp_path / "list.g").write_text("kernel-9.traceg\n")
    (tmp_path / "wrong.g").write_text("MemcpyHtoD,0x1000,4\nkernel-1.trace\n")
    ran = cli("trace", "convert", name, "out.mmt")
    assert ran.code != 0
    assert says in ran.err
