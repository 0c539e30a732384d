"""Results are what they were: a sample of those that `make golden` compares.

Where a result is to change, `scripts/golden.py --write` accepts it, and the commit says what was mended.
"""

import sys

import pytest
from conftest import CHECKOUT

# The suite compares every 29th line. 29 is a prime, so the sample has lines of every machine, policy and trace.
EVERY = 29


@pytest.fixture
def golden(monkeypatch: pytest.MonkeyPatch) -> object:
    """The script, as a module."""
    monkeypatch.syspath_prepend(str(CHECKOUT / "scripts"))
    monkeypatch.chdir(CHECKOUT)
    import golden

    yield golden
    sys.modules.pop("golden", None)


def test_results_are_what_they_were(golden: object) -> None:
    kept = golden.KEPT.read_text().splitlines()
    found = golden.lines(EVERY)
    assert len(found) > 50
    assert found == [one for one in kept if not one.startswith("#")][::EVERY]


def test_a_changed_result_is_seen(golden: object) -> None:
    trace, job = next(golden.runs())
    one = golden.line(trace, job)
    other = golden.line(trace, type(job)(job.machine, job.policy, ("core.base_cpi=3",), job.host_policy))
    assert one.rsplit(" ", 1)[0] == other.rsplit(" ", 1)[0]
    assert one != other
    assert golden.line(type(trace)("gen:nope"), job).rsplit(" ", 1)[1].startswith("refused:")
