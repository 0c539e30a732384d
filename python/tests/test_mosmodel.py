"""The model of a program's time fitted to mosaics: exact where time is a polynomial, and honest where it is not."""

import random
from pathlib import Path

import pytest
from conftest import Build, Cli
from test_try import TOUCH, needs_thp

from mmulab import Failure, UserError, engine, mosmodel, stopwatch
from mmulab.stopwatch.process import Program
from mmulab.study.here import machine_of

MACHINE = "zen4-epyc9004"


def made(count: int) -> list[tuple[float, float, float]]:
    """Hits, walks and cycles like those of mosaics: more large pages, fewer walks. They do not go together exactly."""
    drawn = random.Random(3)
    shares = [1.0, 0.0, *(drawn.random() for _ in range(count - 2))]
    return [(1e6 * (1 - s) + 1e4 * drawn.random(), 4e6 * s, 1e8 * s * (0.9 + 0.2 * drawn.random())) for s in shares]


def test_a_polynomial_is_found_and_told_of_mosaics_that_were_held_back() -> None:
    features = made(9)
    seconds = [1.0 + 2e-9 * c + 1e-8 * h for h, _, c in features]
    fitted = mosmodel.fit(features, seconds)
    assert fitted.worst < 0.01
    assert fitted.predict(features[5]) == pytest.approx(seconds[5], rel=0.01)


def test_a_curve_is_fitted_better_than_by_a_line_through_two_runs() -> None:
    features = made(10)
    # Overlap grows with walks: half of them cost far more than half of what all cost.
    seconds = [1.0 + 4e-9 * c - 2.4e-17 * c * c for _, _, c in features]
    fitted = mosmodel.fit(features, seconds)
    assert fitted.worst < 0.02
    assert fitted.worst_line > 3 * fitted.worst


def test_noise_shows_in_the_error_of_held_back_mosaics() -> None:
    drawn = random.Random(5)
    features = made(8)
    fitted = mosmodel.fit(features, [1.0 + 2e-9 * c + 0.3 * drawn.random() for _, _, c in features])
    assert fitted.worst > 0.05
    # A model that has seen all of them would be nearer: that is not what is told.
    seen = [abs(fitted.predict(x) - s) / s for x, s in zip(features[2:], fitted.seconds[2:], strict=True)]
    assert sum(seen) / len(seen) < fitted.mean


def test_few_mosaics_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        mosmodel.fit(made(5), [1.0] * 5)


def test_runs_that_are_too_short_have_no_times() -> None:
    with pytest.raises(Failure, match="too little to be timed"):
        mosmodel.times([{"runs": [{"user_s": 0.0}, {"user_s": 0.2}]}], "user_s")


def test_times_are_compared_within_a_round() -> None:
    # The computer slows down by half from round to round; the second mosaic takes two thirds of the first.
    rounds = [1.5**n for n in range(7)]
    settings = [{"runs": [{"user_s": share * r} for r in rounds]} for share in (1.0, 2 / 3)]
    found = mosmodel.times(settings, "user_s")
    fastest = sum(rounds[:3]) / 3
    assert found.seconds == pytest.approx([fastest, fastest * 2 / 3])
    assert found.worst_noise == pytest.approx(0)


def test_runs_that_neighbours_made_longer_change_no_time() -> None:
    drawn = random.Random(7)
    quiet = [[share * (1 + 0.01 * drawn.random()) for _ in range(30)] for share in (1.0, 0.8, 0.9)]
    loud = [[run * (drawn.uniform(1.5, 3) if drawn.random() < 0.2 else 1) for run in runs] for runs in quiet]
    found = [
        mosmodel.times([{"runs": [{"user_s": run} for run in runs]} for runs in times], "user_s")
        for times in (quiet, loud)
    ]
    assert found[1].seconds == pytest.approx(found[0].seconds, rel=0.005)
    # The interval knows that fewer runs were quiet.
    assert max(found[0].noise[1:]) < max(found[1].noise[1:]) < 0.1


def test_a_recording_is_run_under_the_layouts_of_the_stopwatch(build: Build, tmp_path: Path) -> None:
    program = Program([str(build(TOUCH, "-O1")), "24", "40"])
    pool = stopwatch.mosaics.pool(program)
    assert 12 <= pool.blocks <= 20
    recorded = mosmodel.record(program, pool, tmp_path / "pool.mmt")
    layouts = stopwatch.mosaics.layouts(pool.blocks, 4)
    counts = mosmodel.counted(recorded, layouts, engine.Job(MACHINE, ""), engine.Options())
    none, whole, window, _ = (one.walks for one in counts)
    # Large pages for all of its memory leave few walks, and a window leaves some.
    assert whole < 0.2 * none
    assert whole < window < none
    # The policy that gives large pages wherever it can is no better than advice for all.
    thp = mosmodel.forecast(recorded, engine.Job(MACHINE, "linux-thp"), engine.Options())
    assert thp.walks == pytest.approx(whole, rel=0.2)


@needs_thp
def test_six_mosaics_have_a_model_and_a_forecast(build: Build, cli: Cli) -> None:
    ran = cli(
        "try", "--mosaics", "6", "--pairs", "6", "--machine", MACHINE, "--forecast", "linux-thp",
        "--forecast", "linux-4k,tlb.L2-DTLB.entries=6144", "--json", "--", build(TOUCH, "-O1"), "24", "1000",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    found = ran.json()["model"]
    assert len(found["seconds"]) == len(found["counts"]) == len(found["held_back"]) == 6
    assert found["counts"][1]["walks"] < found["counts"][0]["walks"]
    thp, larger = found["forecasts"]
    assert (thp["policy"], larger["set"]) == ("linux-thp", ["tlb.L2-DTLB.entries=6144"])
    assert larger["counts"]["walks"] < found["counts"][0]["walks"]
    assert found["worst"] >= found["mean"] > 0


def test_mistakes_are_named(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="mmulab probe"):
        machine_of(None)
    for wrong, said in (
        (["--forecast", "linux-thp"], "give --mosaics N"),
        (["--mosaics", "6"], "mmulab probe"),
        (["--mosaics", "6", "--machine", "nope"], "nope"),
        (["--mosaics", "6", "--machine", MACHINE, "--forecast", "tlb.X=3"], "is not a policy and changes"),
    ):
        ran = cli("try", *wrong, "--", "true")
        assert ran.code == 2, ran.err
        assert said in ran.err
