"""The model of a sweep's time: against plain list scheduling, its bounds, an example by hand, and a run."""

import sys
from pathlib import Path

import pytest
from conftest import CHECKOUT
from hypothesis import given
from hypothesis import strategies as some
from sweeps import SMALL, SMALL_JOBS

from mmulab import Failure, sweep
from mmulab.sweep.scaling import Costs, Timed, simulate, timed

FREE = Costs(0, 0, 0, 0, 0)
# Whole seconds, so that sums are exact.
LISTS = some.lists(some.tuples(some.integers(0, 9), some.integers(1, 3)), min_size=1, max_size=12)


@given(LISTS, some.integers(1, 8))
def test_without_costs_each_batch_goes_to_the_worker_that_is_free_first(
    given_batches: list[tuple[int, int]], workers: int
) -> None:
    seconds, jobs = [s for s, _ in given_batches], [j for _, j in given_batches]
    until = [0] * workers
    for took in seconds:
        until[until.index(min(until))] += took
    assert simulate(seconds, jobs, workers, FREE).seconds == max(until)


@given(LISTS, some.integers(1, 8), some.integers(0, 3), some.integers(0, 3))
def test_with_costs_neither_the_command_nor_a_worker_does_two_things_at_once(
    given_batches: list[tuple[int, int]], workers: int, ship: int, keep: int
) -> None:
    """The time is at least the command's work, and the workers' shared out; at most everything one after the other."""
    seconds, jobs = [s for s, _ in given_batches], [j for _, j in given_batches]
    found = simulate(seconds, jobs, workers, Costs(0, ship, 0, keep, 0))
    command = len(seconds) * ship + sum(jobs) * keep
    assert max(command, ship + sum(seconds) / workers) - 1e-9 <= found.seconds <= command + sum(seconds)
    assert 0 <= found.command <= 1
    assert 0 <= found.workers <= 1 + 1e-9


def test_a_schedule_worked_out_by_hand() -> None:
    """Two workers A and B, and batches of 4, 1, 2 seconds. Sending a batch takes 1 second, and keeping the result of
    its only job 1.

    Sent to A at 0 to 1 and to B at 1 to 2. B is back at 3: the third is sent at 3 to 4, the result of the second kept
    until 5. A is back at 5: kept until 6. B is back at 6: kept until 7.
    """
    assert simulate([4, 1, 2], [1, 1, 1], 2, Costs(0, 1, 0, 1, 0)).seconds == 7


@given(LISTS, some.integers(1, 8))
def test_without_costs_the_schedule_keeps_grahams_bounds(given_batches: list[tuple[int, int]], workers: int) -> None:
    """No list schedule is shorter than the work or the longest batch, or longer than both together."""
    seconds, jobs = [s for s, _ in given_batches], [j for _, j in given_batches]
    found = simulate(seconds, jobs, workers, FREE)
    least = max(sum(seconds) / workers, max(seconds))
    assert least - 1e-9 <= found.seconds <= sum(seconds) / workers + max(seconds) * (1 - 1 / workers) + 1e-9
    assert simulate(seconds, jobs, 1, FREE).seconds == sum(seconds)
    assert found.command == 0


def test_costs_of_jobs_are_paid_once_and_bound_the_gain() -> None:
    costs = Costs(start=2, ship=0.25, plan=0.5, keep=0.125, table=0.0625)
    # One worker: it is idle while a batch is sent; results are kept while it runs, but for the last ones.
    assert simulate([3, 3], [4, 4], 1, costs).seconds == 8 * 0.5 + 2 + 2 * (0.25 + 3) + 4 * 0.125 + 8 * 0.0625
    many = simulate([1.0] * 1000, [4] * 1000, 1000, costs)
    # The command sends and keeps one batch after the other, whatever the number of workers.
    assert many.seconds >= 4000 * (0.5 + 0.125 + 0.0625) + 2 + 1000 * 0.25
    assert many.command > 0.99


def test_a_sweep_is_timed_in_parts_that_the_model_puts_together(tmp_path: Path) -> None:
    described = sweep.parse(sweep.file.tomllib.loads(SMALL))
    found = timed(described, tmp_path / "out", 1, 4)
    assert sum(found.jobs_per_batch) == SMALL_JOBS
    costs = found.costs
    assert min(costs.start, costs.plan, costs.keep, costs.table) > 0
    parts = costs.start + SMALL_JOBS * (costs.plan + costs.table) + sum(found.batches)
    assert parts <= found.seconds
    # With its own costs, the model comes to the time that it was made from.
    assert simulate(found.batches, found.jobs_per_batch, 1, costs).seconds == pytest.approx(found.seconds, rel=0.1)
    assert len(sweep.Results(tmp_path / "out").query("SELECT job FROM jobs").rows) == SMALL_JOBS
    with pytest.raises(Failure, match="it has results already"):
        timed(described, tmp_path / "out", 1, 4)


def test_the_page_says_what_was_timed_and_what_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CHECKOUT / "scripts"))
    import sweep_scaling

    monkeypatch.delitem(sys.modules, "sweep_scaling")
    costs = Costs(1.5, 0.01, 0.001, 0.002, 0.0005)
    runs = {w: Timed(w, 20 / w, (0.5, 0.7), (4, 4), costs) for w in (1, 2)}
    text = sweep_scaling.page(runs, 3.25)
    assert "a load of 3.2 " in text
    assert "| 2 | 10.00 s | 2.00 | 0.600 s |" in text
    for workers in ("64", "1,024"):
        rows = [line for line in text.splitlines() if line.startswith("| ") and f"| {workers} |" in line]
        assert len(rows) == len(sweep_scaling.LONGER)
    kept = (CHECKOUT / "docs" / "results" / "sweep-scaling.md").read_text("utf-8")
    # The page that is kept has the same headings and sentences; its numbers are those of a run.
    headings = [line for line in text.splitlines() if line.startswith(("#", "- ", "| cost"))]
    assert [line for line in kept.splitlines() if line.startswith(("#", "- ", "| cost"))] == headings
