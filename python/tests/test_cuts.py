"""Parts of programs: the state that a recording with --skip, or a slice, carries; and runs that begin to count late.

CHANGELOG number 3.
"""

import platform
import shutil
from pathlib import Path

import pytest
from conftest import CHECKOUT, Build, Cli

needs_qemu = pytest.mark.skipif(shutil.which(f"qemu-{platform.machine()}") is None, reason="needs QEMU to record")
MACHINE = "zen3-5900x"
OLD_CUT = CHECKOUT / "tests" / "data" / "cc1-small.mmt"
MB = 1 << 20

# Stores to each page of 256 MB, of which 192 MB stay mapped. Loads from 16 MB that it never stored to. Has 200 objects
# of its allocator. From then on it reads one page.
FILLS = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void *kept[200];
int main(void) {
    size_t n = 256 << 20;
    volatile char *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile char *q = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < n; i += 4096) p[i] = 1;
    for (size_t i = 0; i < 16 << 20; i += 4096) (void)q[i];
    munmap((void *)(p + (n - (64 << 20))), 64 << 20);
    for (int i = 0; i < 200; i++) memset(kept[i] = malloc(5000), 1, 5000);
    for (long i = 0; i < 20000000; i++) (void)p[64 * (i & 63)];
    return 0;
}
"""


@needs_qemu
def test_a_recording_that_begins_late_has_the_memory_of_its_program(cli: Cli, build: Build) -> None:
    """192 MB are resident from its first counted instruction on, dirty, and in huge pages where these are given out."""
    part = ("--skip", "20M", "--max-instructions", "1M", "--heap", "--fixed-layout", "--json")
    ran = cli("record", "-o", "part.mmt", *part, "--", build(FILLS))
    assert ran.code == 0, ran.err
    info = cli("trace", "info", "part.mmt", "--json").json()
    assert info["skipped"] == 20_000_000
    assert info["instructions"] == pytest.approx(1_000_000, rel=0.01)
    assert info["used_before_bytes"] > 208 * MB
    assert info["footprint_bytes"] < MB, "what was used before is not of the part"
    assert info["events"]["malloc"] - info["events"].get("free", 0) >= 200, "its objects"
    for policy in ("linux-4k", "linux-thp"):
        result = cli("run", MACHINE, "--trace", "part.mmt", "--policy", policy, "--json").json()
        memory, kernel = result["counts"]["memory"], result["counts"]["kernel"]
        assert 192 * MB < memory["resident_bytes"] < 240 * MB
        assert result["counts"]["instructions"] == info["instructions"]
        assert sum(kernel["faults"].values()) < 50, "faults before the part are not counted"
        assert kernel["work"]["zero_bytes"] < 4 * MB
        assert result["model"]["cycles"]["kernel"] < result["model"]["cycles"]["total"]
        largest = max(result["regions"], key=lambda region: region["resident"]["now"])
        assert largest["resident"]["now"] >= 192 * MB
        if policy == "linux-thp":
            assert largest["mapped"]["2M"]["now"] >= 190 * MB
    shown = cli("run", MACHINE, "--trace", "part.mmt")
    assert "the trace begins 20 M instructions into its program" in shown.out
    assert "an older mmulab cut it" not in shown.err


@needs_qemu
def test_a_slice_has_the_same(cli: Cli, build: Build) -> None:
    """Cut out of a whole recording: the same memory as the recording has at its end."""
    assert cli("record", "-o", "all.mmt", "--max-instructions", "21M", "--", build(FILLS)).code == 0
    assert cli("trace", "slice", "all.mmt", "part.mmt", "--start", "20M", "--end", "21M").code == 0
    run = ("run", MACHINE, "--policy", "linux-thp", "--json", "--trace")
    whole, part, warm = (
        cli(*run, trace, *more).json() for trace, *more in (["all.mmt"], ["part.mmt"], ["all.mmt", "--skip", "20M"])
    )
    assert whole["counts"]["memory"]["private_bytes"] == part["counts"]["memory"]["private_bytes"]
    # What is read around a fault depends on the order in which pages of files are used.
    cached = [result["counts"]["memory"]["page_cache_bytes"] for result in (whole, part, warm)]
    assert cached[0] == cached[2]
    assert cached[0] == pytest.approx(cached[1], abs=256 << 10)
    now = [{size: of["now"] for size, of in r["counts"]["memory"]["mapped"].items()} for r in (whole, part, warm)]
    assert now[0] == now[2]
    assert now[0]["2M"] == now[1]["2M"] >= 190 * MB
    assert now[0]["4K"] == pytest.approx(now[1]["4K"], abs=256 << 10)
    assert part["counts"]["references"] == pytest.approx(warm["counts"]["references"], abs=100)
    assert warm["uncounted"]["instructions"] == pytest.approx(20_000_000, abs=1000)


def test_what_a_generator_fills_can_be_left_out(cli: Cli) -> None:
    """`init=true` fills first; what is counted with --skip are the updates alone, with the memory of all."""
    trace = "gen:gups?footprint=16M&updates=20000&init=true"
    run = ("run", MACHINE, "--json", "--trace")
    without, filled = cli(*run, trace.replace("true", "false")).json(), cli(*run, trace).json()
    filling = filled["counts"]["instructions"] - without["counts"]["instructions"]
    counted = cli(*run, trace, "--skip", str(filling)).json()
    assert counted["counts"]["instructions"] == without["counts"]["instructions"]
    assert counted["counts"]["references"] == without["counts"]["references"]
    assert counted["options"]["skip"] == filling == counted["uncounted"]["instructions"]
    assert sum(counted["counts"]["kernel"]["faults"].values()) == 0
    assert counted["counts"]["memory"]["resident_bytes"] == filled["counts"]["memory"]["resident_bytes"]
    assert f"--skip {filling} leaves them out" in " ".join(counted["trace"]["warnings"])
    shown = cli("run", MACHINE, "--trace", trace, "--skip", str(filling), "--out", "results")
    assert f"skip={filling}" in shown.out
    assert "were run first, to warm up" in shown.out
    assert [f"skip={filling}" in path.name for path in (cli.cwd / "results").iterdir()] == [True]
    nothing = cli("run", MACHINE, "--trace", trace, "--skip", "1G")
    assert nothing.code == 2
    assert "--skip 1000000000 leaves nothing to count: the trace has" in nothing.err


def test_a_study_leaves_the_same_out(cli: Cli) -> None:
    """And its report says so."""
    trace = "gen:gups?footprint=8M&updates=5000&init=true"
    one = ("--machines", MACHINE, "--policies", "linux-thp", "--out", "out")
    ran = cli("study", trace, *one, "--skip", "1M", "--json")
    assert ran.code == 0, ran.err
    skipped = [result["uncounted"]["instructions"] for result in ran.json()["results"]]
    assert all(1_000_000 <= instructions < 1_000_100 for instructions in skipped)
    for name in ("summary.txt", "report.html"):
        assert "were run first, to warm up" in (cli.cwd / "out" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [("trace", "info"), ("run", MACHINE, "--max-instructions", "1k", "--trace")])
def test_an_old_cut_is_reported(cli: Cli, command: tuple[str, ...]) -> None:
    """A recording that lacks the pages in use does not pass for a program that begins there."""
    ran = cli(*command, Path(OLD_CUT))
    assert "begins in the middle of its program, and an older mmulab cut it" in ran.err
