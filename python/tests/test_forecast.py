"""Forecasts beside a stopwatch: scores by hand, the page, and the whole way over one small program.

No test expects a forecast to be right: that depends on the computer. docs/results/forecast.md tells how right they are.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT, Cli

from mmulab import UserError, engine
from mmulab.forecast import cases, compare, page, scores
from mmulab.forecast.modelled import Model
from mmulab.reproduce.shared.kinds import among
from mmulab.stopwatch import Limits

Json = dict[str, Any]


def case(name: str, timed: tuple[float, float], told: tuple[float, float], interval: tuple[float, float]) -> Json:
    saves = {"saving": 1 - timed[1] / timed[0], "low": interval[0], "high": interval[1], "pairs": 8}
    return {
        "name": name,
        "bound": "latency",
        "timed": {
            "4k": {"seconds": timed[0], "spread": 0.02, "pairs": 8, "saves": None},
            "thp": {"seconds": timed[1], "spread": 0.02, "pairs": 8, "saves": saves},
        },
        "told": {"4k": {"seconds": told[0]}, "thp": {"seconds": told[1]}},
    }


# Saved: timed 40 %, 0 % and 10 %; told 30 %, 0 % and -5 %.
CASES = [
    case("much", (10.0, 6.0), (10.0, 7.0), (0.28, 0.45)),
    case("nothing", (1.0, 1.0), (2.0, 2.0), (-0.01, 0.01)),
    case("a little", (2.0, 1.8), (2.0, 2.1), (0.08, 0.12)),
]


def test_scores_are_those_counted_by_hand() -> None:
    found = scores.scores(CASES)
    # Ratios: 1, 7/6, 2, 2, 1, 7/6.
    assert (found["runs"], found["within_quarter"], found["within_1_6"]) == (6, 4, 4)
    # The first is 10 points off, and within its interval; the third has the wrong sign.
    assert (found["savings"], found["right"]) == (3, 2)
    assert (found["signs"], found["right_signs"]) == (2, 1)
    assert found["mean_error"] == pytest.approx((0.1 + 0 + 0.15) / 3)
    # The best constant is the median, 10 %: off by 30, 10 and 0 points.
    assert found["constant"] == pytest.approx(0.1)
    assert found["constant_error"] == pytest.approx(0.4 / 3)
    # Ranks 3, 1, 2 beside 3, 2, 1.
    assert found["rank_correlation"] == pytest.approx(0.5)


def test_ranks_share_ties_and_need_three() -> None:
    assert scores.rank_correlation([1, 2], [1, 2]) is None
    assert scores.rank_correlation([1, 1, 1], [1, 2, 3]) is None
    # Ranks 0.5, 0.5, 2 beside 0, 1, 2.
    assert scores.rank_correlation([1, 1, 5], [1, 2, 3]) == pytest.approx(3**0.5 / 2)


def test_cases_have_names_of_their_own_and_are_found_by_them() -> None:
    names = [case.name for case in cases.CASES]
    assert len(set(names)) == len(names) >= 24
    assert among("--cases", ("BFS",), cases.BY_NAME) == (cases.BY_NAME["BFS"],)
    with pytest.raises(UserError, match="--cases: there is no 'nope'"):
        among("--cases", ("nope",), cases.BY_NAME)


def test_a_page_has_a_section_for_each_processor(tmp_path: Path) -> None:
    for family in (0x19, 0x1A):
        processor = {
            "vendor": "AuthenticAMD",
            "isa": "x86-64",
            "name": "AMD EPYC",
            "family": family,
            "model": 17,
            "hypervisor": "",
        }
        found = {"processor": processor, "machine": {}, "when": "2026-01-01", "version": "0", "cases": CASES}
        (tmp_path / page.file_name(processor)).write_text(json.dumps(found))
    text = page.write(tmp_path)
    assert text.count("## AMD EPYC") == 2
    assert "| much | 40.0 % | 28.0 to 45.0 % | 30.0 % | yes |" in text
    assert "| a little | 10.0 % | 8.0 to 12.0 % | -5.0 % | no |" in text


def test_a_program_is_timed_and_modelled_and_kept(cli: Cli) -> None:
    command = (
        "reproduce",
        "forecast",
        "--machine",
        "zen4-epyc9004",
        "--cases",
        "chase 1M",
        "--pairs",
        "6",
        "--out",
        "out",
    )
    first = cli(*command, "--max-instructions", "1000000")
    if "transparent huge pages of 2 MB are off" in first.err:
        pytest.skip("no huge pages here")
    assert first.code == 0, first.err
    (path,) = (cli.cwd / "out").glob("forecast-*.json")
    (one,) = json.loads(path.read_text())["cases"]
    for setting in ("4k", "thp"):
        assert one["timed"][setting]["seconds"] > 0
        assert one["told"][setting]["instructions"] >= 1_000_000
        assert one["told"][setting]["unknown_instructions"] < 10_000
    assert (cli.cwd / "out" / "forecast.md").exists()
    # What was timed is not timed again.
    assert cli(*command, "--max-instructions", "1000000").code == 0
    (again,) = json.loads(path.read_text())["cases"]
    assert again == one


def test_frames_of_the_program_enter_its_machine(tmp_path: Path) -> None:
    found = json.loads((CHECKOUT / "tests" / "data" / "probe-zen4-guest.json").read_text())
    case = cases.CASES[0]
    model = Model("zen4-epyc9004")
    plan = compare.Plan((case,), model, Limits(6), found, tmp_path)
    seconds: dict[str, Any] = {"curves": [], "frames": {"pages": 65536, "scattered": 16384, "density": 0.4}}
    # 64 MB of scattered frames are what is left of 160 MB; without a look at the program the probe's count.
    for frames, within in ((seconds["frames"], "160M"), ({"pages": 65536, "scattered": 8192, "density": 0.4}, "80M")):
        path = compare._machine(plan, found, case, {**seconds, "frames": frames})
        machine = engine.resolve(engine.Job(str(path), "linux-4k"))["machine"]
        assert machine["virtual"]["memory"]["fragment"]["within"] == within
    without = {**found, "system": {**found["system"], "frames": seconds["frames"]}}
    path = compare._machine(plan, without, case, {"curves": []})
    machine = engine.resolve(engine.Job(str(path), "linux-4k"))["machine"]
    assert machine["virtual"]["memory"]["fragment"]["within"] == "160M"
