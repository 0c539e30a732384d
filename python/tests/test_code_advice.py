"""What a study says of code: where that is what costs, and how to have it on 2 MB pages."""

import gzip
import json
from pathlib import Path

import pytest
from conftest import CHECKOUT, Cli

from mmulab.stopwatch import kernel
from mmulab.study import code, lines
from mmulab.study.places import Region

MACHINE = "skylake-e3-1240v5"
MB = 1 << 20


def _fetches(start: int, size: int) -> list[str]:
    """A walk over a range of code that no L2 TLB holds, in an order of its own."""
    pages = size >> 12
    return [f"f {start + i * 1237 % pages * 4096:#x} x40" for i in range(6000)]


def _study(cli: Cli, tmp_path: Path, lines: list[str], *options: str) -> tuple[str, Path]:
    (tmp_path / "a.mmtx").write_text("\n".join(lines) + "\n")
    ran = cli("study", "a.mmtx", "--machines", MACHINE, "--out", "out", *options)
    assert ran.code == 0, ran.err
    return ran.out, tmp_path / "out"


def test_a_program_whose_cost_is_code_gets_lines_to_paste(cli: Cli, tmp_path: Path) -> None:
    """A text of 16 MB that lies well: most of it can be moved as it is."""
    out, directory = _study(cli, tmp_path, ["mmap 0x400000 0x1001000 rx file:/bin/big+0", *_fetches(0x400000, 16 * MB)])
    assert "  linux-code-remap" in out
    assert "Move the code of big onto 2 MB pages (linux-code-remap)." in out
    assert "100.0 % of stalls for translations are for code: big 100.0 %" in out
    for line in (
        "mmulab try --settings 4k,code -- PROGRAM ARGS",
        "MMULAB_TRY=code PROGRAM ARGS",
        "-Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code",
        kernel.READ_ONLY_THP,
    ):
        assert line in out
    row = next(line for line in out.splitlines() if line.startswith("/bin/big r-x"))
    assert row.split()[-2:] == ["100", "%"]
    assert not (directory / "relinked").exists()
    html = (directory / "report.html").read_text()
    assert "code in<br>2M pages" in html
    assert "max-page-size=0x200000" in html


def test_code_that_cannot_be_moved_is_linked_anew(cli: Cli, tmp_path: Path) -> None:
    """Nearly 2 MB that lie across a multiple of 2 MB: none of it can be moved. Linked at 2 MB, all of it can."""
    lines = [
        "image /bin/odd r:0x400000+0x1000:0x0+0x1000:4K rx:0x401000+0x1fe000:0x1000+0x1fe000:4K "
        "rw:0x700000+0x1000:0x1ff000+0x1000:4K",
        "mmap 0x400000 4K r file:/bin/odd+0",
        "mmap 0x401000 0x1fe000 rx file:/bin/odd+0x1000",
        "mmap 0x700000 4K rw file:/bin/odd+0x1ff000",
        *_fetches(0x401000, 0x1FE000),
    ]
    out, directory = _study(cli, tmp_path, lines)
    (result,) = (directory / "relinked").glob("*.json")
    moved = json.loads(result.read_text())["counts"]["kernel"]["events"]
    assert moved["text_pages_moved"] == 512
    assert "  linux-code-relinked" in out
    assert "Link anew, and move, the code of odd onto 2 MB pages" in out
    assert "if it is linked at 2 MB" in out
    assert "Link and preload" in out
    again, _ = _study(cli, tmp_path, lines, "--max-page-size", "16K", "--replace")
    assert "linux-code-relinked" not in again
    assert not [*(directory / "relinked").glob("*")], "what the earlier study left is gone"


def test_data_are_no_code(cli: Cli, tmp_path: Path) -> None:
    """Nothing is said of code where it costs little."""
    lines = ["mmap 0x400000 4K rx file:/bin/x+0", "mmap 0x10000000 64M rw anon"]
    lines += [f"f 0x400000 x4\nw {0x10000000 + i * 7919 % 16384 * 4096:#x}" for i in range(4000)]
    out, _ = _study(cli, tmp_path, lines)
    assert "the code of" not in out
    assert "max-page-size" not in out


def _region(cost: int, name: str, is_code: bool, huge: int) -> Region:
    mapped = {"4K": MB, "2M": huge * MB}
    return Region(
        1, name, "file", 0, 1, {"linux-4k": cost}, {}, {}, {code.REMAP: mapped}, {}, "linux-4k", 1000, is_code, name
    )


def test_shares_are_of_all_stalls_and_of_code_s() -> None:
    """By hand: 600 of 1000 are code; of these 300 lie in a region three quarters of which was moved."""
    regions = [_region(300, "a", True, 3), _region(300, "b", True, 0), _region(400, "c", False, 9)]
    found = code.of(regions, "linux-4k")
    assert found.share == pytest.approx(0.6)
    assert found.covered == pytest.approx(0.375)
    assert found.files == (("a", pytest.approx(0.3)), ("b", pytest.approx(0.3)))
    assert found.is_what_costs
    assert found.needs_linking
    assert not code.of([], "linux-4k").is_what_costs


def test_a_kernel_s_configuration_is_read_where_it_is(tmp_path: Path) -> None:
    """Compressed or not; where it is nowhere, that is said."""
    packed, plain = tmp_path / "config.gz", tmp_path / "config-6.1"
    assert "is not known" in kernel.read_only_files([packed, plain])
    plain.write_text("# CONFIG_READ_ONLY_THP_FOR_FS is not set\nCONFIG_TRANSPARENT_HUGEPAGE=y\n")
    found = kernel.read_only_files([packed, plain])
    assert "has no CONFIG_READ_ONLY_THP_FOR_FS" in found
    assert str(plain) in found
    packed.write_bytes(gzip.compress(b"CONFIG_READ_ONLY_THP_FOR_FS=y\nCONFIG_X=m\n"))
    assert "This kernel has CONFIG_READ_ONLY_THP_FOR_FS" in kernel.read_only_files([packed, plain])
    packed.write_bytes(b"no gzip")
    assert str(plain) in kernel.read_only_files([packed, plain])
    configuration = kernel.configuration([plain])
    assert configuration is not None
    assert configuration.has("CONFIG_TRANSPARENT_HUGEPAGE")


def test_code_is_linked_anew_on_a_machine_of_ones_own(cli: Cli, tmp_path: Path) -> None:
    """Its file is what is run, whatever name stands in it: the study failed here, and was lost."""
    text = (CHECKOUT / "machines" / f"{MACHINE}.toml").read_text(encoding="utf-8")
    (tmp_path / "own.toml").write_text(text.replace(f'name = "{MACHINE}"', 'name = "mine"'))
    lines_of = [
        "image /bin/odd r:0x400000+0x1000:0x0+0x1000:4K rx:0x401000+0x1fe000:0x1000+0x1fe000:4K",
        "mmap 0x400000 4K r file:/bin/odd+0",
        "mmap 0x401000 0x1fe000 rx file:/bin/odd+0x1000",
        *_fetches(0x401000, 0x1FE000),
    ]
    (tmp_path / "a.mmtx").write_text("\n".join(lines_of) + "\n")
    ran = cli("study", "a.mmtx", "--machines", "own.toml", "--out", "out")
    assert ran.code == 0, ran.err
    assert len([*(tmp_path / "out" / "relinked").glob("mine--linux-code-relinked*.json")]) == 1


def _policies(directory: Path) -> set[tuple[str, str]]:
    """The folder and the policy of each result."""
    found = [(path.parent.name, json.loads(path.read_text())) for path in directory.glob("re*/*.json")]
    return {(folder, result["policy"]["name"]) for folder, result in found}


def test_pages_of_files_are_run_on_request_and_named_without(cli: Cli, tmp_path: Path) -> None:
    """A text of 4 MB that is misaligned with its file by a page: pages of the file help only if it is linked anew."""
    lines_of = [
        "image /bin/off r:0x400000+0x1000:0x0+0x1000:4K rx:0x402000+0x400000:0x1000+0x400000:4K "
        "rw:0x900000+0x1000:0x401000+0x1000:4K",
        "mmap 0x400000 4K r file:/bin/off+0",
        "mmap 0x402000 0x400000 rx file:/bin/off+0x1000",
        "mmap 0x900000 4K rw file:/bin/off+0x401000",
        *_fetches(0x402000, 4 * MB),
    ]
    out, directory = _study(cli, tmp_path, lines_of)
    assert "not run" in out
    named = f"other ways to larger pages for code: {', '.join(code.WHOLE)}. --code runs them"
    assert named in " ".join(out.split())
    assert not {policy for _, policy in _policies(directory)} & {*code.ON_REQUEST}
    out, directory = _study(cli, tmp_path, lines_of, "--code", "--replace")
    assert _policies(directory) >= {(folder, policy) for folder in ("results", "relinked") for policy in code.WHOLE}
    assert "not run" not in out
    assert "  linux-code-tmpfs, linked at 2M" in out
    said = " ".join(out.split())
    tmpfs = said.partition(" tmpfs saves ")[2].partition("(linux-code-tmpfs).")[0]
    assert "; 0.0 % of mapped code is on pages of 2 MB; if it is linked at 2 MB," in tmpfs
    # The last 4 KB of code and the text before it are no whole 2 MB.
    share = float(tmpfs.rpartition(" % of code on pages of 2 MB")[0].split()[-1])
    assert share > 50
    assert "sudo mount -t tmpfs -o huge=always tmpfs /mnt/huge" in out
    # Copies need no mapping that agrees with its file, but whole, aligned 2 MB: one of the two lies so already.
    pool = said.partition(" hugetlb saves ")[2].partition("(linux-code-hugetlb).")[0]
    assert float(pool.partition(" % of mapped code is on pages of 2 MB")[0].split()[-1]) > 40
    assert "HUGETLB_ELFMAP=R PROGRAM" in out
    # khugepaged comes every 10 s, and this is over before.
    khugepaged = said.partition(" khugepaged saves ")[2].partition("(linux-code-khugepaged).")[0]
    assert khugepaged.count("0.0 % of") >= 2
    assert "Debian" not in said
    assert "filesystems/tmpfs.rst" in (directory / "report.html").read_text()


def test_code_of_armv8_has_blocks_of_64_kb_too(cli: Cli, tmp_path: Path) -> None:
    """Linux reads code so on Armv8 alone. A text of 1 MB, of which no 2 MB are whole: other ways give it nothing."""
    lines_of = ["#: isa aarch64", "mmap 0x400000 0x100000 rx file:/bin/off+0", *_fetches(0x400000, MB)]
    (tmp_path / "a.mmtx").write_text("\n".join(lines_of) + "\n")
    ran = cli("study", "a.mmtx", "--machines", "neoverse-n1", "--out", "out", "--code")
    assert ran.code == 0, ran.err
    assert ("results", "linux-code-folios-contpte") in _policies(tmp_path / "out")
    said = " ".join(ran.out.split())
    assert "of user time on neoverse-n1 (quick model) memory as much resident" in said
    # Nothing that needs whole 2 MB is of use here.
    assert "MMULAB_TRY" not in ran.out
    assert "Run off on a kernel that reads code in blocks of 64 KB (linux-code-folios-contpte)." in said
    assert "Linux 6.17 and later read code so" in said
    without = cli("study", "a.mmtx", "--machines", "neoverse-n1", "--out", "out", "--replace")
    assert "Leave the pages as they are" in without.out


def test_what_the_pool_holds_is_read_from_the_kernel(tmp_path: Path) -> None:
    """A number, or no pool at all."""
    assert "is absent" in lines.about_pool(tmp_path / "absent")
    (tmp_path / "pool").write_text("12\n")
    assert lines.about_pool(tmp_path / "pool").endswith("Here 12 are.")


def test_data_are_never_advised_what_is_for_code(cli: Cli, tmp_path: Path) -> None:
    """linux-code-khugepaged gives data 2 MB pages, too; the advice for data is linux-thp all the same."""
    lines_of = ["mmap 0x400000 4K rx file:/bin/x+0", "mmap 0x10000000 64M rw anon"]
    lines_of += [f"f 0x400000 x4\nw {0x10000000 + i * 7919 % 16384 * 4096:#x}" for i in range(8000)]
    out, directory = _study(cli, tmp_path, lines_of, "--code")
    assert ("results", "linux-code-khugepaged") in _policies(directory)
    assert "transparent 2 MB pages (linux-thp)" in out
    assert "pages of linux-code" not in out


def test_what_tmpfs_needs_is_read_from_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its switch: absent, deny, or one that a mount's own option overrides."""
    setting = tmp_path / "shmem_enabled"
    monkeypatch.setattr(lines, "SHMEM", setting)
    assert "is absent" in lines.about_tmpfs()
    setting.write_text("always within_size advise never [deny] force\n")
    assert "is [deny], so no tmpfs has huge pages" in lines.about_tmpfs()
    setting.write_text("always within_size advise [never] deny force\n")
    assert "This kernel has such pages" in lines.about_tmpfs()
