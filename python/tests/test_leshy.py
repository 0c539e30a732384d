"""Profiles of TLB misses, and the page sizes selected from them."""

import itertools
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import Bench
from conftest import SMALL, Cli

from mmulab import Failure, UserError, engine
from mmulab.engine import Job, Options
from mmulab.leshy import integer
from mmulab.leshy.optimum import optimum
from mmulab.leshy.profile import Selection, profiled, sampling, select

GUPS = "gen:gups?footprint=64M&updates=20000"
N1 = Job("neoverse-n1", "linux-4k")
SIZES = {"4K": 1, "64K": 16, "2M": 512, "32M": 8192}
WHOLE = 100_000


def rows(path: Path) -> list[tuple[int, int, int, int, int]]:
    """The pages of a profile file."""
    lines = path.read_text().splitlines()[1:]
    return [(int(p), int(m), int(a, 16), int(n), int(c)) for p, m, a, n, c in map(str.split, lines)]


def plain(result: Any) -> dict[str, Any]:
    """A result without what was asked for."""
    return {key: value for key, value in result.data.items() if key not in ("options", "assumptions")}


def test_a_period_of_one_samples_every_walk(tmp_path: Path) -> None:
    """S2-M007: the samples are the references that walk, with the latencies of their walks."""
    unsampled = engine.run(GUPS, [N1]).results[0]
    with profiled(GUPS, N1, Options(sampling=sampling(1)), save=tmp_path / "p") as profile:
        found, head, result = rows(profile.misses), profile.head(), profile.result
    assert result is not None
    walks = result.data["counts"]["walks"]
    walked = walks["instruction"]["walks"] + walks["data"]["walks"] - walks["replays"]
    assert sum(row[3] for row in found) == head["samples"] == head["walked"] == walked
    assert sum(row[4] for row in found) == walks["instruction"]["cycles"] + walks["data"]["cycles"]
    # Samples change nothing that is counted or timed.
    assert plain(result) == plain(unsampled)
    assert head["tlb"] == [{"sizes": ["4K", "64K", "2M", "32M", "1G"], "entries": 1280}]
    # Nearly all misses are in the table, which is the largest mapping.
    largest = max(head["mappings"], key=lambda m: int(str(m["end"]), 0) - int(str(m["start"]), 0))
    assert sum(row[3] for row in found if row[1] == largest["id"]) > 0.9 * walked


def test_a_period_samples_one_of_as_many_and_costs_what_is_stated() -> None:
    """S2-M007: the cost of a sample is part of the program's time."""
    job = Options(sampling=sampling(100, cycles=5000.0))
    with profiled(GUPS, N1, job) as costly, profiled(GUPS, N1, Options(sampling=sampling(100))) as free:
        head = costly.head()
        assert head["samples"] == head["walked"] // 100 == free.head()["samples"]
        cycles = [p.result.data["model"]["cycles"]["kernel"] for p in (costly, free) if p.result]
        assert cycles[0] - cycles[1] == pytest.approx(5000 * head["samples"], abs=1)
    # The value that no source states is among the assumptions while it is not given.
    places = [[a["where"] for a in p.result.data["assumptions"]] for p in (costly, free) if p.result]
    assert ["options.sampling" in found for found in places] == [False, True]


def test_accessed_bits_are_seen_once_an_epoch(bench: Bench) -> None:
    """S2-M048: a page counts once for each epoch in which a walk set its bit; a huge page counts at its head."""
    # More pages than the TLB has entries, in turn: every access walks.
    pages = range(0x4000_0000, 0x4000_0000 + 4096 * 4096, 4096)
    path = bench.write("t.mmtx", "mmap 0x40000000 16M rw anon\n" + "".join(f"w {va:#x}\n" for va in pages) * 3)
    for policy, size in (("linux-4k", 4096), ("linux-thp", 2 << 20)):
        options = Options(sampling=sampling(1, accessed_ms=1e6))
        with profiled(path, Job("neoverse-n1", policy), options) as profile:
            assert profile.accessed is not None
            found = rows(profile.accessed)
        # One epoch: the run takes far less than 1000 seconds.
        assert {row[2] % size for row in found} == {0}
        assert [row[3] for row in found] == [1] * (16 * 1024 * 1024 // size)


def write(path: Path, pages: dict[int, int], entries: int) -> Path:
    """A profile file of these pages: its rows in random order."""
    head = {
        "format": "mmulab-misses",
        "version": 1,
        "trace": "t",
        "machine": "m",
        "policy": "p",
        "sampler": "misses",
        "period": 1,
        "walked": sum(pages.values()),
        "samples": sum(pages.values()),
        "tlb": [{"sizes": list(SIZES), "entries": entries}],
        "mappings": [],
    }
    lines = [f"1 0 {page << 12:x} {misses} {misses * 40}" for page, misses in pages.items()]
    random.Random(len(lines)).shuffle(lines)
    path.write_text(json.dumps(head, separators=(",", ":")) + "\n" + "\n".join(lines) + "\n")
    return path


def best(pages: dict[int, int], entries: int, target: int) -> int | None:
    """The least bytes of any selection, by trying all of them."""
    wanted = -(-sum(pages.values()) * target // WHOLE)

    def ways(level: int, inside: dict[int, int]) -> Iterator[tuple[int, int, int]]:
        """Entries, misses and bytes of every selection within one page of a size."""
        order = list(SIZES.values())[level]
        yield 1, sum(inside.values()), order * 4096
        yield from split(level, inside) if level else [(0, 0, 0)]

    def split(level: int, inside: dict[int, int]) -> Iterator[tuple[int, int, int]]:
        order = list(SIZES.values())[level - 1]
        parts: dict[int, dict[int, int]] = {}
        for page, misses in inside.items():
            parts.setdefault(page // order, {})[page] = misses
        for choice in itertools.product(*(set(ways(level - 1, part)) for part in parts.values())):
            yield sum(c[0] for c in choice), sum(c[1] for c in choice), sum(c[2] for c in choice)

    found = [b for n, m, b in split(len(SIZES), pages) if n <= entries and m >= wanted]
    return min(found, default=None)


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_that_of_a_search_through_all_selections(seed: int, tmp_path: Path) -> None:
    """S2-M036: the integer program finds the least bytes; no heuristic is below it, and all meet the constraints."""
    pytest.importorskip("scipy")
    rng = random.Random(seed)
    # Pages that often share a page of some larger size.
    places = [0, 1, 17, 20, 530, 531, 560, 9000, 9001, 20_000]
    pages = {page: rng.randint(1, 30) for page in rng.sample(places, rng.randint(3, 8))}
    entries, target = rng.randint(1, 6), rng.choice([50_000, 90_000, 99_990, WHOLE])
    least = best(pages, entries, target)
    asked = {"target": target, "slack": 100}
    path = write(tmp_path / "p", pages, entries)
    if least is None:
        with pytest.raises(UserError, match="no selection covers the target"):
            optimum(path, asked, 60.0)
        return
    found = optimum(path, asked, 60.0)
    assert (found.bytes, found.bound, found.gap) == (least, least, 0.0)
    for method in ("artifact", "paper"):
        try:
            made = select(path, {**asked, "method": method})
        except UserError:
            # No size alone reaches the target with these entries, though a mix of sizes does.
            assert method == "paper"
            continue
        assert made.bytes >= least or made.data["raised"]
        check(made, pages, made.data["raised"] or entries, target)
    check(found, pages, entries, target)


def check(made: Selection, pages: dict[int, int], entries: int, target: int) -> None:
    """S2-023, S2-024: coverage, number of entries, and no overlap. Hints leave the entries of 4K out."""
    assert sum(made.by_size.values()) <= entries
    assert made.covered * WHOLE >= target - 1e-9
    taken: set[int] = set()
    for hint in made.hints:
        first = int(str(hint["start"]), 0) >> 12
        own = set(range(first, first + SIZES[hint["size"]])) & set(pages)
        assert not own & taken
        assert sum(pages[page] for page in own) == hint["misses"]
        taken |= own
    weights = [hint["misses"] for hint in made.hints]
    assert weights == sorted(weights, reverse=True)


@pytest.mark.parametrize(
    ("does", "said"), [("exec sleep 60", None), ("echo no memory >&2; exit 3", "exit code 3: no memory")]
)
def test_a_large_program_is_solved_in_its_time_or_not_at_all(
    does: str, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The solver has a process of its own, which is ended."""
    pytest.importorskip("scipy")
    solver = tmp_path / "python"
    solver.write_text(f"#!/bin/sh\n{does}\n")
    solver.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(solver))
    monkeypatch.setattr(integer, "GRACE", 0.3)
    problem = {"levels": [{"pages": list(range(integer.SMALL + 1))}]}
    if said is not None:
        with pytest.raises(Failure, match=said):
            integer.solve(problem, 0.1)
        return
    begun = time.monotonic()
    assert integer.solve(problem, 0.1) == (None, 0)
    assert time.monotonic() - begun < 30


def test_a_large_optimum_has_a_bound(tmp_path: Path) -> None:
    """In too short a time, the answer is a heuristic's or the solver's best, with a bound below it."""
    pytest.importorskip("scipy")
    rng = random.Random(1)
    pages = {rng.randrange(1 << 18): rng.randint(1, 9) for _ in range(3000)}
    path = write(tmp_path / "p", pages, 200)
    asked = {"target": 99_990, "slack": 100}
    made, heuristic = optimum(path, asked, 5.0), select(path, {**asked, "method": "paper"})
    assert made.bound is not None
    assert 0 < made.bound <= made.bytes <= heuristic.bytes


def test_the_command_profiles_selects_and_draws(cli: Cli) -> None:
    made = cli("leshy", GUPS, "--target", "90%", "--entries", "40", "--out", "h", "--save", "p", "--plot", "p.svg")
    assert made.code == 0, made.err
    assert "cover 9" in made.out
    hints = json.loads((cli.cwd / "h").read_text())
    assert (hints["format"], hints["version"]) == ("mmulab-hints", 1)
    assert hints["source"]["entries"] == 40
    drawn = (cli.cwd / "p.svg").read_text()
    assert "TLB misses by 2 MB" in drawn
    assert "epochs in which pages were accessed" in drawn
    # A profile that was kept gives the same hints.
    again = cli("leshy", "p", "--target", "90%", "--entries", "40", "--json")
    assert again.json() == hints
    # By accessed bits, of another profile.
    accessed = cli("leshy", GUPS, "--sampler", "accessed", "--save-accessed", "a", "--json")
    assert accessed.json()["source"]["sampler"] == "accessed"
    assert cli("leshy", "a", "--sampler", "accessed", "--json").json() == accessed.json()


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["--target", "0%"], "is not a share of the misses"),
        (["--target", "101%"], "is not a share of the misses"),
        (["--entries", "0"], "give 1 to"),
        (["--entries", "5K=3"], "is not a page size"),
        (["--sizes", "4K,3M"], "'3M' is not a page size"),
        (["--sizes", "4K,4K"], "each once"),
        (["--entries", "9", "--slack", "10"], "room for no translation"),
        (["--entries", "4K=3", "--sizes", "4K,2M"], "the page size 2M is in 0 budgets"),
        (["--entries", "1", "--sizes", "4K"], "give at least"),
        (["--max-instructions", "0"], "has no samples"),
    ],
)
def test_mistakes_are_named(args: list[str], what: str, cli: Cli) -> None:
    ran = cli("leshy", SMALL, "--sizes", "4K,64K", *args)
    assert ran.code == 2, ran.err
    assert what in " ".join(ran.err.split())


def test_traces_of_misses_are_refused(cli: Cli) -> None:
    assert cli("run", "skylake-e3-1240v5", "--trace", SMALL, "--misses", "m.mmt").code == 0
    ran = cli("leshy", "m.mmt")
    assert (ran.code, "holds misses only" in ran.err) == (2, True)
    (cli.cwd / "bad").write_text('{"format":"mmulab-misses","version":7}\n')
    ran = cli("leshy", "bad")
    assert (ran.code, "bad:1:" in ran.err) == (2, True)


def test_hints_are_given_to_the_kernel_of_a_later_run(cli: Cli) -> None:
    """S2-M038, the user's half: the trace of the run contains them before the mapping they are for."""
    made = cli("leshy", GUPS, "--target", "50%", "--entries", "30", "--out", "h")
    assert made.code == 0, made.err
    hints = json.loads((cli.cwd / "h").read_text())["hints"]
    plain_run = cli("run", "neoverse-n1", "--trace", GUPS, "--json").json()
    hinted = cli("run", "neoverse-n1", "--trace", GUPS, "--hints", "h", "--json").json()
    assert hinted["trace"]["reshaped"]["hints"]["hints"] == len(hints) > 0
    # A policy that does not obey them maps what it maps without.
    assert hinted["counts"]["tlb"] == plain_run["counts"]["tlb"]
    syscalls = [run["counts"]["kernel"]["work"]["syscall"] for run in (plain_run, hinted)]
    assert syscalls[1] - syscalls[0] == len(hints)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "not a hint file"),
        ('{"format": "mmulab-hints", "version": 2}', "hints of version 2"),
        ('{"format": "other", "version": 1}', 'its format is "other"'),
        ('{"format": "mmulab-hints", "version": 1, "hints": []}', "missing field"),
    ],
)
def test_what_is_no_hint_file_is_refused(text: str, what: str, cli: Cli) -> None:
    (cli.cwd / "h").write_text(text)
    ran = cli("run", "neoverse-n1", "--trace", SMALL, "--hints", "h")
    assert (ran.code, what in " ".join(ran.err.split())) == (2, True), ran.err


def test_the_experiment_compares_three_methods(cli: Cli) -> None:
    """Each row's best selection is between the bound and the heuristics'."""
    ran = cli("reproduce", "leshy", "--quick", "--seconds", "1", "--json")
    assert ran.code == 0, ran.err
    for row in ran.json():
        found = row["methods"]["optimum"]
        assert row["bound"] <= found["bytes"]
        assert all(made["covered"] >= 0.9999 for made in row["methods"].values())
        for name in ("artifact", "paper"):
            if name in row["methods"] and row["methods"][name]["raised"] is None:
                assert found["bytes"] <= row["methods"][name]["bytes"]
