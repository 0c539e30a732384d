"""Programs that were started by a symbolic link are shown by the name that was typed."""

from pathlib import Path

from conftest import Cli

from mmulab.result import Result
from mmulab.study.aliases import shown_file
from mmulab.study.instructions import Instructions
from mmulab.study.places import regions


def test_a_link_s_name_is_shown(cli: Cli, tmp_path: Path) -> None:
    """Its code is the program's, not a library's; another program's file keeps its name."""
    real, link = tmp_path / "check", tmp_path / "server"
    real.write_bytes(b"")
    link.symlink_to(real)
    fetches = "".join(f"f {0x400000 + n * 4096:#x} x40\n" for n in range(200))
    mapped = f"mmap 0x400000 1M rx file:{real}+0\nmmap 0x900000 4K rx file:/lib/libx.so+0\n"
    (tmp_path / "a.mmtx").write_text(f"exec {link}\n{mapped}{fetches}f 0x900000\n")
    ran = cli("run", "skylake-e3-1240v5", "--trace", "a.mmtx", "--profile", "--out", "r")
    assert ran.code == 0, ran.err
    result = Result.load(next((tmp_path / "r").glob("*.json")))
    (found, *_) = regions([result], result.policy)
    assert found.name.startswith(str(link))
    assert found.file == "server"
    origins = {origin: misses.misses for origin, misses in Instructions(result).origins}
    assert origins["the program"] >= 200
    assert origins["libraries"] == 1
    assert shown_file({"file": "/lib/libx.so", "program": str(link)}) == "/lib/libx.so"
    assert shown_file({"program": str(link)}) == ""
