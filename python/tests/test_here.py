"""This computer in a study: what is said of a forecast, and what it is held against."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rich_click as click
from conftest import CHECKOUT, Cli

from mmulab import engine, sampling
from mmulab.cli.study import study
from mmulab.engine import Job, Options
from mmulab.forecast import scores
from mmulab.probe.fragment import fragment_sets
from mmulab.probe.frames import Frames
from mmulab.study import here
from mmulab.study.here import Here, Native

FOUND = Here(
    machine="this-machine.toml",
    seconds={"linux-4k": 1.0, "linux-thp": 0.7},
    resident={"linux-4k": 100 << 20, "linux-thp": 104 << 20},
    sampled=0.0,
    native=Native(1.1, 1.0, 1.2, "linux-4k"),
    apart=None,
)
MACHINES = CHECKOUT / "machines"


@pytest.fixture(autouse=True)
def _error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "model_error", lambda: {"points": 0.1, "programs": 20})


def test_a_saving_beyond_its_error_is_said_with_its_interval_and_memory() -> None:
    lines = FOUND.lines()
    assert "save time: forecast 30.0 % (20.0 % to 40.0 %), for 4 MB more memory" in lines[0]
    assert lines[1] == "The unchanged program: 1.1 s timed, 1 s modelled."
    assert "20 programs" in lines[-1]


def test_a_saving_within_its_error_is_left_open_and_nothing_is_said_to_be_gained_only_below_it() -> None:
    assert "or not" in replace(FOUND, seconds={"linux-4k": 1.0, "linux-thp": 0.95}).lines()[0]
    assert "gain this program nothing" in replace(FOUND, seconds={"linux-4k": 1.0, "linux-thp": 1.15}).lines()[0]


def test_a_model_that_misses_the_unchanged_program_is_not_trusted() -> None:
    lines = replace(FOUND, native=Native(0.7, 0.7, 0.7, "linux-4k")).lines()
    assert lines[1].startswith("Do not trust this forecast")
    assert FOUND.ratio == pytest.approx(1 / 1.1)
    # Where the system gives 2 MB pages to all, the unchanged program has them.
    assert replace(FOUND, native=Native(0.7, 0.7, 0.7, "linux-thp")).ratio == pytest.approx(1.0)


def test_software_prefetches_which_no_recording_has_are_said() -> None:
    assert not any("prefetches" in line for line in replace(FOUND, prefetches=5e-5).lines())
    (said,) = (line for line in replace(FOUND, prefetches=0.0123).lines() if "prefetches" in line)
    assert said.startswith("In 1000 instructions the program has 12 software prefetches.")


def test_why_there_is_no_comparison_is_said_and_a_trial_is_shown_beside() -> None:
    apart = replace(FOUND, native=None, apart="the recording is of a part of the program")
    assert apart.ratio is None
    assert "Not held against a stopwatch: the recording is of a part" in apart.lines()[1]
    tried = replace(FOUND, tried={"saving": 0.25, "low": 0.2, "high": 0.3})
    assert "save time: tried 25.0 % (20.0 % to 30.0 %), for 4 MB more memory" in tried.lines()[0]
    assert tried.lines()[1] == "Without the trial: forecast 30.0 % (20.0 % to 40.0 %)."
    assert replace(FOUND, tried={"saving": 0.0, "low": -0.005, "high": 0.005}).saves is False
    failed = replace(FOUND, tried={"saving": None, "why": "interrupted"})
    assert "Tried without result: interrupted." in failed.lines()


def test_short_and_failing_programs_have_no_time_to_compare() -> None:
    found, why = here.time_natively([str(shutil.which("true"))])
    assert found is not None
    assert found.seconds < here.SHORTEST_S
    assert why is not None
    assert "too short" in why
    failed = here.time_natively([str(shutil.which("false"))])
    assert failed == (None, "the program ended with exit code 1 when it was timed")


def test_frames_of_the_program_itself_enter_the_machine_that_it_is_forecast_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[tuple[str, ...]] = []
    run_to_end = sampling.run_to_end

    def seen(trace: str, jobs: list[Job], *more: Any) -> Any:
        ran.extend(job.sets for job in jobs)
        return run_to_end(trace, jobs, *more)

    monkeypatch.setattr(sampling, "run_to_end", seen)
    scattered = Native(1.1, 1.0, 1.2, "linux-4k", Frames(65536, 16384, 0.4))
    for native in (scattered, replace(scattered, frames=None)):
        here.forecast("gen:gups?footprint=1M&updates=1k", MACHINES / "zen4-epyc9004.toml", (native, None), Options())
    wanted = 'memory.fragment={ kind = "memhog", percent = 61, chunk = "4K", within = "164M" }'
    assert ran == [(wanted,), (wanted,), (), ()]
    native = {"memory": {"size": "2G"}}
    assert fragment_sets(Frames(65536, 16384, 0.4), native) == (wanted,)
    guest = {**native, "virtual": {"memory": {"size": "2G", "fragment": {"kind": "memhog"}}}}
    assert fragment_sets(Frames(65536, 0, 1.0), guest) == ('virtual.memory.fragment={ kind = "none" }',)
    whole = fragment_sets(Frames(65536, 0, 1.0), native)
    # A machine file that has no such table takes it too.
    machine = engine.resolve(Job(str(MACHINES / "zen4-epyc9004.toml"), "linux-4k", whole))["machine"]
    assert machine["memory"]["fragment"] == {"kind": "none"}


def test_the_shipped_error_is_that_of_the_published_page() -> None:
    cases = [
        case
        for path in (CHECKOUT / "docs" / "results").glob("forecast-*.json")
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]
    ]
    shipped = json.loads((CHECKOUT / "python" / "mmulab" / "forecast" / "errors.json").read_text(encoding="utf-8"))
    assert shipped["programs"] == len(scores.pairs(cases))
    assert shipped["points"] == pytest.approx(scores.four_of_five(cases), abs=0.0005)


def test_what_a_trial_or_a_description_needs_is_said(cli: Cli) -> None:
    ran = cli("study", "--try", "gen:gups")
    assert ran.code == 2
    assert "--try times a program" in ran.err
    ran = cli("study", "--try", "--no-time", "--", "true")
    assert ran.code == 2
    assert "leave out --no-time" in ran.err
    ran = cli("study", "--try", "--", "true")
    assert ran.code == 2
    assert "run `mmulab probe` first" in ran.err
    ran = cli("study", "--here", str(MACHINES / "sandybridge.toml"), "gen:gups?footprint=1M&updates=1k")
    assert ran.code == 2
    assert "core.timing" in ran.err


def test_a_trace_is_forecast_without_a_stopwatch(cli: Cli) -> None:
    machine, trace = str(MACHINES / "zen4-epyc9004.toml"), "gen:gups?footprint=256M&updates=20k"
    ran = cli("study", "--here", machine, "--machines", "zen3-5900x", "--out", "s", trace)
    assert ran.code == 0, ran.err
    assert "on this computer" in ran.out
    assert "the program was not timed" in ran.out
    data = json.loads((cli.cwd / "s" / "here.json").read_text(encoding="utf-8"))
    assert data["ratio"] is None
    assert 0 < data["saving"] < 1
    assert "on this computer" in (cli.cwd / "s" / "report.html").read_text(encoding="utf-8")


def test_what_was_studied_is_kept_when_the_forecast_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stop(*_given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(here, "forecast", stop)
    machine, out = str(MACHINES / "zen4-epyc9004.toml"), tmp_path / "s"
    options = ["--here", machine, "--machines", "zen3-5900x", "--out", str(out), "gen:gups?footprint=1M&updates=1k"]
    with pytest.raises((KeyboardInterrupt, click.Abort)):
        study.main(options, standalone_mode=False)
    assert (out / "report.html").exists()
    assert list((out / "results").glob("*.json"))
    assert not (out / "here.json").exists()
