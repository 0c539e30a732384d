"""`mmulab reorder`, and recordings run in an order of functions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli

# Functions that call each other across pages, with others between them that never run.
SOURCE = "".join(
    f"__attribute__((noinline)) int cold{n}(int x) {{ {'x = x * 31 + 7; x ^= x >> 3;' * 400} return x; }}\n"
    f"__attribute__((noinline)) int hot{n}(int x) {{ return x * {n + 3} + 1; }}\n"
    for n in range(12)
)
SOURCE += "int main(int argc, char **argv) { int x = argc; for (int i = 0; i < 20000; i++) {"
SOURCE += "".join(f" x += hot{n}(x);" for n in range(12)) + " } if (argc > 99) { "
SOURCE += "".join(f" x += cold{n}(x);" for n in range(12)) + " } return x == 12345; }\n"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with hot functions on pages of their own, recorded."""
    directory = tmp_path_factory.mktemp("reorder")
    (directory / "p.c").write_text(SOURCE)
    # One page of code after the other, none of them moved by the compiler: what is measured is the order.
    options = ["-O1", "-fno-reorder-functions", "-fno-toplevel-reorder", "-fno-ipa-icf"]
    subprocess.run(["cc", *options, "-o", "p", "p.c"], cwd=directory, check=True)
    ran = Cli(directory)("record", "-o", "p.mmt", "--", "./p")
    assert "recorded" in ran.err or (directory / "p.mmt").exists(), ran.err
    return directory / "p.mmt"


def test_hot_functions_come_together_and_miss_less(cli: Cli, recording: Path) -> None:
    """Twelve pages become one or two; as many instructions and references as before, and fewer pages of code."""
    ran = cli(
        "reorder", recording, "--out", "p.order", "--machine", "skylake-e3-1240v5", "--policies", "linux-4k", "--json"
    )
    assert ran.code == 0, ran.err
    found = ran.json()
    own = next(file for file in found["files"] if file["path"].endswith("/p"))
    assert own["pages"] >= 13
    assert own["ordered_pages"] <= own["pages"] - 10
    (before,), (after,) = found["runs"]["recorded"], found["runs"]["ordered"]
    for key in ("instructions", "references", "fetches", "reads", "writes"):
        assert before["counts"][key] == after["counts"][key]
    # A first-level TLB of 128 entries holds either; what shows is how many pages are read in at all.
    assert after["trace"]["reshaped"]["order"]["functions"] > 10
    order = json.loads((cli.cwd / "p.order").read_text())
    assert order == found["order"]
    small = ["--set", "tlb.ITLB-4K.entries=8", "--set", "tlb.ITLB-4K.ways=8", "--json"]
    misses = {
        what: cli("run", "skylake-e3-1240v5", "--trace", recording, *small, *option).json()["counts"]["tlb"]["l1i"]
        for what, option in (("linked", ()), ("ordered", ("--order", "p.order")))
    }
    assert misses["ordered"]["accesses"] == misses["linked"]["accesses"]
    # Thirteen pages in eight entries, in a round: each call misses. In order they are two or three pages.
    assert misses["linked"]["misses"] > 100_000
    assert misses["ordered"]["misses"] < 0.05 * misses["linked"]["misses"]


def test_the_table_shows_what_larger_pages_give_beside_it(cli: Cli, recording: Path) -> None:
    """The files with their pages, and a row for each policy."""
    ran = cli("reorder", recording, "--machine", "skylake-e3-1240v5")
    assert ran.code == 0, ran.err
    for words in ("their pages,", "freebsd-code-4k", "freebsd-code-1", "freebsd-code-padded", "Misses per 1000"):
        assert words in ran.out


def test_an_ordered_recording_can_be_kept(cli: Cli, recording: Path) -> None:
    """As a trace of its own: the same references as in one go."""
    assert cli("reorder", recording, "--out", "p.order").code == 0
    assert cli("trace", "reshape", recording, "kept.mmt", "--order", "p.order").code == 0
    kept = cli("run", "zen3-5900x", "--trace", "kept.mmt", "--json").json()
    at_once = cli("run", "zen3-5900x", "--trace", recording, "--order", "p.order", "--json").json()
    assert kept["counts"] == at_once["counts"]


def test_a_file_that_is_another_one_keeps_its_order(cli: Cli, tmp_path: Path) -> None:
    """A file with other segments than the recorded one, and a file that is not there: nothing is guessed."""
    python = Path(sys.executable).resolve()
    lines = f"image {python} rx:0x1000+0x234:0x1000+0x234:4K\nmmap 0x400000 8K rx file:{python}+0x1000\n"
    lines += "mmap 0x600000 8K rx file:/no/such/file+0\nf 0x400000 x5\nf 0x600000 x7\n"
    (tmp_path / "t.mmtx").write_text(lines)
    ran = cli("reorder", "t.mmtx", "--json")
    assert ran.code == 0, ran.err
    found = {file["path"]: file for file in ran.json()["files"]}
    assert "other segments" in found[str(python)]["unknown"]
    assert "No such file" in found["/no/such/file"]["unknown"]
    assert [found[str(python)]["elsewhere"], found["/no/such/file"]["elsewhere"]] == [5, 7]
    assert ran.json()["order"]["files"] == []
    assert ran.err.count("its functions are not known") == 2


def test_mistakes_are_refused(cli: Cli, tmp_path: Path) -> None:
    """With the place and the remedy."""
    (tmp_path / "t.mmtx").write_text("mmap 0x400000 8K rx file:/bin/x+0\nf 0x400000\nf 0x401000\n")
    (tmp_path / "untold.mmtx").write_text("#: mappings untold\nf 0x400000\n")
    (tmp_path / "bad").write_text("/bin/x 0x0 nothing main\n")
    (tmp_path / "over").write_text("/bin/x 0x0 64 a\n/bin/x 32 64 b\n")
    (tmp_path / "no.json").write_text("[]")
    twice = {"path": "/bin/x", "moves": [{"offset": 0, "bytes": 16, "to": 16}]}
    order = {"schema": 1, "method": "c3", "trace": "", "files": [twice]}
    (tmp_path / "twice.json").write_text(json.dumps(order))
    (tmp_path / "new.json").write_text(json.dumps({**order, "schema": 2, "files": []}))
    run = ("run", "zen3-5900x", "--trace", "t.mmtx", "--order")
    cases = [
        (("reorder", "untold.mmtx"), "the trace has no mappings"),
        (("reorder", "none.mmt"), "no such trace"),
        (("reorder", "t.mmtx", "--functions", "bad"), "bad:1: '/bin/x 0x0 nothing main' is not a function"),
        (("reorder", "t.mmtx", "--functions", "none"), "none: No such file"),
        (("reorder", "t.mmtx", "--functions", "over"), "the function 'b' at 0x20 begins within another one"),
        (("reorder", "t.mmtx", "--cluster", "0"), "--cluster: '0' is not a size"),
        ((*run, "none"), "none: No such file"),
        ((*run, "no.json"), "no.json: not an order of functions"),
        ((*run, "twice.json"), "/bin/x: code moves to where none moves away"),
        ((*run, "new.json"), "schema"),
    ]
    for arguments, message in cases:
        ran = cli(*arguments)
        assert (ran.code, message in ran.err) == (2, True), (arguments, ran.err)


def test_functions_of_a_text_file_are_taken_in_place_of_the_files(cli: Cli, tmp_path: Path) -> None:
    """A loop in one function that calls another, with one between them that never runs."""
    lines = "mmap 0x400000 12K rx file:/bin/x+0\n" + "f 0x400010 x9\nf 0x402000 x9\nf 0x400020 x9\n" * 5
    (tmp_path / "t.mmtx").write_text(lines)
    (tmp_path / "functions").write_text("# of /bin/x\n/bin/x 0 0x1000 a\n/bin/x 4096 4096 b b\n\n/bin/x 8192 4096 c\n")
    found = cli("reorder", "t.mmtx", "--functions", "functions", "--json").json()
    moves = {move["name"]: move["to"] for move in found["order"]["files"][0]["moves"]}
    assert moves == {"b b": 8192, "c": 4096}
    (file,) = found["files"]
    assert (file["functions"], file["ran"], file["instructions"]) == (3, 2, 135)
    assert (found["instructions"], found["interrupted"]) == (135, False)
