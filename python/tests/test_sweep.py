"""Sweeps: each result is that of a lone run and is kept, and tables do not depend on the order in which jobs end."""

import contextlib
import itertools
import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT, Cli
from sweeps import MACHINE, SMALL, SMALL_JOBS, TRACES, kept, written

from mmulab import UserError, engine, extras, sweep
from mmulab.sweep import conduct, pools, work
from mmulab.sweep.batches import Batch, batches
from mmulab.sweep.pools import Answer, Here
from mmulab.sweep.store import Store


def small(tmp_path: Path) -> sweep.Plan:
    return sweep.plan(sweep.read(written(tmp_path, SMALL)))


def test_each_result_is_that_of_its_lone_run(tmp_path: Path) -> None:
    plan = small(tmp_path)
    assert len(plan.jobs) == SMALL_JOBS
    outcome = sweep.run(plan, tmp_path / "out", workers=1)
    assert (outcome.ran, outcome.kept, outcome.failed, outcome.short) == (SMALL_JOBS, 0, [], [])
    store = Store(tmp_path / "out")
    rows = sweep.Results(tmp_path / "out").query("SELECT * FROM jobs ORDER BY job")
    for job, row in zip(plan.jobs, rows.rows, strict=True):
        (lone,) = engine.run(job.trace, [job.job], job.options).results
        found = store.load(job.key)
        assert found is not None
        assert found.data == lone.data
        told = dict(zip(rows.columns, row, strict=True))
        assert {name: told[name] for name in job.values} == job.values
        assert told["walks"] == lone.walk_count > 0
        assert told["l2d_misses"] == lone.tlb("l2d")["misses"]
        assert told["cycles"] == lone.total_cycles
        assert told["accesses_per_walk"] == lone.accesses_per_walk


def test_a_recording_is_known_by_its_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy has the same results; a changed file has others."""
    monkeypatch.chdir(tmp_path)
    given = {"axes": {"trace": ["a.mmtx", "b.mmtx"], "machine": MACHINE}}
    text = "mmap 0x400000 64K rx file:/bin/p+0\nf 0x400000 x100\nf 0x401000 x100\n"
    for name in ("a.mmtx", "b.mmtx"):
        Path(name).write_text(text)
    plan = sweep.plan(sweep.parse(given))
    assert len({job.key for job in plan.jobs}) == 1
    assert sweep.run(plan, workers=1).ran == 2
    assert len(kept(tmp_path / "sweep-sweep")) == 1
    assert len(sweep.Results("sweep-sweep").query("SELECT key FROM jobs").rows) == 2
    Path("b.mmtx").write_text(text + "f 0x402000 x100\n")
    changed = sweep.plan(sweep.parse(given))
    assert changed.jobs[0].key == plan.jobs[0].key != changed.jobs[1].key


def test_a_key_depends_on_all_that_the_result_depends_on() -> None:
    axes = {"trace": TRACES[0], "machine": MACHINE}
    given: list[dict[str, Any]] = [
        {"axes": axes},
        {"axes": {**axes, "trace": TRACES[1]}},
        {"axes": {**axes, "policy": "linux-thp"}},
        {"axes": {**axes, "seed": 1}},
        {"axes": axes, "set": {"tlb.STLB.hit_cycles": 9}},
        {"axes": axes, "options": {"max_instructions": "1k"}},
    ]
    keys = [sweep.plan(sweep.parse(data)).jobs[0].key for data in given]
    assert len(set(keys)) == len(given)
    assert sweep.plan(sweep.parse(given[0])).jobs[0].key == keys[0]


def test_all_seeds_share_one_decoding_and_count_as_the_option_does(tmp_path: Path) -> None:
    axes = {"trace": TRACES[0], "machine": MACHINE, "policy": "linux-thp", "seed": [3, 4]}
    plan = sweep.plan(sweep.parse({"axes": axes, "set": {"memory.aged": "used"}}))
    assert len(batches(plan.jobs, 1, 16)) == 1
    sweep.run(plan, tmp_path, workers=1)
    counts = []
    for job, seed in zip(plan.jobs, (3, 4), strict=True):
        alone = engine.run(
            job.trace, [engine.Job(MACHINE, "linux-thp", ("memory.aged=used",))], engine.Options(seed=seed)
        )
        found = Store(tmp_path).load(job.key)
        assert found is not None
        assert found.counts == alone.results[0].counts
        counts.append(found.counts)
    assert counts[0] != counts[1]


@pytest.mark.parametrize("policy", ["linux-4k", "linux-thp"])
def test_jobs_that_share_the_first_level_have_the_results_that_they_have_alone(policy: str) -> None:
    trace = str(Path(__file__).parents[2] / "tests/data/cc1-small.mmt")
    keys = [("tlb.STLB.entries=1536",), ("tlb.STLB.entries=96",), ("tlb.STLB.hit_cycles=40", "walker.count=1")]
    jobs = [engine.Job(MACHINE, policy, sets) for sets in keys]
    options = engine.Options(max_instructions=5_000_000)
    together = engine.run(trace, jobs, options).whole()
    alone = [engine.run(trace, [job], options).whole()[0] for job in jobs]
    assert [result.data for result in together] == [result.data for result in alone]
    # They differ, and not in the first level.
    levels = [(result.counts["tlb"]["l1d"], result.counts["tlb"]["l2d"]) for result in together]
    assert levels[0][0] == levels[1][0]
    assert levels[0][1] != levels[1][1]


def test_a_job_that_parts_from_the_others_is_run_again(tmp_path: Path) -> None:
    """A store that its page's rights forbid: a second level that has the page fills the first, and a walk does not."""
    start = 0x7F0000000000
    pages = [start + (page << 12) for page in range(81)]
    lines = [f"mmap {start:#x} 2M r anon", *(f"r {page:#x}" for page in pages), f"w {start:#x}", f"r {start:#x}"]
    trace = tmp_path / "forbidden.mmtx"
    trace.write_text("\n".join(["#: isa x86-64", *lines]) + "\n")
    jobs = [engine.Job(MACHINE, "linux-4k", (f"tlb.STLB.entries={entries}",)) for entries in (1536, 12, 768)]
    together = engine.run(str(trace), jobs).whole()
    alone = [engine.run(str(trace), [job]).whole()[0] for job in jobs]
    assert [result.data for result in together] == [result.data for result in alone]
    # The last load hits the first level where the store's second level had the page.
    hits = [result.counts["tlb"]["l1d"]["hits"] for result in together]
    assert hits == [1, 0, 1]


def test_jobs_of_one_first_level_come_in_one_batch() -> None:
    axes = {
        "trace": TRACES[0],
        "machine": MACHINE,
        "first": {"key": "tlb.DTLB-4K.ways", "values": [4, 8]},
        "second": {"key": "tlb.STLB.hit_cycles", "values": list(range(1, 21))},
    }
    plan = sweep.plan(sweep.parse({"axes": axes}))
    assert len({job.first_level for job in plan.jobs}) == 2
    given = batches(plan.jobs, 2)
    assert [len({job.first_level for job in batch.jobs}) for batch in given] == [1, 1]
    assert {job.key for batch in given for job in batch.jobs} == {job.key for job in plan.jobs}


def test_what_is_kept_is_not_run_again(tmp_path: Path) -> None:
    """Not even when the sweep grows; a damaged file is run again."""
    directory = tmp_path / "out"
    plan = small(tmp_path)
    sweep.run(plan, directory, workers=1)
    before = kept(directory)
    again = sweep.run(plan, directory, workers=1)
    assert (again.ran, again.kept) == (0, SMALL_JOBS)
    more = sweep.plan(sweep.parse({"axes": {**_axes(SMALL), "seed": [0, 1]}, "constraints": ["entries % ways == 0"]}))
    grown = sweep.run(more, directory, workers=1)
    # A seed is a key of its own: `memory.seed=0` is another description than none.
    assert (grown.ran, grown.kept) == (len(more.jobs), 0)
    damaged = directory / "runs" / f"{plan.jobs[0].key}.json"
    damaged.write_text(damaged.read_text()[:100])
    last = sweep.run(plan, directory, workers=1)
    assert (last.ran, last.kept) == (1, SMALL_JOBS - 1)
    assert {name for name, when in kept(directory).items() if before.get(name) == when} == set(before) - {damaged.name}


def _axes(text: str) -> dict[str, Any]:
    from mmulab.sweep.file import tomllib

    axes: dict[str, Any] = tomllib.loads(text)["axes"]
    return axes


class Backwards(Here):
    """Runs the last batch first."""

    def run(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, Answer]]:
        yield from super().run(batches[::-1])


def test_tables_have_the_same_bytes_in_any_order_of_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small(tmp_path)
    sweep.run(plan, tmp_path / "one", workers=1)
    monkeypatch.setattr(conduct, "Here", Backwards)
    ended: list[str] = []
    sweep.run(plan, tmp_path / "two", workers=1, batch=1, announce=lambda _, __, batch: ended.append(batch.jobs[0].key))
    assert ended == [job.key for job in plan.jobs][::-1]
    for name in ("results.parquet", "regions.parquet", "functions.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_columns_have_units_and_regions_add_up(tmp_path: Path) -> None:
    sweep.run(small(tmp_path), tmp_path / "out", workers=1)
    results = sweep.Results(tmp_path / "out")
    units = {(table, name): unit for table in ("jobs", "regions") for name, _, unit, _ in results.columns(table)}
    assert units["jobs", "cycles"] == "cycles"
    assert units["jobs", "l2d_mpki"] == "misses per 1000 instructions"
    assert units["regions", "resident_bytes"] == "bytes"
    assert all(meaning for table in ("jobs", "regions") for *_, meaning in results.columns(table))
    sums = "SELECT job, sum(walks), sum(l1d_misses) FROM regions GROUP BY job ORDER BY job"
    assert results.query(sums).rows == results.query("SELECT job, walks, l1d_misses FROM jobs ORDER BY job").rows


def test_a_job_has_the_area_of_its_tlbs(tmp_path: Path) -> None:
    """As `mmulab machines fit` states it; assignments to the policy do not matter."""
    axes = {
        "trace": TRACES[0],
        "machine": MACHINE,
        "policy": "linux-thp",
        "entries": {"key": "tlb.STLB.entries", "values": [768, 1536]},
        "zero": {"key": "policy.thp.zero_page", "values": [True, False]},
    }
    sweep.run(sweep.plan(sweep.parse({"axes": axes})), tmp_path, workers=1)
    rows = sweep.Results(tmp_path).query("SELECT entries, zero, tlb_area FROM jobs ORDER BY job").rows
    expected = {
        entries: sum(
            array["cells"] for array in engine.fit(MACHINE, None, sets=[f"tlb.STLB.entries={entries}"])["area"]
        )
        for entries in (768, 1536)
    }
    assert rows == [(entries, zero, expected[entries]) for entries in (768, 1536) for zero in (True, False)]
    assert expected[768] < expected[1536]


def test_samples_are_the_same_each_time_and_within_their_ranges() -> None:
    for method, points in itertools.product(("random", "sobol"), (1, 7, 16)):
        data = {
            "axes": {
                "trace": TRACES[0],
                "machine": MACHINE,
                "hit": {"key": "tlb.STLB.hit_cycles", "from": 5, "to": 12},
                "ways": {"key": "tlb.STLB.ways", "pick": [4, 8, 16]},
                "entries": {"key": "tlb.STLB.entries", "from": 512, "to": 2048, "step": 512},
                "cpi": {"key": "core.base_cpi", "from": 0.25, "to": 4.0, "scale": "log"},
            },
            "sample": {"method": method, "points": points, "seed": 5},
        }
        plan = sweep.plan(sweep.parse(data))
        assert len(plan.jobs) == points
        for job in plan.jobs:
            assert job.values["hit"] in range(5, 13)
            assert job.values["ways"] in (4, 8, 16)
            assert job.values["entries"] in (512, 1024, 1536, 2048)
            assert 0.25 <= float(job.values["cpi"]) <= 4
        assert [job.key for job in sweep.plan(sweep.parse(data)).jobs] == [job.key for job in plan.jobs]
        data["sample"]["seed"] = 6
        assert [job.key for job in sweep.plan(sweep.parse(data)).jobs] != [job.key for job in plan.jobs]


def test_a_sobol_sample_is_spread_evenly() -> None:
    """Of 16 points, one falls into each sixteenth of the range: random points do not do that."""
    axes = {"trace": TRACES[0], "machine": MACHINE, "cpi": {"key": "core.base_cpi", "from": 1, "to": 17.0}}
    drawn = {}
    for method in ("sobol", "random"):
        plan = sweep.plan(sweep.parse({"axes": axes, "sample": {"method": method, "points": 16}}))
        drawn[method] = {int(float(job.values["cpi"])) for job in plan.jobs}
    assert drawn["sobol"] == set(range(1, 17))
    assert drawn["random"] != drawn["sobol"]


def test_one_job_that_fails_does_not_fail_its_batch(tmp_path: Path) -> None:
    """Each of the others is run again alone."""
    plan = small(tmp_path)

    class Failing(Here):
        """Refuses each batch with one certain job."""

        def run(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, Answer]]:
            for batch, answer in super().run(batches):
                bad = any(job.key == plan.jobs[3].key for job in batch.jobs)
                yield batch, {"results": [], "error": "no room", "seconds": 0.0, "peak_bytes": 0} if bad else answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conduct, "Here", Failing)
        outcome = sweep.run(plan, tmp_path / "out", workers=1, batch=4)
    assert outcome.failed == [(plan.jobs[3].label, "no room")]
    assert outcome.ran == SMALL_JOBS - 1
    rows = sweep.Results(tmp_path / "out").query("SELECT job FROM jobs ORDER BY job").rows
    assert [number for (number,) in rows] == [n for n in range(SMALL_JOBS) if n != 3]


def test_a_job_that_ends_early_is_named_and_in_the_tables(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.mmtx").write_text("mmap 0x400000 64K rx file:/bin/p+0\nf 0x400000 x100\nr 0x900000\n")
    (tmp_path / "s.toml").write_text(
        f'[axes]\ntrace = ["bad.mmtx", "{TRACES[0]}"]\nmachine = "{MACHINE}"\n[options]\nunmapped = "stop"\n'
    )
    ran = cli("sweep", "s.toml", "--workers", "1")
    assert ran.code == 1
    assert "1 of 2 jobs ended early: (trace=bad.mmtx" in ran.err
    rows = sweep.Results(tmp_path / "sweep-s").query("SELECT complete, ended FROM jobs ORDER BY job").rows
    assert [complete for complete, _ in rows] == [False, True]


def test_what_a_query_asks_is_printed_in_three_forms(cli: Cli, tmp_path: Path) -> None:
    sweep.run(small(tmp_path), tmp_path / "out", workers=1)
    sql = "SELECT policy, count(*) AS jobs, sum(walks) AS walks FROM jobs GROUP BY policy ORDER BY policy"
    rows = cli("results", "query", "out", sql, "--format", "json").json()
    assert [(row["policy"], row["jobs"]) for row in rows] == [("linux-4k", 8), ("linux-thp", 4)]
    lines = cli("results", "query", "out", sql, "--format", "csv").out.splitlines()
    assert lines == ["policy,jobs,walks", *(f"{row['policy']},{row['jobs']},{row['walks']}" for row in rows)]
    assert f"{rows[0]['walks']:,}" in cli("results", "query", "out", sql).out
    odd = "SELECT sum(job) AS s, list(job) FILTER (job < 2) AS l, DATE '2020-01-01' AS d, 'nan'::DOUBLE AS n FROM jobs"
    assert cli("results", "query", "out", odd, "--format", "json").json() == [
        {"s": sum(range(SMALL_JOBS)), "l": [0, 1], "d": "2020-01-01", "n": None}
    ]
    whole = cli("results", "query", "out", "--format", "csv").out.splitlines()
    assert len(whole) == 1 + SMALL_JOBS
    listed = cli("results", "columns", "out", "--format", "json").json()
    assert {row["table"] for row in listed} == {"jobs", "regions", "functions"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("query", "out", "SELECT entrie FROM jobs"), "the query was refused"),
        (("query", "out", "SELECT * FROM read_text('sweep.toml')"), "the query was refused"),
        (("query", "out", "COPY jobs TO 'stolen.csv'"), "the query was refused"),
        (("query", "nothing"), "nothing: not the directory of a sweep"),
        (("plot", "out", "--x", "entrie", "--y", "walks"), "did you mean entries"),
        (("front", "out", "--least", "policy", "--least", "walks"), "policy has no numbers"),
        (("front", "out", "--least", "walks", "--most", "walks"), "walks was given twice"),
        (("front", "out"), "the front of which columns?"),
        (
            ("front", "out", "--least", "walks", "--plot", "a.svg"),
            "a picture of pairs needs 2 to 6 columns, not 1",
        ),
        (("plot", "out", "--x", "entries", "--y", "walks", "--most", "x"), "give --front too"),
        (("plot", "out", "--x", "policy", "--y", "walks", "--log", "x"), "leave out --log x"),
    ],
)
def test_a_mistake_in_a_question_is_named(tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    sweep.run(small(tmp_path), tmp_path / "out", workers=1)
    refused = Cli(tmp_path)("results", *args)
    assert refused.code == 2, refused.out
    assert said in " ".join(refused.err.split())
    assert not (tmp_path / "stolen.csv").exists()


def test_plots_are_the_same_each_time_and_have_a_series_for_each_value(cli: Cli, tmp_path: Path) -> None:
    sweep.run(small(tmp_path), tmp_path / "out", workers=1)
    options = ("--x", "entries", "--y", "l2d_miss_ratio", "--by", "policy", "--log", "x")
    texts = []
    for name in ("a.svg", "b.svg"):
        drawn = cli("results", "plot", "out", *options, "--out", name)
        assert drawn.code == 0, drawn.err
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]
    for word in ("policy linux-4k", "policy linux-thp", "misses per lookup"):
        assert word in texts[0]
    assert cli("results", "plot", "out", "--x", "table_bytes", "--y", "cycles", "--front").code == 0
    text = (tmp_path / "out" / "cycles-by-table_bytes.svg").read_text()
    assert "Pareto front" in text
    assert "table_bytes (bytes)" in text
    assert "cycles (cycles)" not in text


def test_a_dry_run_says_what_is_to_come_and_runs_nothing(cli: Cli, tmp_path: Path) -> None:
    written(tmp_path, SMALL)
    seen = cli("sweep", "sweep.toml", "--dry-run", "--json", "--workers", "2")
    assert seen.code == 0, seen.err
    told = seen.json()
    assert (told["combinations"], told["jobs"], told["kept"]) == (2 * 2 * 2 * 3, SMALL_JOBS, 0)
    assert [row["decodings"] for row in told["traces"]] == [2, 2]
    # Of three jobs each: four are under one policy, and two under the other.
    assert [row["first_levels"] for row in told["traces"]] == [3, 3]
    assert told["seconds"] > 0
    assert told["peak_bytes"] > 1 << 20
    assert all("measured now over its first" in source for source in told["sources"])
    assert not (tmp_path / "sweep-small").exists()
    assert cli("sweep", "sweep.toml", "--workers", "1").code == 0
    assert "Nothing is left to run" in cli("sweep", "sweep.toml", "--dry-run").out
    for path in (tmp_path / "sweep-small" / "runs").iterdir():
        path.unlink()
    later = cli("sweep", "sweep.toml", "--dry-run", "--json", "--workers", "1").json()
    assert all("from earlier batches: 1" in source for source in later["sources"])
    assert later["seconds"] > 0


def test_a_signal_that_the_engine_drops_still_ends_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small(tmp_path)

    def deaf(text: str) -> str:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return work.run_batch(text)

    monkeypatch.setattr(pools, "run_batch", deaf)
    with pytest.raises(sweep.Stopped, match=f"1 of {SMALL_JOBS} jobs are done and kept"):
        sweep.run(plan, tmp_path / "out", workers=1, batch=1)
    assert len(kept(tmp_path / "out")) == 1
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_sweep_that_was_extended_and_stopped_has_no_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of before would not have its jobs."""
    sweep.run(small(tmp_path), tmp_path, workers=1)
    more = sweep.plan(sweep.parse({"axes": {**_axes(SMALL), "seed": 1}, "constraints": ["entries % ways == 0"]}))

    def stopped(_: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(pools, "run_batch", stopped)
    with pytest.raises(sweep.Stopped):
        sweep.run(more, tmp_path, workers=1)
    with pytest.raises(UserError, match=r"no results\.parquet, because the sweep has not ended"):
        sweep.Results(tmp_path)


def test_a_full_disk_is_named_and_nothing_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that were kept before it was full stay."""
    plan = small(tmp_path)
    replace = Path.replace

    def full(path: Path, target: Path) -> Path:
        if len(kept(tmp_path / "out")) == 3 and path.parent.name == "runs":
            raise OSError(28, "No space left on device")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(Exception, match="No space left on device"):
        sweep.run(plan, tmp_path / "out", workers=1, batch=1)
    monkeypatch.undo()
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 3
    outcome = sweep.run(plan, tmp_path / "out", workers=1)
    assert (outcome.kept, outcome.ran) == (3, SMALL_JOBS - 3)


def test_a_shipped_recording_can_be_swept(tmp_path: Path) -> None:
    trace = str(CHECKOUT / "tests" / "data" / "cc1-small.mmt")
    given = {"axes": {"trace": trace, "machine": MACHINE}, "options": {"max_instructions": "200k", "skip": "1k"}}
    plan = sweep.plan(sweep.parse(given))
    sweep.run(plan, tmp_path, workers=1)
    (lone,) = engine.run(trace, [plan.jobs[0].job], plan.jobs[0].options).results
    kept_now = json.loads((tmp_path / "runs" / f"{plan.jobs[0].key}.json").read_text())
    assert kept_now == lone.data
    assert lone.ended == "limit"


def test_without_an_extra_the_command_to_install_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one worker needs no Dask."""
    import sys

    plan = small(tmp_path)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match="make extras; or run in one process with --workers 1"):
        sweep.run(plan, tmp_path / "out", workers=2)
    assert sweep.run(plan, tmp_path / "out", workers=1).ran == SMALL_JOBS
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    # Where pip installed it.
    monkeypatch.setattr(extras, "OF_A_CHECKOUT", set())
    with pytest.raises(UserError, match=r"needs pyarrow, .*\n.*mmulab\[sweep\]"):
        sweep.run(plan, tmp_path / "new", workers=1)
    assert not (tmp_path / "new").exists()
