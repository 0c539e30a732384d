"""The description of this computer by timing: recorded curves give known figures, live ones plausible figures.

Processors behind virtual machines change, and neighbours are busy: no test expects certain knees of this computer.
"""

import json
import math
import mmap
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CHECKOUT, Cli, Ran

from mmulab import _core, engine
from mmulab.probe import described, frames, modelled, plan, report, system, walks
from mmulab.probe.fragment import fragment_sets
from mmulab.probe.nearest import nearest
from mmulab.units import parse_bytes

Json = dict[str, Any]
# Curves of a Zen 5 (first data TLB of 96 entries) in a virtual machine, measured beside ten compilers.
RECORDED = CHECKOUT / "tests" / "data" / "probe-zen5-guest.json"
# Some curves of a Zen 4 in a virtual machine while nothing else ran in it. Neighbours use the same third-level cache.
SHARED = CHECKOUT / "tests" / "data" / "probe-zen4-guest.json"

# The same guest while another hardware thread of the core was busy.
NEIGHBOUR = CHECKOUT / "tests" / "data" / "probe-zen4-neighbour.json"
# Some curves of an Emerald Rapids in a virtual machine. Its loads that do not wait for each other come with a chase
# over the same lines.
EMERALD_RAPIDS = CHECKOUT / "tests" / "data" / "probe-emeraldrapids-guest.json"
# Two chases of memory with instructions of one kind between their loads, beside a busy thread of an Ice Lake's core.
QUEUES = CHECKOUT / "tests" / "data" / "probe-icelake-queues.json"
# Chases with equal steps on another processor.
ZEN3 = CHECKOUT / "tests" / "data" / "probe-zen3-guest.json"


def _figures(found: Json) -> dict[str, Json]:
    return {figure["name"]: figure for figure in found["figures"]}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """What the recorded curves show, and the machine file made of it."""
    return _found(RECORDED, tmp_path_factory.mktemp("probe"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """The same of the guest whose neighbours use the third-level cache."""
    return _found(SHARED, tmp_path_factory.mktemp("probe"))


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    """The recorded curves once more, for people: what is printed, and the directory of the files."""
    directory = tmp_path_factory.mktemp("again")
    return Cli(directory)("probe", "--from", RECORDED, "--out", "out"), directory / "out"


@pytest.fixture
def unfitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptions without a search for the walks that fit best: for tests of other parts of a description.

    The search runs chases in the simulator, and takes nearly all of the time that a description takes.
    """
    monkeypatch.setattr(walks, "find", lambda _timed, _write: walks.Walks())


def _found(curves: Path, directory: Path) -> Json:
    ran = Cli(directory)("probe", "--from", curves, "--json", "--out", "out")
    assert ran.code == 0, ran.err
    found: Json = ran.json()
    assert found == json.loads((directory / "out" / "probe.json").read_text("utf-8"))
    return {**found, "machine": str(directory / "out" / "this-machine.toml")}


def test_recorded_curves_show_the_processor_they_were_measured_on(recorded: Json) -> None:
    figures = _figures(recorded)
    entries = figures["l1_dtlb_entries_4k"]
    assert 94 <= entries["value"] <= 97
    assert entries["confidence"] == "high"
    assert 6 <= figures["l2_tlb_hit_cycles_4k"]["value"] <= 8
    assert 3.5 <= figures["l1d_cycles"]["value"] <= 4.5
    assert 13 <= figures["l2_cycles"]["value"] <= 15
    assert figures["large_entries"]["value"] == 0
    assert 3400 <= figures["frequency_mhz"]["value"] <= 3600


def test_how_long_a_line_stays_in_a_shared_cache_and_how_many_misses_run_enter_the_machine(shared: Json) -> None:
    figures = _figures(shared)
    # Half of the lines are gone after 4 to 8 ms, at 3.7 GHz.
    assert 5e6 < figures["l3_retention_cycles"]["value"] < 30e6
    assert 18 < figures["memory_outstanding"]["value"] < 22
    machine = engine.resolve(engine.Job(shared["machine"], "linux-4k"))["machine"]
    caches = {cache["name"]: cache for cache in machine["cache"]}
    assert caches["L3"]["retention_cycles"] == round(figures["l3_retention_cycles"]["value"])
    assert "retention_cycles: probed" in caches["L3"]["source"]
    assert caches["L3"]["retention_shape"] == round(figures["l3_retention_shape"]["value"], 2)
    assert "retention_cycles" not in caches["L2"]
    timing = machine["core"]["timing"]
    assert timing["memory"]["fill_buffers"] == round(figures["memory_outstanding"]["value"])
    assert "memory.fill_buffers: probed" in timing["source"]


def test_what_another_thread_displaces_enters_caches_tlbs_and_walk_caches(cli: Cli) -> None:
    """Read off the curves: half of the first level's lines are gone after 8 microseconds, at 3.6 GHz.

    A fifth of the second level's lines are gone after 170 microseconds and half after 480.
    """
    ran = cli("probe", "--from", NEIGHBOUR, "--json", "--out", "out")
    assert ran.code == 0, ran.err
    figures = _figures(ran.json())
    machine = engine.resolve(engine.Job(str(cli.cwd / "out" / "this-machine.toml"), "linux-4k"))["machine"]
    caches = {cache["name"]: cache for cache in machine["cache"]}

    def lost(name: str, microseconds: float) -> float:
        """The share of lines of a level that are gone."""
        stays = [caches[name][f"retention_{what}"] for what in ("cycles", "shape")]
        return 1 - math.exp(-((microseconds * 3628 / stays[0]) ** stays[1]))

    # The curve rises to what the next level takes, a part of whose lines is further away by then.
    assert 0.25 < lost("L1D", 8) < 0.6
    assert 0.05 < lost("L2", 170) < 0.3
    assert 0.1 < lost("L2", 480) < 0.6
    assert lost("L3", 480) < lost("L2", 480) < lost("L1D", 480)
    assert "retention_cycles" not in caches["L1I"]
    for arrays, figure in ((machine["walker"]["cache"], "l1d"), (machine["tlb"], "l1d"), (machine["tlb"], "l2")):
        level = 2 if figure == "l2" else 1
        data = [one for one in arrays if one.get("level", 1) == level and one.get("side", "data") == "data"]
        for one in data:
            if one.get("victim_of"):
                continue
            assert one["retention_cycles"] == round(figures[f"{figure}_retention_cycles"]["value"])
            assert "as lines of the cache of this level" in one["assumed"]["retention_cycles"]


def test_the_reach_of_a_tlb_is_not_taken_for_a_cache(shared: Json) -> None:
    """Without 2 MB entries, 8 pages of 4 KB beyond 72 cost a second-level hit: 14 cycles become 19 from 300 KB on."""
    figures = _figures(shared)
    assert figures["large_entries"]["value"] == 0
    assert 0.8e6 < figures["l2_bytes"]["value"] < 1.4e6
    assert 40 < figures["l3_cycles"]["value"] < 55
    machine = engine.resolve(engine.Job(shared["machine"], "linux-4k"))["machine"]
    assert {c["name"]: c["size"] for c in machine["cache"]} == {"L1D": "32K", "L1I": "32K", "L2": "1M", "L3": "32M"}


def _timing(machine: str) -> Json:
    """The core in time of a written machine file."""
    resolved = engine.resolve(engine.Job(machine, "linux-4k"))
    found: Json = resolved["machine"]["core"]["timing"]
    return found


def test_what_a_neighbour_on_the_core_takes_enters_the_machine(cli: Cli, shared: Json) -> None:
    figures = _figures(shared)
    # 320 of a core alone, 160 of half a core.
    assert 160 < figures["window"]["value"] < 320
    assert 3.9 < figures["adds_at_once"]["value"] < 4.1
    timing = _timing(shared["machine"])
    assert timing["window"] == round(figures["window"]["value"])
    assert "window: probed" in timing["source"]
    # All of the units were there.
    assert (timing["units"]["int"], timing["width"]) == (4, 6)
    halved = json.loads(json.dumps(shared))
    # Without chases of walks, of which this says nothing and which take long to simulate.
    halved["curves"] = [curve for curve in halved["curves"] if not curve["name"].startswith("walk")]
    wide = next(c for c in halved["curves"] if c["name"] == "wide-adds")
    for point in wide["points"]:
        point["cycles"] = [2 * cycles for cycles in point["cycles"]]
    path = cli.cwd / "half.json"
    path.write_text(json.dumps(halved))
    assert cli("probe", "--from", str(path), "--out", "half").code == 0
    timing = _timing(str(cli.cwd / "half" / "this-machine.toml"))
    left = figures["adds_at_once"]["value"] / 2
    assert timing["units"]["int"] == pytest.approx(left, abs=1 / 16)
    assert (timing["width"], timing["retire_width"]) == pytest.approx((6 * left / 4, 8 * left / 4), abs=1 / 16)


def test_registers_and_queues_that_a_neighbour_takes_enter_the_machine(cli: Cli, shared: Json) -> None:
    """In quiet, 240 additions, 194 of vectors, 127 loads and 72 stores are in flight there."""
    queues = json.loads(QUEUES.read_text("utf-8"))["curves"]
    others = [curve for curve in shared["curves"] if not curve["name"].startswith("walk")]
    path = cli.cwd / "queues.json"
    path.write_text(json.dumps({**shared, "curves": others + queues}))
    ran = cli("probe", "--from", str(path), "--json", "--out", "out")
    assert ran.code == 0, ran.err
    figures = _figures(ran.json())
    found = {kind: figures[f"{kind}_in_flight"]["value"] for kind in ("ints", "vectors", "loads", "stores")}
    assert 115 < found["ints"] < 200
    assert 96 < found["vectors"] < 190
    assert 64 < found["loads"] < 128
    assert 36 < found["stores"] < 60
    timing = _timing(str(cli.cwd / "out" / "this-machine.toml"))
    left = [round(found[kind]) for kind in ("ints", "vectors", "loads", "stores")]
    assert [timing[key] for key in ("int_registers", "vector_registers", "loads", "stores")] == left
    assert "stores: probed" in timing["source"]
    assert "stores" not in timing["assumed"]


def test_costs_of_walks_say_how_many_run_and_what_a_guest_caches(shared: Json) -> None:
    figures = _figures(shared)
    near = figures["walk_near_cycles_4k"]["value"], figures["walk_near_cycles_2m"]["value"]
    assert 55 < near[0] < 85
    assert 25 < near[1] < 40
    assert figures["walk_far_cycles_4k"]["value"] > near[0]
    machine = engine.resolve(engine.Job(shared["machine"], "linux-4k"))["machine"]
    # Without chases at once, loads that do not wait for each other say it.
    assert machine["walker"]["count"] == round(figures["walks_of_loads_4k"]["value"])
    # With 4 KB pages a walk reads two entries of the guest, with 2 MB pages one: no entry of level 2 is cached.
    assert machine["walker"]["cache"][0]["levels"] == [3, 4]
    # Each of them, and the page, is found in the host's table by one read.
    assert [cache["levels"] for cache in machine["virtual"]["cache"]] == [[2, 3, 4]]
    # The simulator ran the same chases on the description.
    walks = {walk["curve"]: walk for walk in shared["walks"]}
    assert sorted(walks) == ["walk-far-4k", "walk-near-2m", "walk-near-4k"]
    assert all(0.9 < walk["modelled"] / walk["timed"] < 1.1 for walk in walks.values())
    for key in ("overhead_cycles", "read_cycles"):
        assert f"{key}: the value with which" in machine["walker"]["source"]
    # The host's small pages lie anywhere.
    assert machine["memory"]["fragment"]["kind"] == "memhog"


def test_walkers_are_counted_by_chases_and_pause_between_walks_of_loads(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Emerald Rapids has four walkers. Loads that do not wait for each other had 3.3 walks at once there."""
    found = _found(EMERALD_RAPIDS, tmp_path_factory.mktemp("probe"))
    figures = _figures(found)
    loads, between = figures["walks_of_loads_4k"], figures["walk_of_loads_cycles_4k"]
    assert 3.8 < figures["walks_overlapped_4k"]["value"] < 4.2
    assert 3.1 < loads["value"] < 3.5
    machine = engine.resolve(engine.Job(found["machine"], "linux-4k"))["machine"]
    walker = machine["walker"]
    assert walker["count"] == 4
    # Four walkers that begin a walk each 15.9 cycles have one each 63.7: those of the walk itself, and a pause.
    assert 60 < 4 * between["value"] < 67
    assert walker["turnaround_cycles"] == round((4 - loads["value"]) * between["value"])
    assert "agrees with chases at once" in walker["source"]
    # Its cache of level 2 holds nothing in a guest, so that walks of 4 KB pages read two entries more.
    assert [cache["levels"] for cache in walker["cache"]] == [[3], [4]]
    assert all(0.9 < walk["modelled"] / walk["timed"] < 1.1 for walk in found["walks"])


def test_walks_of_loads_are_held_against_a_chase_over_the_same_lines() -> None:
    """Another chase had other frames: two thirds of its cycles made three walkers of four."""
    curves = json.loads(EMERALD_RAPIDS.read_text("utf-8"))["curves"]

    def at_once() -> float:
        return _figures(plan.figures(curves))["walks_of_loads_4k"]["value"]

    before = at_once()
    (far,) = (curve for curve in curves if curve["name"] == "walk-far-4k")
    far["points"][0]["cycles"] = [cycles * 2 / 3 for cycles in far["points"][0]["cycles"]]
    assert at_once() == before
    (loads,) = (curve for curve in curves if curve["name"] == "walk-loads-4k")
    loads["points"][0]["alone"] = [cycles * 2 / 3 for cycles in loads["points"][0]["alone"]]
    assert at_once() < 0.7 * before


@pytest.mark.parametrize(("at_once", "count"), [(3.2, 4), (2.6, 3), (5.6, 6), (12.4, 4)])
@pytest.mark.usefixtures("unfitted")
def test_walkers_that_chases_show_are_taken_unless_loads_contradict_them(
    tmp_path: Path, at_once: float, count: int
) -> None:
    """Four walkers are published, and independent loads have 3.3 walks at once. Chases that hit the second level have
    more at once than there are walkers."""
    probe = json.loads(EMERALD_RAPIDS.read_text("utf-8"))
    (chains,) = (curve for curve in probe["curves"] if curve["name"] == "walk-chains-4k")
    one, *rest = chains["points"]
    alone = [cycles - beside for cycles, beside in zip(one["cycles"], one["control"], strict=True)]
    for point in rest:
        more = [cycles / min(point["x"], at_once) for cycles in alone]
        point["cycles"] = [beside + cycles for beside, cycles in zip(point["control"], more, strict=True)]
    path = tmp_path / "m.toml"
    path.write_text(described({**probe, **plan.figures(probe["curves"])}).toml)
    assert engine.resolve(engine.Job(str(path), "linux-4k"))["machine"]["walker"]["count"] == count


@pytest.mark.usefixtures("unfitted")
def test_the_width_is_what_instructions_of_several_kinds_reach(tmp_path: Path) -> None:
    """Beside another thread 2.75 of 6 a cycle. Adds alone say less: they are short of units without it."""
    probe = json.loads(EMERALD_RAPIDS.read_text("utf-8"))
    (adds,) = (curve for curve in probe["curves"] if curve["name"] == "add-chain")
    for name, at_once in (("wide-adds", 4.7), ("wide-mixed", 2.75)):
        point = {**adds["points"][0], "cycles": [1 / at_once] * 9}
        probe["curves"].append({**adds, "name": name, "points": [point]})
    path = tmp_path / "m.toml"
    path.write_text(described({**probe, **plan.figures(probe["curves"])}).toml)
    timing = engine.resolve(engine.Job(str(path), "linux-4k"))["machine"]["core"]["timing"]
    assert (timing["width"], timing["retire_width"]) == pytest.approx((2.75, 8 * 2.75 / 6), abs=1 / 16)


def test_measured_loads_come_with_a_chase_over_the_same_lines() -> None:
    spec = {"name": "l", "backing": "4K", "xs": [64], "repeats": 3, "burst_us": 20, "seed": 1}
    curve = json.loads(_core.probe_curve(json.dumps({**spec, "pattern": {"kind": "page-loads"}}), None))
    assert len(curve["points"][0]["alone"]) == 3
    other = json.loads(_core.probe_curve(json.dumps({**spec, "pattern": {"kind": "pages"}}), None))
    assert "alone" not in other["points"][0]


def test_a_prefetcher_that_was_timed_enters_a_machine_whose_sources_name_none(cli: Cli) -> None:
    shipped = engine.resolve(engine.Job("zen3-5900x", "linux-4k"))["machine"]["core"]["timing"]["memory"]
    assert shipped["strides"] == 0
    ran = cli("probe", "--from", ZEN3, "--json", "--out", "out")
    assert ran.code == 0, ran.err
    figures = _figures(ran.json())
    ahead = figures["memory_alone_cycles"]["value"] / figures["stride_cycles"]["value"]
    timing = _timing(str(cli.cwd / "out" / "this-machine.toml"))
    assert timing["memory"]["stride_distance"] == round(ahead) == 6
    assert timing["memory"]["strides"] == 64
    assert "zen3-5900x has no prefetcher by strides" in timing["assumed"]["strides"]


@pytest.mark.parametrize(
    ("reads", "distances", "expected"),
    [
        # Two equations, both are met: 20 + 10 x 5 = 70, 20 + 5 x 5 = 45.
        ([10, 10, 5], [70, 70, 45], (20, 5)),
        # 11 cycles a read would need -13 a walk. 9 a read leave 1, 13 and -3, of which the mean is 4.
        ([10, 10, 5], [91, 103, 42], (4, 9)),
        # Fewer reads take longer: the mean, 40 cycles a walk.
        ([10, 10, 5], [35, 35, 50], (40, 0)),
        # All walks read as much: nothing tells both apart, and a walk has all.
        ([5, 5, 5], [29, 30, 31], (30, 0)),
        # The model takes longer than the computer.
        ([10, 10, 5], [-12, -15, -12], (0, 0)),
    ],
)
def test_what_a_walk_takes_besides_its_reads_is_of_the_walk_or_of_each_read(
    reads: list[float], distances: list[float], expected: tuple[int, int]
) -> None:
    assert walks.besides(reads, distances) == expected


def test_curves_of_the_description_are_those_of_the_computer_where_figures_are_read_off(recorded: Json) -> None:
    machine = Path(recorded["machine"])
    most = {"footprint": 600_000, "pages-4k": 1700}
    short = [
        {**curve, "points": [p for p in curve["points"] if p["x"] <= most[curve["name"]]][::9]}
        for curve in recorded["curves"]
        if curve["name"] in most
    ]
    heard: list[float] = []
    found = modelled.run(short, machine, heard.append)
    assert heard[-1] == 1
    assert {name: len(points) for name, points in found.items()} == {c["name"]: len(c["points"]) for c in short}
    # Two caches, and two levels of TLBs: each has its step in both curves.
    for points in found.values():
        # Where one level ends, a page or two decide.
        assert sum(1 / 1.25 < point.ratio < 1.25 for point in points) >= 0.8 * len(points)
        assert points[-1].modelled > 2 * points[0].modelled
    text = "".join(str(cell) for column in report.modelled(found).columns for cell in column.cells)
    assert "pages-4k" in text
    assert modelled.plot(found).count("modelled") >= 1


def test_curves_are_drawn_on_request(recorded: Json, cli: Cli) -> None:
    small = {**recorded, "curves": [c for c in recorded["curves"] if c["name"] in ("add-chain", "pages-4k")]}
    for curve in small["curves"]:
        curve["points"] = [p for p in curve["points"] if p["x"] <= 100]
    (cli.cwd / "small.json").write_text(json.dumps(small))
    ran = cli("probe", "--from", "small.json", "--out", "out", "--curves")
    assert ran.code == 0, ran.err
    assert "pages-4k" in ran.out
    assert (cli.cwd / "out" / "curves.svg").read_text().startswith("<?xml")
    points = json.loads((cli.cwd / "out" / "probe.json").read_text())["modelled"]["pages-4k"]
    assert points[0]["x"] == 16
    assert points[0]["modelled"] > 0


def test_frames_of_another_process_are_those_of_all_its_own_memory(tmp_path: Path) -> None:
    page = mmap.PAGESIZE
    lines = [
        f"{8 * page:x}-{90 * page:x} r--p 00000000 08:01 77 /usr/lib/libc.so.6",
        f"{100 * page:x}-{104 * page:x} rw-p 00000000 00:00 0 [heap]",
        f"{200 * page:x}-{216 * page:x} rw-p 00000000 00:00 0",
        f"{300 * page:x}-{390 * page:x} rw-p 00000000 00:00 0 [stack]",
        f"{400 * page:x}-{490 * page:x} rw-s 00000000 00:01 0 /dev/zero (deleted)",
        f"{500 * page:x}-{590 * page:x} ---p 00000000 00:00 0",
    ]
    process = tmp_path / "7"
    process.mkdir()
    (process / "maps").write_text("\n".join(lines))
    # Of the heap page 100 has frame 41. Pages 200 to 207 have frames 8 to 15, page 210 frame 40; others are not there.
    entries = [0] * 216
    for page_number, frame in [*zip(range(200, 208), range(8, 16), strict=True), (100, 41), (210, 40)]:
        entries[page_number] = 1 << 63 | frame
    (process / "pagemap").write_bytes(struct.pack("216Q", *entries))
    assert frames.of_process(7, tmp_path) == frames.Frames(10, 2, 2 / 8, 1, 1)
    assert frames.of_process(8, tmp_path) is None


def test_of_several_runs_scattered_frames_have_as_many_groups_as_all_of_them() -> None:
    some, none = frames.Frames(64, 8, 1 / 4, 6, 4), frames.Frames(66, 0, 1.0)
    # Four groups and none: two in the mean, of which four frames are a quarter.
    assert frames.mean([some, none]) == frames.Frames(65, 4, 1 / 4, 3, 2)
    assert frames.mean([none]) == none


@pytest.mark.usefixtures("unfitted")
def test_scattered_frames_are_seen_and_enter_the_guest(recorded: Json, tmp_path: Path) -> None:
    # Frames 8 to 15 are a group; 16 and 1 to 7 are parts of two.
    assert frames.of(list(range(16, 0, -1))) == frames.Frames(16, 8, 8 / 16, 1, 1)
    assert frames.of([8, 24, 40, 41 + 8 * 512]) == frames.Frames(4, 4, 4 / 32, 2, 2)
    assert frames.of(list(range(8, 24))) == frames.Frames(16, 0, 1.0)
    # Hidden from users without rights.
    assert frames.of([0, 0, 0]) is None
    assert frames.look(64, tmp_path / "pagemap") is None
    scattered = json.loads(json.dumps(recorded))
    scattered["system"]["frames"] = {"pages": 65536, "scattered": 16384, "density": 0.4}
    path = tmp_path / "m.toml"
    path.write_text(described(scattered).toml)
    machine = engine.resolve(engine.Job(str(path), "linux-4k"))["machine"]
    fragment = machine["virtual"]["memory"]["fragment"]
    # With 39 % of frames free, groups that have some and not all have 40 %. 64 MB are what is left of 164 MB.
    assert (fragment["kind"], fragment["percent"], fragment["chunk"]) == ("memhog", 61, "4K")
    assert fragment["within"] == "164M"
    assert "64 MB filled 40% of their groups" in machine["virtual"]["memory"]["source"]
    assert "regions" not in fragment
    # They lay in 100 regions of 2 MB, whose entries were in 20 lines.
    scattered["system"]["frames"] |= {"regions": 100, "region_lines": 20}
    path.write_text(described(scattered).toml)
    memory = engine.resolve(engine.Job(str(path), "linux-4k"))["machine"]["virtual"]["memory"]
    assert memory["fragment"] == {**fragment, "regions": 100, "over": "320M"}
    assert memory["source"].endswith("they lay in 100 regions of 2 MB")
    # The host's frames are another matter.
    assert machine["memory"]["fragment"]["percent"] == 50


def test_a_chase_is_simulated_on_frames_as_scattered_as_it_had(shared: Json) -> None:
    """Where eight pages share a line of the host's table, their walks read fewer lines than where each has its own."""
    chase = walks.CHASES[0]
    machine = engine.resolve(engine.Job(shared["machine"], chase.policy))["machine"]

    def cycles(seen: Json) -> float:
        one = walks.Timed(chase, {"points": [{"x": 3120}], "frames": seen}, 66.0)
        # So small that it cannot hold a line of the host's table for each page beside the program's lines.
        small = "cache.L2.size=256K"
        job = walks.bounded(engine.Job(shared["machine"], chase.policy, (*one.sets(machine), small)))
        return walks.loads(job, one.pages, walks.APART, (2 * one.pages, 2 * one.pages)).cycles

    together = {"pages": 5120, "scattered": 0, "density": 1.0}
    alone = {"pages": 5120, "scattered": 5120, "density": 0.14}
    assert cycles(alone) > cycles(together) + 10
    # Of a user who cannot see frames, the description's are taken.
    assert walks.Timed(chase, {"points": [{"x": 3120}]}, 66.0).sets(machine) == ()


@pytest.mark.parametrize(("over", "gigabytes"), [("4848M", 9), ("3G", 7), (None, 4)])
def test_a_guest_of_chases_has_room_for_the_regions_of_its_frames(
    shared: Json, over: str | None, gigabytes: int
) -> None:
    """Beside the 4 GB that chases need."""
    seen = f'kind = "memhog", percent = 60, chunk = "4K", within = "735M", regions = 1000, over = "{over}"'
    sets = ("virtual.memory.size=24G", f"virtual.memory.fragment={{ {seen} }}" if over else "memory.size=96G")
    job = walks.bounded(engine.Job(shared["machine"], "linux-4k", sets))
    assert engine.resolve(job)["machine"]["virtual"]["memory"]["size"] == f"{gigabytes}G"


def test_curves_over_base_pages_say_which_frames_they_had() -> None:
    spec = {"backing": "4K", "xs": [64], "repeats": 3, "burst_us": 20, "seed": 1}
    curve = json.loads(_core.probe_curve(json.dumps({**spec, "name": "p", "pattern": {"kind": "pages"}}), None))
    seen = curve.get("frames")
    assert (seen is None) == (frames.look(64) is None)
    if seen is not None:
        # A region is made of whole 2 MB.
        assert seen["pages"] == 512
        assert 0 <= seen["scattered"] <= 512
        assert 0 < seen["density"] <= 1


def test_where_programs_may_not_make_code_jumps_are_left_out() -> None:
    """Where prctl(PR_SET_MDWE) forbids it (Linux 6.3), the rest of `probe` must still run."""
    refuse = "import ctypes; refused = ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)"
    ask = "from mmulab import _core; print(refused, _core.probe_jumps())"
    allowed, forbidden = (
        subprocess.run(
            [sys.executable, "-c", f"{first}; {ask}"], capture_output=True, text=True, check=True
        ).stdout.split()
        for first in ("refused = 0", refuse)
    )
    if forbidden[0] != "0":
        pytest.skip("this kernel knows no PR_SET_MDWE")
    makes = system.processor()["isa"] == "x86-64"
    assert (allowed[1], forbidden[1]) == (str(makes), "False")


def test_every_figure_has_its_interval_curve_and_repeats_or_a_reason(recorded: Json) -> None:
    curves = {curve["name"] for curve in recorded["curves"]}
    for figure in recorded["figures"]:
        assert figure["curve"] in curves
        assert figure["repeats"] >= 3
        assert figure["note"] or figure["unit"] in ("cycles", "ns")
        if figure["value"] is None:
            assert figure["interval"] is None
            assert figure["note"]
        else:
            low, high = figure["interval"]
            assert low <= high
    # The cache that neighbours overwrite is not made up, and the table says why it is missing.
    assert _figures(recorded)["l3_bytes"]["value"] is None
    assert any("third-level cache" in text and "no flat part" in text for text in report.remarks(recorded))


def test_the_machine_file_resolves_and_marks_what_was_probed_and_what_was_inherited(recorded: Json) -> None:
    machine = engine.resolve(engine.Job(recorded["machine"], "linux-4k"))["machine"]
    core = machine["core"]
    assert core["frequency_mhz"] == round(_figures(recorded)["frequency_mhz"]["value"])
    assert "frequency_mhz: probed" in core["source"]
    assert core["assumed"]["window"] == "not probed; inherited from zen5-epyc9005"
    tlbs = {array["name"]: array for array in machine["tlb"]}
    data = tlbs["L1-DTLB"]
    assert data["entries"] == _figures(recorded)["l1_dtlb_entries_4k"]["value"]
    assert "entries: probed" in data["source"]
    assert "entries" not in data["assumed"]
    assert "ways" in data["assumed"]
    # An instruction TLB is not probed at all.
    assert "entries" in tlbs["L1-ITLB"]["assumed"]
    assert tlbs["L1-ITLB"]["source"] == "inherited from zen5-epyc9005"
    caches = {cache["name"]: cache for cache in machine["cache"]}
    assert caches["L1D"]["size"] == "48K"
    assert "confirmed: probed" in caches["L1D"]["source"]
    assert "not confirmed by the curve" in caches["L3"]["source"]
    assert "Written by `mmulab probe`" in machine["description"]
    assert "virtual machine" in machine["description"]
    # A guest on a host with small pages is described as one.
    assert "KVMKVMKVM" in machine["virtual"]["source"]
    assert "linux-4k" in machine["virtual"]["source"]


def test_a_figure_of_low_confidence_stays_out_of_the_machine_file(recorded: Json) -> None:
    doubtful = json.loads(json.dumps(recorded))
    for figure in doubtful["figures"]:
        figure["confidence"] = "low"
    text = described(doubtful).toml
    assert "probed, " not in text
    assert 'frequency_mhz = "not probed; inherited from zen5-epyc9005"' in text


@pytest.mark.usefixtures("unfitted")
def test_a_walk_cache_that_reaches_further_than_can_be_described_is_as_large_as_can_be(
    recorded: Json, tmp_path: Path
) -> None:
    found = json.loads(json.dumps(recorded))
    for figure in found["figures"]:
        if figure["name"] == "walk_cache_reach_bytes":
            figure |= {"value": 3e9, "interval": [2e9, 4e9], "confidence": "high"}
    path = tmp_path / "m.toml"
    path.write_text(described(found).toml)
    caches = engine.resolve(engine.Job(str(path), "linux-4k"))["machine"]["walker"]["cache"]
    assert caches[0]["ways"] == "full"
    assert caches[0]["entries"] == 256


@pytest.mark.usefixtures("unfitted")
@pytest.mark.parametrize(("knee", "size"), [(1.3e6, "32M"), (6e6, "6M")])
def test_a_knee_of_the_nearer_cache_is_no_size_of_the_next(
    shared: Json, tmp_path: Path, knee: float, size: str
) -> None:
    """A neighbour on the core leaves a step at 0.6 MB and another one at the end of the second level, 1 MB."""
    found = json.loads(json.dumps(shared))
    for figure in found["figures"]:
        if figure["name"] == "l3_bytes":
            figure |= {"value": knee, "interval": [knee, knee], "blur": None, "confidence": "high", "found": 1.0}
        if figure["name"] == "l3_cycles":
            figure |= {"value": 21.0, "interval": [21.0, 21.0], "confidence": "high", "found": 1.0}
    path = tmp_path / "m.toml"
    path.write_text(described(found).toml)
    third = {c["name"]: c for c in engine.resolve(engine.Job(str(path), "linux-4k"))["machine"]["cache"]}["L3"]
    assert abs((parse_bytes(third["size"]) or 0) - (parse_bytes(size) or 0)) < 0.06 * (parse_bytes(size) or 0)
    # A step of another size than the system's is no hit of the third level, either.
    assert third["cycles"] != 21


def _with(probe: Json, path: Path, *figures: Json) -> dict[str, Json]:
    """The caches of a description with further figures."""
    found = json.loads(json.dumps(probe))
    for figure in figures:
        value = figure["value"]
        found["figures"].append({"interval": [value, value], "found": 1.0, "curve": "made", **figure})
    path.write_text(described(found).toml)
    return {c["name"]: c for c in engine.resolve(engine.Job(str(path), "linux-4k"))["machine"]["cache"]}


@pytest.mark.usefixtures("unfitted")
@pytest.mark.parametrize(
    ("left", "ways", "confidence"), [(500, 4, "high"), (640, 5, "medium"), (960, 8, "high"), (500, 8, "low")]
)
def test_a_second_level_has_the_ways_that_a_neighbour_on_the_core_leaves(
    shared: Json, tmp_path: Path, left: float, ways: int, confidence: str
) -> None:
    """Of 8 ways of 128 KB."""
    figure = {"name": "l2_left_bytes", "value": left * 1024, "confidence": confidence}
    second = _with(shared, tmp_path / "m.toml", figure)["L2"]
    assert (second["ways"], parse_bytes(second["size"])) == (ways, ways << 17)
    assert ("ways of 1 MB are left" in second["source"]) == (ways < 8)


@pytest.mark.usefixtures("unfitted")
@pytest.mark.parametrize(
    ("admits", "confidence", "others", "displaces", "fresh"),
    [
        (0.456, "medium", 17e6, 0.1, {"admits": 0.456, "retention_cycles": 17_000_000, "tables": False}),
        (0.97, "high", 17e6, 0.9, None),
        (0.97, "high", 50e6, 0.5, {"admits": 0.97, "retention_cycles": 17_000_000, "tables": False}),
        (
            0.97,
            "high",
            50e6,
            0.7,
            {"admits": 0.97, "retention_cycles": 17_000_000, "goes_next": False, "tables": False},
        ),
        (0.4, "low", 50e6, 0.9, None),
    ],
)
def test_a_third_level_is_described_that_keeps_few_lines_from_memory_or_not_for_long(
    shared: Json, tmp_path: Path, admits: float, confidence: str, others: float, displaces: float, fresh: Json | None
) -> None:
    third = _with(
        shared,
        tmp_path / "m.toml",
        {"name": "l3_retention_cycles", "value": others, "confidence": "medium"},
        {"name": "l3_fresh_admits", "value": admits, "confidence": confidence},
        {"name": "l3_fresh_retention_cycles", "value": 17e6, "confidence": "low"},
        {"name": "l3_stream_displaces", "value": displaces, "confidence": "medium"},
    )["L3"]
    assert third.get("fresh") == fresh
    assert ("fresh: probed" in third["source"]) == (fresh is not None)


@pytest.mark.usefixtures("unfitted")
@pytest.mark.parametrize(
    ("held", "size", "confidence"),
    [(11, "10208K", "high"), (21.3, "20755K", "medium"), (35, "32M", "high"), (11, "32M", "low")],
)
def test_a_third_level_has_the_size_that_loads_at_once_reach(
    shared: Json, tmp_path: Path, held: float, size: str, confidence: str
) -> None:
    """Of 32 MB. The second level's 1 MB is beside it, for it keeps what that one displaces. All 16 ways are shared."""
    figure = {"name": "caches_bytes", "value": held * (1 << 20), "confidence": confidence}
    third = _with(shared, tmp_path / "m.toml", figure)["L3"]
    assert (third["ways"], third["size"]) == (16, size)
    assert ("this computer reaches so much" in third["source"]) == (size != "32M")


@pytest.mark.parametrize("free", [0.02, 0.05, 0.2, 0.5, 0.8])
def test_free_frames_leave_groups_as_full_as_they_were_seen(free: float) -> None:
    """Frames that are free by chance, counted as a program's pages are."""
    drawn = np.random.default_rng(1).random(1 << 20) < free
    seen = frames.of([int(frame) for frame in np.flatnonzero(drawn)])
    assert seen is not None
    (found,) = fragment_sets(seen, {"memory": {"size": "8G"}})
    names = "percent|within|regions|over"
    percent, within, regions, over = (int(number) for number in re.findall(rf'(?:{names}) = "?(\d+)', found))
    assert abs(percent / 100 - min(0.95, 1 - free)) < 0.011
    # 4 GB were drawn from; at most 95 % can be taken.
    assert abs(within / (4096 * min(1, free / 0.05)) - 1) < 0.03
    # Each region of these 4 GB had some.
    assert (regions, over) == (2048, 4096)


def _on_skylake(recorded: Json, large: float | None) -> dict[str, Json]:
    """The TLB arrays of the recorded figures on a processor whose first level is split by page size."""
    found: Json = json.loads(json.dumps(recorded))
    found["system"]["processor"] |= {"vendor": "GenuineIntel", "family": 6, "model": 0x5E}
    for figure in found["figures"]:
        if figure["name"] == "large_entries":
            figure["value"] = large
        if figure["name"] == "l1_dtlb_entries_2m":
            figure |= {"value": 40.0, "interval": [40.0, 40.0], "blur": [39.0, 41.0], "confidence": "high"}
    path = Path(recorded["machine"]).with_name("skylake.toml")
    path.write_text(described(found).toml, encoding="utf-8")
    machine = engine.resolve(engine.Job(str(path), "linux-4k"))["machine"]
    return {array["name"]: array for array in machine["tlb"]}


@pytest.mark.usefixtures("unfitted")
def test_entries_of_2_mb_pages_are_taken_only_where_there_are_any(recorded: Json) -> None:
    shipped = engine.resolve(engine.Job("skylake-e3-1240v5", "linux-4k"))["machine"]["tlb"]
    inherited = {array["name"]: array["entries"] for array in shipped}
    whole = _on_skylake(recorded, 1.0)
    assert whole["DTLB-2M"]["entries"] == 40
    assert whole["DTLB-4K"]["entries"] == 96
    # Fractured entries are counted a base page each: nothing is known of the array for 2 MB pages.
    for large in (0.0, None):
        fractured = _on_skylake(recorded, large)
        assert fractured["DTLB-2M"]["entries"] == inherited["DTLB-2M"]
        assert "entries" in fractured["DTLB-2M"]["assumed"]
        assert fractured["DTLB-4K"]["entries"] == 96


def test_the_machine_runs_a_trace(recorded: Json, cli: Cli) -> None:
    ran = cli("run", recorded["machine"], "--trace", "gen:gups?footprint=1M&updates=2000", "--json")
    assert ran.code == 0, ran.err
    assert ran.json()["machine"]["name"] == "this-machine"


def test_the_same_curves_give_the_same_bytes(recorded: Json, again: tuple[Ran, Path]) -> None:
    first = Path(recorded["machine"]).parent
    for name in ("probe.json", "this-machine.toml"):
        assert (first / name).read_bytes() == (again[1] / name).read_bytes()


def test_the_table_names_the_processor_the_hypervisor_and_the_noise(again: tuple[Ran, Path]) -> None:
    ran = again[0]
    assert ran.code == 0
    assert "AuthenticAMD family 26 model 2" in ran.out
    assert "a virtual machine (KVMKVMKVM)" in ran.out
    assert "2 MB entries do not exist here" in ran.out
    assert "repeats scatter" in ran.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not json", "not JSON"),
        ("[]", "not a probe of layout 1"),
        ('{"schema": 9, "curves": [], "system": {}, "when": ""}', "not a probe of layout 1"),
    ],
)
def test_a_file_that_is_not_a_probe_is_refused(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.json").write_text(text)
    ran = cli("probe", "--from", "x.json")
    assert ran.code == 2
    assert said in ran.err
    assert "hint:" in ran.err
    assert cli("probe", "--from", "missing.json").code == 2


def test_a_cpu_that_does_not_exist_is_refused(cli: Cli) -> None:
    ran = cli("probe", "--quick", "--cpu", "1023")
    assert ran.code == 2
    assert "--cpu 1023" in ran.err


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """A short probe of this computer."""
    ran = Cli(tmp_path_factory.mktemp("live"))("probe", "--quick", "--memory", "256M", "--json", "--out", "out")
    assert ran.code == 0, ran.err
    found: Json = ran.json()
    return found


def test_this_computer_is_described_plausibly(live: Json) -> None:
    figures = _figures(live)
    assert 200 < figures["frequency_mhz"]["value"] < 10_000
    footprint = next(c for c in live["curves"] if c["name"] == "footprint")
    fastest = [min(point["cycles"]) for point in footprint["points"]]
    # A load takes some cycles in the first level, more in the second, and many more in memory.
    assert 1 < fastest[0] < 20
    assert fastest[-1] > 4 * fastest[0]
    assert figures["memory_cycles"]["value"] > 4 * fastest[0]
    if figures["l2_cycles"]["value"] is not None:
        assert figures["l1d_cycles"]["value"] < figures["l2_cycles"]["value"] < figures["memory_cycles"]["value"]
        assert figures["l1d_bytes"]["value"] < figures["l2_bytes"]["value"]
    if figures["l1_dtlb_entries_4k"]["value"] is not None and figures["l2_tlb_entries_4k"]["value"] is not None:
        assert figures["l1_dtlb_entries_4k"]["value"] < figures["l2_tlb_entries_4k"]["value"]
    assert figures["memory_outstanding"]["value"] >= 1
    assert live["system"]["processor"]["vendor"]
    assert set(live["noise"]) == {curve["name"] for curve in live["curves"]}


def test_small_pages_are_small_and_every_point_has_all_repeats(live: Json) -> None:
    for curve in live["curves"]:
        if curve["backing"] == "4K" and curve["huge_share"] is not None:
            assert curve["huge_share"] == 0
        for point in curve["points"]:
            assert len(point["cycles"]) == len(point["ns"]) >= 3
            # Single loads are timed beside one of the nearest cache: a load that finds its line there takes 0 more.
            may_be_none = curve["name"] == "memory-latencies"
            assert all(cycles > 0 or (may_be_none and cycles == 0) for cycles in point["cycles"]), curve["name"]


@pytest.mark.parametrize(
    ("vendor", "family", "model", "name"),
    [
        ("AuthenticAMD", 0x17, 8, "zenplus-2700x"),
        ("AuthenticAMD", 0x19, 0x21, "zen3-5900x"),
        ("AuthenticAMD", 0x19, 0x11, "zen4-epyc9004"),
        ("AuthenticAMD", 0x1A, 2, "zen5-epyc9005"),
        ("GenuineIntel", 6, 0x2A, "sandybridge"),
        ("GenuineIntel", 6, 0x3C, "haswell-mix-baseline"),
        ("GenuineIntel", 6, 0x5E, "skylake-e3-1240v5"),
        ("GenuineIntel", 6, 0x8F, "sapphirerapids-xeon8480"),
        ("GenuineIntel", 6, 0xAD, "graniterapids-xeon6985"),
        ("GenuineIntel", 6, 0xCF, "emeraldrapids-xeon8592"),
        ("GenuineIntel", 6, 0x6A, "icelake-xeon8380"),
        ("GenuineIntel", 6, 0xA7, "icelake-xeon8380"),
        ("CentaurHauls", 7, 1, "skylake-e3-1240v5"),
    ],
)
def test_the_nearest_machine_is_of_the_vendor_and_family(vendor: str, family: int, model: int, name: str) -> None:
    found, how_near = nearest({"isa": "x86-64", "vendor": vendor, "family": family, "model": model, "name": ""})
    assert found == name
    assert how_near
    assert name in {machine["name"] for machine in engine.machines()}


@pytest.mark.parametrize(
    ("extensions", "name"),
    [(["amx_tile"], "sapphirerapids-xeon8480"), (["amx_tile", "amx_fp16"], "graniterapids-xeon6985")],
)
def test_a_hidden_model_is_told_by_its_instructions(extensions: list[str], name: str) -> None:
    """A hypervisor that says Rocket Lake's model, 0xA7, of a processor with AMX."""
    hidden = {"isa": "x86-64", "vendor": "GenuineIntel", "family": 6, "model": 0xA7, "extensions": extensions}
    found, how_near = nearest({**hidden, "name": ""})
    assert found == name
    assert how_near.startswith("by its AMX")


def _l2(size: int) -> list[Json]:
    """Caches as the kernel lists them, with a second level of this size."""
    return [{"level": 1, "bytes": 64 << 10, "ways": 4}, {"level": 2, "bytes": size, "ways": 8}]


@pytest.mark.parametrize(
    ("vendor", "part", "caches", "name", "how"),
    [
        ("Arm", 0xD0C, [], "neoverse-n1", "the same core"),
        ("Arm", 0xD49, [], "neoverse-n1", "another core of the vendor"),
        ("Arm", 0xD40, [], "neoverse-v1-graviton3", "the same core"),
        ("Arm", 0xD4F, _l2(2 << 20), "neoverse-v2-graviton4", "the same core"),
        ("Arm", 0xD4F, _l2(1 << 20), "neoverse-v2-grace", "the same core, with an L2 cache of 1 MB"),
        ("Arm", 0xD4F, [], "neoverse-v2-graviton4", "the same core; its L2 cache is not known"),
        ("Ampere", 0xAC3, [], "ampereone-a192", "the same core"),
        ("Ampere", 0xAC4, [], "ampereone-a192", "the same core"),
        ("Ampere", 0xAC5, [], "ampereone-a192", "another core of the vendor"),
        ("Apple", 0x022, [], "neoverse-n1", "another vendor: no machine of Apple is shipped"),
    ],
)
def test_an_arm_processor_is_known_by_its_part(vendor: str, part: int, caches: list[Json], name: str, how: str) -> None:
    """Two processors have the same part, Neoverse V2, and other caches."""
    found = nearest({"isa": "aarch64", "vendor": vendor, "family": 0, "model": part, "name": ""}, caches)
    assert found == (name, how)
    assert name in {machine["name"] for machine in engine.machines()}


def test_points_of_a_grid_double_in_steps() -> None:
    assert plan.grid(4096, 16384, 1, 1024) == [4096, 8192, 16384]
    assert plan.grid(100, 100, 4) == [100]
    points = plan.grid(160, 12288, 8)
    assert points == sorted(set(points))
    assert points[0] == 160
    assert points[-1] <= 12288


def test_two_measurements_of_a_curve_join_by_point() -> None:
    first = {"name": "c", "points": [{"x": 1, "cycles": [1.0], "ns": [1.0]}, {"x": 3, "cycles": [3.0], "ns": [3.0]}]}
    second = {"name": "c", "points": [{"x": 3, "cycles": [4.0], "ns": [4.0]}, {"x": 2, "cycles": [2.0], "ns": [2.0]}]}
    joined = plan.merged(first, second)
    assert [(p["x"], p["cycles"]) for p in joined["points"]] == [(1, [1.0]), (2, [2.0]), (3, [3.0, 4.0])]
    assert first["points"][1]["cycles"] == [3.0]


def test_caches_are_read_as_the_kernel_lists_them(tmp_path: Path) -> None:
    for at, (kind, size, level, ways) in enumerate(
        [
            ("Data", "48K", 1, 12),
            ("Instruction", "32K", 1, 8),
            ("Unified", "1024K", 2, 16),
            ("Unified", "32768K", 3, 16),
        ]
    ):
        index = tmp_path / f"index{at}"
        index.mkdir()
        for name, text in (("type", kind), ("size", size), ("level", level), ("ways_of_associativity", ways)):
            (index / name).write_text(f"{text}\n")
    assert [(c["level"], c["bytes"], c["ways"]) for c in system.caches(tmp_path)] == [
        (1, 48 << 10, 12),
        (2, 1 << 20, 16),
        (3, 32 << 20, 16),
    ]
    assert system.caches(tmp_path / "nowhere") == []
    assert system.chosen("always [madvise] never") == "madvise"
