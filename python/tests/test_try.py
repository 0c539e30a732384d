"""The stopwatch: its settings, its runs, its statistics, and that everything is put back.

No test expects a saving: how large it is depends on the computer and on what else it does.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Build, Cli

from mmulab import UserError, paths, stopwatch
from mmulab.ports import free_port
from mmulab.stopwatch import counters, late, moved, pairs, process, report, settings, sysfs
from mmulab.stopwatch.process import Program

Json = dict[str, Any]
BY_NAME = {setting.name: setting for setting in stopwatch.SETTINGS}
needs_thp = pytest.mark.skipif(BY_NAME["thp"].missing() is not None, reason=str(BY_NAME["thp"].missing()))

# Reads a block of memory that malloc gave it, in megabytes, as long as it is told.
TOUCH = r"""
#include <stdlib.h>
int main(int count, char **args) {
    size_t n = (size_t)atoi(args[1]) << 20;
    volatile char *p = malloc(n);
    for (size_t i = 0; i < n; i += 64) p[i] = i;
    long sum = 0;
    for (int round = 0; round < atoi(args[2]); round++)
        for (size_t i = 0; i < n; i += 4096) sum += p[(i * 7919) % n];
    return sum == 42;
}
"""
# Reserves memory without rights, as allocators do, gives it rights later, and maps some more, 64 MB in all.
OWN = r"""
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    size_t n = 32 << 20;
    char *p = mmap(0, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(p, n, PROT_READ | PROT_WRITE);
    char *q = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < n; i += 4096) p[i] = q[i] = 1;
    usleep(300000);
    return 0;
}
"""
# Code of 8 MB that is run through from end to end, and must be the same bytes after it has moved.
LONG_CODE = r"""
__asm__(".text\n.globl slide\nslide:\n.fill 8388608, 1, 0x90\nmov $7, %eax\nret\n");
int slide(void);
int main(void) { return slide() == 7 ? 0 : 1; }
"""


def _run(name: str, argv: list[str], tmp_path: Path, samples: list[dict[str, int]] | None = None) -> process.Run:
    reports = tmp_path / "reports"
    reports.mkdir(exist_ok=True)
    return process.run(Program(argv), BY_NAME[name], reports, samples)


def test_a_run_has_its_times_and_faults(build: Build, tmp_path: Path) -> None:
    program = str(build(TOUCH, "-O1"))
    done = _run("4k", [program, "32", "3"], tmp_path)
    assert done.exit_code == 0
    assert done.wall_s > 0
    assert done.user_s + done.kernel_s > 0
    assert done.peak_bytes >= 32 << 20
    # Each base page is faulted in.
    assert done.minor_faults >= 8192


@needs_thp
def test_the_pages_in_force_are_those_of_the_setting(build: Build, tmp_path: Path) -> None:
    argv = [str(build(TOUCH, "-O1")), "64", "200"]
    seen = {}
    for name in ("4k", "thp"):
        samples: list[dict[str, int]] = []
        assert _run(name, argv, tmp_path, samples).exit_code == 0
        seen[name] = max(samples, key=lambda s: s["Rss"])
    assert seen["4k"]["AnonHugePages"] == 0
    assert seen["4k"]["Rss"] >= 32 << 20
    # Where memory is fragmented the kernel may give fewer, but not none.
    assert seen["thp"]["AnonHugePages"] >= 2 << 20


@needs_thp
def test_memory_that_a_program_maps_itself_is_advised_too(build: Build, tmp_path: Path) -> None:
    samples: list[dict[str, int]] = []
    assert _run("thp", [str(build(OWN))], tmp_path, samples).exit_code == 0
    # More than either mapping alone could have.
    assert max(s["AnonHugePages"] for s in samples) > 32 << 20


@needs_thp
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program is x86-64 assembly")
def test_moved_code_runs_and_is_reported(build: Build, tmp_path: Path) -> None:
    program = str(build(LONG_CODE, "-O1"))
    assert _run("code", [program], tmp_path).exit_code == 0
    (written,) = process.reported(tmp_path / "reports")
    assert written["program"] == program
    assert written["code_bytes"] >= 8 << 20
    # At least three whole aligned 2 MB lie in 8 MB.
    assert written["code_moved"] >= 6 << 20
    assert written["code_huge"] <= written["code_moved"]
    assert process.reported(tmp_path / "reports") == []
    # Under other settings the code stays where it is.
    assert _run("4k", [program], tmp_path).exit_code == 0
    assert process.reported(tmp_path / "reports")[0]["code_moved"] == 0


@pytest.mark.skipif(BY_NAME["code-tmpfs"].missing() is not None, reason=str(BY_NAME["code-tmpfs"].missing()))
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program is x86-64 assembly")
def test_code_moves_onto_a_file_in_memory(build: Build, tmp_path: Path) -> None:
    """Whether its pages are huge is the kernel's to say; where they are, smaps has them as the report does."""
    program = str(build(LONG_CODE, "-O1"))
    assert _run("code-tmpfs", [program], tmp_path).exit_code == 0
    (written,) = process.reported(tmp_path / "reports")
    assert written["code_moved"] >= 6 << 20
    collapsed = sum(sum(text.huge) for text in moved.texts(written)) * moved.HUGE
    assert written["code_huge"] == collapsed <= written["code_moved"]


@pytest.fixture
def pool() -> Iterator[None]:
    """Sixteen pages of 2 MB in the pool, or as many more as it has now; what it had is put back."""
    setting = Path("/proc/sys/vm/nr_hugepages")
    before = setting.read_text() if setting.exists() else ""
    try:
        setting.write_text(str(int(before) + 16))
    except (OSError, ValueError):
        pytest.skip("the pool cannot be filled here: that takes root, and a kernel with a pool")
    try:
        if BY_NAME["code-hugetlb"].missing() is not None:
            pytest.skip("memory is too fragmented for pages of 2 MB")
        yield
    finally:
        setting.write_text(before)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program is x86-64 assembly")
def test_code_moves_onto_pages_of_the_pool(pool: None, build: Build, tmp_path: Path) -> None:
    """All of it or nothing; the pool has its pages back when the program has ended."""
    free = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
    before = free.read_text()
    program = str(build(LONG_CODE, "-O1"))
    assert _run("code-hugetlb", [program], tmp_path).exit_code == 0
    (written,) = process.reported(tmp_path / "reports")
    assert written["code_moved"] >= 6 << 20
    assert written["code_huge"] == written["code_moved"]
    assert free.read_text() == before


def test_an_empty_pool_and_denied_files_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither setting runs on base pages without a word."""
    monkeypatch.setattr(settings, "_pool_pages", lambda: 0)
    assert "nr_hugepages" in str(BY_NAME["code-hugetlb"].missing())
    switch = tmp_path / "shmem_enabled"
    monkeypatch.setattr(settings, "SHMEM", switch)
    assert "says nothing" in str(BY_NAME["code-tmpfs"].missing())
    switch.write_text("always within_size advise never [deny] force\n")
    assert "says deny" in str(BY_NAME["code-tmpfs"].missing())
    switch.write_text("always within_size advise [never] deny force\n")
    assert BY_NAME["code-tmpfs"].missing() is None
    assert BY_NAME["code-tmpfs"].sysfs() == {switch: "advise"}


def test_a_static_program_is_named_as_one_that_cannot_be_preloaded(build: Build, cli: Cli) -> None:
    program = build(TOUCH, "-O1", "-static")
    ran = cli("try", "--settings", "4k,code", "--pairs", "1", "--", program, "8", "1")
    if "transparent huge pages of 2 MB are off" in ran.err:
        pytest.skip("no huge pages here")
    assert ran.code == 0, ran.err
    assert "did not load the library" in ran.err


def test_the_time_that_a_program_prints_counts(cli: Cli) -> None:
    printed = cli(
        "try",
        "--settings",
        "4k,asis",
        "--pairs",
        "2",
        "--time",
        "took ([0-9.]+) s",
        "--json",
        "--",
        "echo",
        "took 7.5 s",
    )
    assert printed.code == 0, printed.err
    assert [run["wall_s"] for one in json.loads(printed.out)["settings"] for run in one["runs"]] == [7.5] * 4
    silent = cli("try", "--settings", "4k,asis", "--pairs", "2", "--time", "took ([0-9.]+) s", "--", "echo", "done")
    assert silent.code == 1
    assert "printed no time under 4k: nothing fits 'took ([0-9.]+) s'" in silent.err
    no_group = cli("try", "--time", "took", "--", "true")
    assert no_group.code == 2
    assert "must have one group" in no_group.err


def test_a_program_that_a_signal_ends_has_the_shells_exit_code(tmp_path: Path) -> None:
    done = _run("asis", ["sh", "-c", "echo oops >&2; kill -SEGV $$"], tmp_path)
    assert done.exit_code == 128 + signal.SIGSEGV
    assert done.stderr == "oops"


def test_a_program_gets_its_input_and_its_children_end_with_it(tmp_path: Path) -> None:
    text = tmp_path / "in"
    text.write_text("hello\n")
    reports = tmp_path / "reports"
    reports.mkdir()
    program = Program(["sh", "-c", "sleep 1000 & echo $! > child; read word; test $word = hello"], stdin=text)
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert process.run(program, BY_NAME["asis"], reports).exit_code == 0
        child = int((tmp_path / "child").read_text())
        until = time.monotonic() + 10
        while _alive(child) and time.monotonic() < until:
            time.sleep(0.01)
        assert not _alive(child)
    finally:
        os.chdir(before)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_tunables_and_preloads_of_the_user_are_kept() -> None:
    base = {"GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.malloc.hugetlb=2", "LD_PRELOAD": "own.so"}
    env = BY_NAME["thp"].environment(Path("r"), base)
    assert env["GLIBC_TUNABLES"] == "glibc.malloc.check=1:glibc.malloc.hugetlb=1"
    assert env["LD_PRELOAD"] == f"{paths.try_library()}:own.so"
    assert env["MMULAB_TRY"] == "anon"
    # The library is there in every setting, so that it costs all of them the same.
    plain = BY_NAME["4k"].environment(Path("r"), {})
    assert plain["LD_PRELOAD"] == str(paths.try_library())
    assert plain["MMULAB_TRY"] == ""
    assert "GLIBC_TUNABLES" not in plain


def test_unknown_single_and_repeated_settings_are_refused() -> None:
    with pytest.raises(UserError, match="'5k' is not a setting"):
        settings.find(("4k", "5k"), False)
    for few in (("4k",), ("4k", "4k")):
        with pytest.raises(UserError, match="at least two different"):
            settings.find(few, False)


def test_sizes_that_are_off_are_refused_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kb, text in (
        (16, "always inherit madvise [never]"),
        (64, "always inherit [madvise] never"),
        (2048, "[inherit]"),
    ):
        directory = tmp_path / f"hugepages-{kb}kB"
        directory.mkdir()
        (directory / "enabled").write_text(text)
    (tmp_path / "enabled").write_text("always [madvise] never")
    monkeypatch.setattr(settings, "_THP", tmp_path)
    assert settings.sizes_kb() == [16, 64, 2048]
    assert BY_NAME["thp"].missing() is None
    assert "are off" in str(BY_NAME["16k"].missing())
    assert "this kernel has no" in str(BY_NAME["128k"].missing())
    # A larger page would be taken instead.
    assert "2048 kB are on" in str(BY_NAME["64k"].missing())
    (tmp_path / "enabled").write_text("always madvise [never]")
    assert BY_NAME["64k"].missing() is None
    assert "off (never)" in str(BY_NAME["thp"].missing())
    with pytest.raises(UserError, match=r"--settings thp: .*never"):
        settings.find(("4k", "thp"), False)
    # With --system the settings are changed for the run: to this size, and no other.
    assert settings.find(("4k", "16k"), True)
    wanted = {path.parent.name: value for path, value in BY_NAME["16k"].sysfs().items()}
    assert wanted == {"hugepages-16kB": "madvise", "hugepages-64kB": "never", "hugepages-2048kB": "never"}


def _settings_of_a_system(tmp_path: Path) -> list[Path]:
    first, second = tmp_path / "enabled", tmp_path / "defrag"
    first.write_text("always [madvise] never\n")
    second.write_text("1\n")
    return [first, second]


def _changed_and_interrupted(first: Path, second: Path) -> None:
    with sysfs.Borrowed([first, second]) as borrowed:
        borrowed.set({first: "never", second: "0"})
        assert (first.read_text(), second.read_text()) == ("never", "0")
        # A setting that is not named has its old value.
        borrowed.set({second: "0"})
        assert first.read_text() == "madvise"
        borrowed.set({first: "always"})
        raise KeyboardInterrupt


def test_settings_of_the_system_are_put_back(tmp_path: Path) -> None:
    first, second = _settings_of_a_system(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        _changed_and_interrupted(first, second)
    assert (first.read_text(), second.read_text()) == ("madvise", "1")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_settings_of_the_system_are_put_back_even_after_a_kill(tmp_path: Path, number: signal.Signals) -> None:
    first, second = _settings_of_a_system(tmp_path)
    code = (
        "import sys, time; from pathlib import Path; from mmulab.stopwatch import sysfs\n"
        "paths = [Path(p) for p in sys.argv[1:]]\n"
        "with sysfs.Borrowed(paths) as borrowed:\n"
        "    borrowed.set({paths[0]: 'never'}); print('set', flush=True); time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, first, second], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "set\n"
        assert first.read_text() == "never"
        child.send_signal(number)
    until = time.monotonic() + 20
    # One is put back after the other.
    while (first.read_text(), second.read_text()) != ("madvise", "1") and time.monotonic() < until:
        time.sleep(0.02)
    assert (first.read_text(), second.read_text()) == ("madvise", "1")


def _runs(walls: list[float]) -> list[Json]:
    return [{"wall_s": w, "user_s": w * 0.9, "kernel_s": 0.001} for w in walls]


def test_a_saving_is_the_median_of_paired_shares_with_its_interval() -> None:
    base = _runs([1.0, 2.0, 1.0, 4.0, 1.0, 1.0])
    # A quarter less in each pair, whatever the pair took.
    found = pairs.compare(base, _runs([0.75, 1.5, 0.75, 3.0, 0.75, 0.75]))
    assert found["wall_s"] == {"saving": 0.25, "low": 0.25, "high": 0.25, "pairs": 6}
    # A millisecond of kernel time is no base for a share.
    assert found["kernel_s"] is None
    assert pairs.verdict(base, found) == "saves 25.0 % of wall time (95 % interval 25.0 to 25.0 %)"
    slower = pairs.compare(base, _runs([1.1, 2.2, 1.1, 4.4, 1.1, 1.1]))
    assert pairs.verdict(base, slower) == "costs 10.0 % of wall time (95 % interval 10.0 to 10.0 %)"


def test_noise_wider_than_the_difference_shows_nothing() -> None:
    base = _runs([1.0, 1.3, 0.9, 1.2, 1.0, 1.1, 0.8, 1.4])
    other = _runs([1.2, 1.0, 1.1, 0.9, 1.1, 1.0, 1.2, 1.0])
    assert pairs.verdict(base, pairs.compare(base, other)).startswith("nothing was shown: the interval")
    few = pairs.compare(base[:2], _runs([0.5, 0.6]))
    assert "too few pairs: 2 of at least 6" in pairs.verdict(base[:2], few)


def test_runs_that_are_too_short_say_so() -> None:
    base = _runs([0.004] * 6)
    said = pairs.verdict(base, pairs.compare(base, _runs([0.003] * 6)))
    assert said.startswith("too short: a run takes 4.0 ms")
    assert "resolution is too low" in said
    # A program that sleeps has wall time, but none on a CPU.
    idle = [{"wall_s": 1.0, "user_s": 0.001, "kernel_s": 0.001}] * 6
    assert pairs.verdict(idle, pairs.compare(idle, idle)).startswith("too short: a run takes 1000.0 ms, 2.0 ms of it")


def test_the_interval_is_the_same_each_time_and_holds_the_median() -> None:
    values = [0.1, 0.2, 0.15, 0.3, 0.05, 0.12, 0.18]
    low, high = pairs.interval(values)
    assert (low, high) == pairs.interval(values)
    assert 0.05 <= low <= 0.15 <= high <= 0.3
    # More of the same values narrow it.
    narrow = pairs.interval(values * 10)
    assert narrow[1] - narrow[0] < high - low


@needs_thp
def test_a_program_is_compared_and_everything_is_in_the_file(build: Build, cli: Cli, tmp_path: Path) -> None:
    program = build(TOUCH, "-O1")
    ran = cli("try", "--pairs", "5", "--out", "found.json", "--", program, "32", "20")
    assert ran.code == 0, ran.err
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["ended"] == "complete"
    assert [one["name"] for one in found["settings"]] == ["4k", "thp"]
    assert [len(one["runs"]) for one in found["settings"]] == [5, 5]
    (comparison,) = found["comparisons"]
    wall = comparison["wall_s"]
    assert wall["low"] <= wall["saving"] <= wall["high"]
    # Huge pages are faulted in with far fewer faults.
    faults = [one["runs"][0]["minor_faults"] for one in found["settings"]]
    assert faults[1] < faults[0] / 2
    assert comparison["verdict"] in ran.out
    for word in ("wall", "user", "kernel", "thp beside 4k"):
        assert word in ran.out
    assert ran.err.count("counters") == (1 if found["counters"] else 0)


def test_the_limit_is_kept_where_the_interval_is_not_reached(cli: Cli) -> None:
    # On a slow computer even `true` takes 10 ms, most of them to start. The time that this one prints is always less.
    printed = "echo took 0.00$(date +%N | cut -c 1-7) s"
    ran = cli(
        *("try", "--settings", "4k,asis", "--pairs", "6", "--until", "0.0001%", "--json"),
        *("--time", "took ([0-9.]+) s", "--", "sh", "-c", printed),
    )
    assert ran.code == 0, ran.err
    found = ran.json()
    assert found["reached"] is False
    assert len(found["settings"][0]["runs"]) == 6
    assert "--until was not reached" in ran.err
    assert found["comparisons"][0]["verdict"].startswith("too short")


def test_the_alternation_ends_when_the_interval_is_narrow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steady = process.Run(1.0, 0.9, 0.05, 1, 1, 0)
    monkeypatch.setattr(pairs, "run", lambda *_: steady)
    found = pairs.measure(Program(["true"]), [BY_NAME["4k"], BY_NAME["asis"]], pairs.Limits(100, 0.03))
    assert (found["reached"], found["stopped"]) == (True, "interval")
    assert len(found["settings"][0]["runs"]) == pairs.SETTLED


def test_the_alternation_ends_when_its_seconds_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1.0, 2.0] * 100)
    monkeypatch.setattr(pairs, "run", lambda *_: process.Run(next(times), 0.9, 0.05, 1, 1, 0))
    # Each look at the clock is a second later.
    clock = iter(range(1000))
    monkeypatch.setattr(pairs.time, "monotonic", lambda: float(next(clock)))
    limits = pairs.Limits(100, 0.0, seconds=8)
    found = pairs.measure(Program(["true"]), [BY_NAME["4k"], BY_NAME["asis"]], limits)
    assert (found["reached"], found["stopped"]) == (False, "seconds")
    assert len(found["settings"][0]["runs"]) >= pairs.FEWEST


def test_the_time_that_counts_is_the_one_whose_interval_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # Wall times scatter between 1 and 3 s, user times do not.
    walls = iter([1.0, 3.0, 2.0] * 100)
    monkeypatch.setattr(pairs, "run", lambda *_: process.Run(next(walls), 0.9, 0.05, 1, 1, 0))
    for key, stopped in (("user_s", "interval"), ("wall_s", "pairs")):
        found = pairs.measure(Program(["true"]), [BY_NAME["4k"], BY_NAME["asis"]], pairs.Limits(12, 0.03, time=key))
        assert found["stopped"] == stopped


def test_layouts_have_none_all_and_then_windows_of_whole_pages() -> None:
    found = stopwatch.mosaics.layouts(10, 8)
    assert found[:2] == [(), ((0, 10 * stopwatch.mosaics.LARGE),)]
    assert len(found) == 8
    for ((start, end),) in found[2:]:
        assert 0 <= start < end <= 10 * stopwatch.mosaics.LARGE
        assert start % stopwatch.mosaics.LARGE == end % stopwatch.mosaics.LARGE == 0
    # Windows from the start grow.
    growing = [parts[0][1] for parts in found[2::2]]
    assert growing == sorted(growing)
    assert found == stopwatch.mosaics.layouts(10, 8)
    assert stopwatch.mosaics.layouts(1, 2) == [*found[:1], ((0, stopwatch.mosaics.LARGE),)]


@needs_thp
def test_a_mosaic_has_large_pages_in_its_parts_and_nowhere_else(build: Build, cli: Cli) -> None:
    program = build(TOUCH, "-O1")
    ran = cli("try", "--mosaics", "4", "--pairs", "1", "--json", "--", program, "32", "200")
    assert ran.code == 0, ran.err
    found = ran.json()["settings"]
    assert [one["name"] for one in found] == ["mosaic-0", "mosaic-1", "mosaic-2", "mosaic-3"]
    huge = [one["in_force"]["bytes"]["AnonHugePages"] for one in found]
    assert huge[0] == 0
    assert found[0]["huge_parts"] == []
    # The same pool at the same addresses, so that the parts mean the same in each run.
    assert len({str(one["in_force"]["pool"]) for one in found}) == 1
    ((offset, start, end),) = found[0]["in_force"]["pool"]
    assert offset == 0
    assert end - start >= 32 << 20
    for one, seen in zip(found, huge, strict=True):
        assert seen <= sum(end - start for start, end in one["huge_parts"])
    assert huge[1] >= 16 << 20
    # Below six mosaics there is no model.
    assert "model" not in ran.json()


@needs_thp
def test_memory_that_a_program_maps_itself_is_in_the_pool(build: Build, cli: Cli) -> None:
    ran = cli("try", "--mosaics", "3", "--pairs", "1", "--json", "--", build(OWN, "-O1"))
    assert ran.code == 0, ran.err
    none, whole, window = ran.json()["settings"]
    assert [none["in_force"]["bytes"]["AnonHugePages"], none["huge_parts"]] == [0, []]
    pool = whole["in_force"]["pool"]
    # The heap, then what the program maps, each behind the one before.
    assert len(pool) > 1
    assert all(left[0] + left[2] - left[1] <= right[0] for left, right in itertools.pairwise(pool))
    assert whole["in_force"]["bytes"]["AnonHugePages"] >= 48 << 20
    assert 0 < window["in_force"]["bytes"]["AnonHugePages"] < whole["in_force"]["bytes"]["AnonHugePages"]


def test_parts_of_a_pool_have_addresses_in_its_segments() -> None:
    large = stopwatch.mosaics.LARGE
    # A heap of three blocks, then a mapping of two; the heap's last block does not fit.
    report = {
        f"segment_{3 * large:x}": f"{100 * large:x}-{102 * large:x}",
        "segment_0": f"{8 * large:x}-{10 * large:x}",
    }
    pool = stopwatch.mosaics.segments(report)
    assert [segment.offset for segment in pool] == [0, 3 * large]
    assert stopwatch.mosaics.addresses([(0, large)], pool) == [(8 * large, 9 * large)]
    across = [(large, 4 * large)]
    assert stopwatch.mosaics.addresses(across, pool) == [(9 * large, 10 * large), (100 * large, 101 * large)]
    assert stopwatch.mosaics.addresses([(2 * large, 3 * large)], pool) == []
    small = {"segment_0": f"{8 * large:x}-{9 * large:x}"}
    assert stopwatch.mosaics.largest([small, report, {}]) == pool


@pytest.mark.parametrize(("whole", "why"), [(4 << 20, "the kernel refused"), (0, "none of its code is 2 MB long")])
def test_code_that_was_not_moved_says_why(whole: int, why: str) -> None:
    """The kernel refuses where the pool has too few pages; shorter code is never asked for."""
    text = moved.Text((2 << 20) - 4096, (2 << 20) + whole + 4096, 0, 0, (), "/bin/program")
    force = {"preloaded": True, "code_moved": 0, "code_whole": moved.whole([text])}
    assert force["code_whole"] == whole
    one: Json = {"name": "code-hugetlb", "wants": ["code-hugetlb"], "in_force": force, "runs": []}
    (said,) = report.remarks({"settings": [one]})
    assert said.startswith(f"code-hugetlb: {why}")


def test_a_program_of_another_allocator_has_no_mosaic() -> None:
    force = {"preloaded": True, "code_moved": 0, "pool": []}
    one: Json = {"name": "mosaic-1", "wants": ["mosaic"], "in_force": force, "runs": []}
    assert report.remarks({"settings": [one]}) == [
        "mosaic-1: the program maps no 2 MB through libc, so it had no mosaic"
    ]


def test_a_failing_program_names_its_exit_code_and_keeps_the_pairs_before_it(cli: Cli, tmp_path: Path) -> None:
    # Two runs that do not count and three pairs succeed; then it fails.
    script = "echo >> count; test $(wc -l < count) -lt 9 || exit 9"
    ran = cli("try", "--settings", "4k,asis", "--pairs", "10", "--out", "kept.json", "--", "sh", "-c", script)
    assert ran.code == 1
    assert "exit code 9" in ran.err
    assert "the 3 pairs before it are kept" in ran.err
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert [len(one["runs"]) for one in kept["settings"]] == [3, 3]


def test_mistakes_are_refused_before_anything_runs(cli: Cli, tmp_path: Path) -> None:
    assert "no such program" in cli("try", "--", "./missing").err
    (tmp_path / "plain").write_text("")
    assert "may not be executed" in cli("try", "--", "./plain").err
    for args in (["try"], ["try", "--", "./missing"], ["try", "--until", "0", "--", "true"]):
        assert cli(*args).code == 2
    ran = cli("try", "--port", "80", "--", "true")
    assert ran.code == 2
    assert "--bench" in ran.err


def test_interrupted_it_keeps_what_it_has_and_leaves_no_program_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mmulab", "try", "--settings", "4k,asis", "--out", "kept.json", "--"]
    command += ["sh", "-c", "echo $$ >> pids; sleep 0.05; test $(wc -l < pids) -lt 7 || exec sleep 1000"]
    for name in ("SIGTERM", "SIGINT"):
        pids = tmp_path / "pids"
        pids.unlink(missing_ok=True)
        with subprocess.Popen(
            command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            until = time.monotonic() + 60
            while time.monotonic() < until and (not pids.exists() or len(pids.read_text().split()) < 7):
                time.sleep(0.02)
            child.send_signal(signal.Signals[name])
            _, said = child.communicate(timeout=60)
        assert child.returncode == 130, said
        assert "interrupted after 2 pairs" in said
        assert json.loads((tmp_path / "kept.json").read_text())["ended"] == "interrupted"
        assert not _alive(int(pids.read_text().split()[-1]))


SERVER = """
import socket
listening = socket.create_server(("127.0.0.1", PORT))
print("ready", flush=True)
while True:
    one, _ = listening.accept()
    one.sendall(bytes(sum(range(20000)) % 7 for _ in range(20)))
    one.close()
"""
CLIENT = """
import socket
for _ in range(5):
    socket.create_connection(("127.0.0.1", PORT)).recv(100)
"""


def test_a_server_is_timed_by_its_client_and_stopped(cli: Cli, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "server.py").write_text(SERVER.replace("PORT", str(port)))
    (tmp_path / "client.py").write_text(CLIENT.replace("PORT", str(port)))
    args = ["try", "--settings", "4k,asis", "--pairs", "2", "--port", str(port), "--json"]
    server = ["--", sys.executable, "server.py"]
    ran = cli(*args, "--bench", f"{sys.executable} client.py", *server)
    assert ran.code == 0, ran.err
    found = ran.json()
    for one in found["settings"]:
        assert len(one["runs"]) == 2
        assert all(run["wall_s"] > 0 and run["user_s"] > 0 for run in one["runs"])
        assert one["in_force"]["bytes"]["Rss"] > 1 << 20
    # The port is free again: nothing was left behind.
    import socket

    socket.create_server(("127.0.0.1", port)).close()
    failing = cli(*args, "--bench", "echo broken >&2; exit 3", *server)
    assert failing.code == 1
    assert "the client failed" in failing.err
    assert "exit code 3: broken" in failing.err
    ended = cli("try", "--settings", "4k,asis", "--bench", "true", "--", "sh", "-c", "echo no >&2; exit 4")
    assert ended.code == 1
    assert "the server ended with exit code 4: no" in ended.err


def test_counters_count_a_child_from_its_program_on(tmp_path: Path) -> None:
    # Page faults are a software event (linux/perf_event.h), which virtual machines have too.
    with counters.Counters({"faults": (1, 2)}) as counted:
        if counted.why:
            pytest.skip(counted.why)
        assert counted.read() == {"faults": 0}
        subprocess.run(["true"], check=True)
        assert counted.read()["faults"] > 10
    with counters.Counters({"none": (77, 1)}) as refused:
        assert refused.files == {}
        assert str(refused.why).startswith("none: ")


def test_memory_that_comes_late_from_the_host_is_said(tmp_path: Path) -> None:
    for name, number, features in (("virtio0", "0x0005", "0110010"), ("virtio1", "0x0002", "1111111")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "device").write_text(number + "\n")
        (tmp_path / name / "features").write_text(features + "\n")
    assert late.reports_free_pages(tmp_path)
    # A balloon that did not agree to it, a disk, and no devices at all.
    (tmp_path / "virtio0" / "features").write_text("0110000\n")
    assert not late.reports_free_pages(tmp_path)
    assert not late.reports_free_pages(tmp_path / "none")

    def said(memory: int) -> list[str]:
        force = {"preloaded": True, "code_moved": 0, "bytes": {"Anonymous": memory}}
        one: Json = {"name": "4k", "wants": [], "in_force": force, "runs": []}
        return report.remarks({"settings": [one], "free_page_reporting": True})

    assert said(1 << 20) == []
    (only,) = said(1 << 30)
    assert "waits for its 1 GB at first accesses" in only


def test_what_the_kernel_did_meanwhile_is_said() -> None:
    one: Json = {"name": "thp", "wants": ["anon"], "in_force": {"preloaded": True, "code_moved": 0}}
    one["runs"] = [{"vmstat": {"thp_collapse_alloc": 2, "thp_fault_fallback": 3}}] * 2
    said = report.remarks({"settings": [one]})
    assert any("collapsed 4 times 2 MB" in text for text in said)
    assert not any("busy" in text for text in said)
    busy = report.remarks({"settings": [one], "load_average": 9.0, "cpus": 2})
    assert any("this computer is busy (load average 9.0 on 2 CPUs)" in text for text in busy)
    assert any("6 times the kernel had no free 2 MB block" in text for text in said)
