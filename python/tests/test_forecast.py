"""Forecasts beside a stopwatch: scores by hand, the page, and the whole way over one small program.

No test expects a forecast to be right: that depends on the computer. docs/results/forecast.md tells how right they are.
"""

import json
import shutil
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT, Cli

from mmulab import UserError, engine
from mmulab.forecast import Case, cases, client, compare, modelled, page, recorded, scores
from mmulab.forecast.modelled import Model
from mmulab.ports import free_port
from mmulab.probe import walks
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


def test_other_pages_have_a_table_of_their_own_and_no_part_in_the_scores() -> None:
    more = case("code", (10.0, 9.0), (10.0, 9.5), (0.05, 0.15))
    more["timed"]["64k"] = {
        "seconds": 5.0,
        "spread": 0.0,
        "pairs": 8,
        "saves": {"saving": 0.5, "low": 0.4, "high": 0.6},
    }
    more["told"]["64k"] = {"seconds": 9.0}
    left = {"name": "absent", "bound": "code", "left_out": "not installed: absent (Debian's package absent)"}
    with_it, without = (scores.scores(found) for found in ([*CASES, more, left], [*CASES, case_of_two(more)]))
    assert with_it == without
    lines = page._others([*CASES, more, left])
    assert lines[2] == "| code | 64 KB (mTHP) | 5 s (±0 %) | 9 s | 1.80 | 50.0 % | 40.0 to 60.0 % | 10.0 % | no |"
    assert page._others(CASES) == []
    assert "| absent | code | not installed: absent (Debian's package absent) |" in "\n".join(page._times([left]))


def case_of_two(one: Json) -> Json:
    return {**one, **{key: {name: one[key][name] for name in ("4k", "thp")} for key in ("timed", "told")}}


def test_a_program_that_is_not_there_and_one_that_is_too_large_are_left_out_and_others_go_on(tmp_path: Path) -> None:
    absent = Case("absent", "code", False, ("no-such-program",), "its-package")
    large = Case("large", "latency", True, ("gups",), gigabytes=1e6)
    fails = Case("fails", "code", False, ("false",))
    plan = compare.Plan((absent, large, fails), Model("zen4-epyc9004"), Limits(6), None, tmp_path)
    found = compare.run(plan, lambda _: None)
    assert found["complete"]
    assert [one["left_out"] for one in found["cases"]] == [
        "not installed: no-such-program (Debian's package its-package)",
        "not enough memory: it takes 1e+06 GB",
        f"{shutil.which('false')} failed under 4k with exit code 1",
    ]
    assert scores.scores(found["cases"])["runs"] == 0


def test_every_setting_of_the_cases_can_be_modelled() -> None:
    for one in cases.CASES:
        assert set(one.settings) <= set(modelled.MODELLED), one.name
    for setting in modelled.MODELLED.values():
        engine.resolve(engine.Job("zen4-epyc9004", setting.policy, setting.sets))


def test_of_a_kernel_the_part_that_counts_is_recorded(tmp_path: Path) -> None:
    # 32 MB are filled by 4 M stores before 1,000 updates.
    small = cases._kernel("small", "latency", "gups", "footprint=32M", "updates=1000")
    recording = recorded.record(small, tmp_path)
    before = engine.before_gate(str(recording))
    assert before < 1_000_000
    assert 10_000 < engine.trace_length(str(recording)) - before < 100_000
    options = recorded.counted(small, recording, engine.Options())
    assert options.skip == before
    options = replace(options, max_instructions=10_000)
    (found,) = engine.run(str(recording), [engine.Job("zen4-epyc9004", "linux-4k")], options).results
    # What the stores before would have mapped is populated.
    assert found.counts["memory"]["contiguity"]["by_kind"]["anon"]["4K"]["pages"] >= 8192


def test_what_was_modelled_is_not_modelled_again_unless_something_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = cases._kernel("small", "latency", "gups", "footprint=1M", "updates=1000")
    runs: list[int | None] = []
    run_to_end = modelled.sampling.run_to_end

    def counted_run(name: str, jobs: Any, options: engine.Options, error: float) -> engine.Ran:
        runs.append(options.max_instructions)
        return run_to_end(name, jobs, options, error)

    monkeypatch.setattr(modelled.sampling, "run_to_end", counted_run)
    model = Model("zen4-epyc9004", (), 10_000)
    first = modelled.run(small, tmp_path, model, ("4k", "thp"))
    assert modelled.run(small, tmp_path, model, ("4k", "thp")) == first
    assert runs == [10_000]
    # Fewer settings, another machine, and more instructions are other runs.
    assert modelled.run(small, tmp_path, model, ("4k",)) == {"4k": first["4k"]}
    slower = modelled.run(small, tmp_path, replace(model, sets=("cache_rules.memory_cycles=2000",)), ("4k",))
    assert slower["4k"]["seconds"] > first["4k"]["seconds"]
    modelled.run(small, tmp_path, replace(model, instructions=20_000), ("4k",))
    assert runs == [10_000, 10_000, 10_000, 20_000]


class Answers(threading.Thread):
    """A server of one connection that answers each request with the same bytes, whatever it is."""

    def __init__(self, ends: bytes, answers: list[bytes]) -> None:
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.ends, self.answers, self.seen = ends, answers, b""

    def run(self) -> None:
        connection, _ = self.socket.accept()
        with connection:
            for answer in self.answers:
                asked = b""
                while not asked.endswith(self.ends):
                    asked += connection.recv(1 << 16)
                self.seen += asked
                connection.sendall(answer)


@pytest.mark.parametrize(
    ("protocol", "ends", "stored", "got"),
    [
        (client.Redis(3), b"\r\n", b"+OK\r\n", b"$3\r\nxxx\r\n"),
        (client.Memcached(3), b"\r\n", b"STORED\r\n", b"VALUE key:00000001 0 3\r\nxxx\r\nEND\r\n"),
    ],
)
def test_a_client_knows_how_long_answers_are(protocol: Any, ends: bytes, stored: bytes, got: bytes) -> None:
    server = Answers(ends, [stored, got, b""])
    server.start()
    with client.connected(server.port) as connection:
        client.ask(connection, iter([protocol.set(1)]), protocol.stored)
        client.ask(connection, iter([protocol.get(1)]), protocol.got)
        # The server hangs up in place of an answer.
        with pytest.raises(OSError, match="closed the connection"):
            client.ask(connection, iter([protocol.get(1)]), protocol.got)
    assert b"key:00000001" in server.seen


def test_a_server_gets_a_port_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    assert 1024 <= port < 65536
    monkeypatch.setattr("mmulab.forecast.case._found", lambda name: f"/bin/{name}")
    program = cases.BY_NAME["redis"].program(Path("/tmp"))
    assert str(program.port) in program.argv
    assert program.bench is not None
    assert f"redis {program.port} 300000" in program.bench


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
        assert one["told"][setting]["unknown_instructions"] == 0
    assert (cli.cwd / "out" / "forecast.md").exists()
    # What was timed is not timed again.
    assert cli(*command, "--max-instructions", "1000000").code == 0
    (again,) = json.loads(path.read_text())["cases"]
    assert again == one
    # What was kept of the model and was cut since is modelled anew.
    (told,) = (cli.cwd / "build" / "forecast").glob("*.told.json")
    told.write_text(told.read_text()[:40])
    assert cli(*command, "--max-instructions", "1000000").code == 0
    (again,) = json.loads(path.read_text())["cases"]
    assert again == one


def test_frames_of_the_program_enter_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The search for the walks that fit best takes most of the time of a description, and has its own tests.
    monkeypatch.setattr(walks, "find", lambda _timed, _write: walks.Walks())
    found = json.loads((CHECKOUT / "tests" / "data" / "probe-zen4-guest.json").read_text())
    case = cases.CASES[0]
    model = Model("zen4-epyc9004")
    plan = compare.Plan((case,), model, Limits(6), found, tmp_path)
    seconds: dict[str, Any] = {"curves": [], "frames": {"pages": 65536, "scattered": 16384, "density": 0.4}}
    # 64 MB of scattered frames are what is left of 164 MB; without a look at the program the probe's count.
    for frames, within in ((seconds["frames"], "164M"), ({"pages": 65536, "scattered": 8192, "density": 0.4}, "82M")):
        path = compare._machine(plan, found, case, {**seconds, "frames": frames})
        machine = engine.resolve(engine.Job(str(path), "linux-4k"))["machine"]
        assert machine["virtual"]["memory"]["fragment"]["within"] == within
    without = {**found, "system": {**found["system"], "frames": seconds["frames"]}}
    path = compare._machine(plan, without, case, {"curves": []})
    machine = engine.resolve(engine.Job(str(path), "linux-4k"))["machine"]
    assert machine["virtual"]["memory"]["fragment"]["within"] == "164M"
