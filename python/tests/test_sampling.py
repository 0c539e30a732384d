"""Time by samples: counts stay exact, and the time is within its interval."""

import itertools

import pytest
from conftest import CHECKOUT, Cli

from mmulab import UserError, engine, sampling
from mmulab.engine import Job, Options

# Long enough for hundreds of samples.
TRACE = "gen:gups?footprint=64M&updates=500k"
JOBS = [Job("zen4-epyc9004", policy) for policy in ("linux-4k", "linux-thp")]
SAMPLE = {"one_of": 8, "length": 1000, "warm": 2000}


def test_a_sampled_run_counts_what_a_whole_one_counts_and_its_time_is_within_its_interval() -> None:
    whole = engine.run(TRACE, JOBS, Options(timing=True)).results
    sampled = engine.run(TRACE, JOBS, Options(timing=True, sample=SAMPLE)).results
    for one, other in zip(whole, sampled, strict=True):
        other.check()
        assert one.data["counts"]["tlb"] == other.data["counts"]["tlb"]
        assert one.data["counts"]["memory"] == other.data["counts"]["memory"]
        walks = [r.data["counts"]["walks"]["data"]["walks"] for r in (one, other)]
        assert walks[0] == walks[1]
        true, told = one.data["timing"], other.data["timing"]
        found = told["sampled"]
        assert found["samples"] > 200
        assert 0 < found["error"] < 0.1
        ratio = told["cycles"] / told["instructions"] / (true["cycles"] / true["instructions"])
        # What samples begin with differs a little from what a whole run leaves: a twentieth is room for it.
        assert abs(ratio - 1) < found["error"] + 0.05
    saved = [1 - r[1].data["timing"]["cycles"] / r[0].data["timing"]["cycles"] for r in (whole, sampled)]
    error = sampling.saving_error(*(r.data["timing"] for r in sampled))
    assert error is not None
    assert abs(saved[0] - saved[1]) < error + 0.03


def test_samples_are_as_many_as_the_error_asked_for_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LENGTH", 500), ("WARM", 500), ("FIRST", 40), ("SHARE", 0)):
        monkeypatch.setattr(sampling, name, value)
    rough = sampling.run(TRACE, JOBS, Options(), 0.5)
    assert 20 <= rough.results[0].data["timing"]["sampled"]["samples"] <= 80
    finer = sampling.run(TRACE, JOBS, Options(), sampling.worst(rough) / 3)
    sampled = finer.results[0].data["timing"].get("sampled")
    # In time throughout, where that takes no longer.
    assert sampled is None or sampled["samples"] > 80


@pytest.mark.parametrize("trace", [TRACE, str(CHECKOUT / "tests" / "data" / "cc1-small.mmt")])
def test_the_length_of_a_trace_is_what_reading_all_of_it_counts(trace: str) -> None:
    assert engine.trace_length(trace) == engine.trace_info(trace)["instructions"]
    assert engine.trace_length(trace, 1000) == 1000


def test_a_trace_is_read_no_further_than_it_is_run() -> None:
    endless = "gen:gups?footprint=64M&updates=1000000000000"
    assert sampling.instructions(endless, Options(skip=1000, max_instructions=50_000)) == 50_000
    assert sampling.instructions(TRACE, Options(skip=engine.trace_length(TRACE) - 7)) == 7
    assert sampling.instructions(TRACE, Options(skip=engine.trace_length(TRACE) + 7)) == 0


def test_a_short_run_is_in_time_throughout() -> None:
    assert sampling.sample(1_000_000, sampling.FIRST) is None
    chosen = sampling.sample(6_000_000_000, sampling.FIRST)
    assert chosen is not None
    assert chosen["one_of"] == 1000


def test_the_first_run_of_a_long_trace_has_samples_of_a_twentieth_of_it() -> None:
    assert sampling.first(100_000_000) == 600
    assert sampling.first(6_000_000_000) == pytest.approx(10_000)


def test_savings_of_runs_in_proportion_have_no_error() -> None:
    one = {"sampled": {"groups": [[100, 50], [100, 90], [100, 70]]}}
    half = {"sampled": {"groups": [[100, 25], [100, 45], [100, 35]]}}
    assert sampling.saving_error(one, half) == 0.0
    other = {"sampled": {"groups": [[100, 30], [100, 45], [100, 35]]}}
    # Sums are 210 and 110; residuals are 30 - 50r, 45 - 90r and 35 - 70r with r = 11/21.
    r = 110 / 210
    residuals = [30 - 50 * r, 45 - 90 * r, 35 - 70 * r]
    squares = sum((b - a) ** 2 for a, b in itertools.pairwise(residuals))
    assert sampling.saving_error(one, other) == pytest.approx(1.96 * (3 * squares / 4) ** 0.5 / 210)
    assert sampling.saving_error({}, half) is None


def test_an_error_is_of_modelled_time_and_a_share(cli: Cli) -> None:
    refused = cli("run", "zen4-epyc9004", "--trace", TRACE, "--error", "1%")
    assert refused.code == 2
    assert "give both" in refused.err
    for wrong in ("a lot", "0", "99%"):
        assert cli("run", "zen4-epyc9004", "--trace", TRACE, "--timing", "--error", wrong).code == 2
    # Long enough for samples to pay.
    long = "gen:gups?footprint=64M&updates=5M"
    told = cli("run", "zen4-epyc9004", "--trace", long, "--timing", "--error", "5%")
    assert told.code == 0, told.err
    assert "samples: ± " in told.out


def test_samples_that_overlap_are_refused() -> None:
    with pytest.raises(UserError, match="do not fit"):
        engine.run(TRACE, JOBS, Options(timing=True, sample={"one_of": 2, "length": 100, "warm": 500}))
