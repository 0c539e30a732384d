"""Advisers in Python: their answers are obeyed, what they leave alone is as without one, and mistakes are named."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT

from mmulab import UserError, advisers, api, engine
from mmulab.advised import Fault, Process, Promotion, View
from mmulab.engine import Job, Options
from mmulab.result import Result

MACHINE = "zen3-5900x"
GUPS = "gen:gups?footprint=8M&updates=2000"
BASE = 0x7F0000000000
HUGE = 2 << 20
PAGE = 4096
POLICY = """
name = "{name}"
kind = "linux"
{rest}
"""


class Always:
    """The same size wherever it can be mapped."""

    def __init__(self, size: str) -> None:
        self.size = size
        self.asked: list[Fault] = []

    def fault(self, fault: Fault) -> str | None:
        self.asked.append(fault)
        return self.size if self.size in fault.sizes else None


class Indifferent:
    """Everything is the policy's."""

    period_ms = 1

    def __init__(self) -> None:
        self.faults, self.views = 0, 0

    def fault(self, fault: Fault) -> None:
        self.faults += 1

    def tick(self, view: View) -> Iterable[Promotion]:
        self.views += 1
        return ()


class Ticks:
    """Gives what it was made with, once, and keeps the views."""

    def __init__(self, *promotions: Any) -> None:
        self.promotions, self.views = list(promotions), list[View]()

    def tick(self, view: View) -> Iterator[Any]:
        self.views.append(view)
        while self.promotions:
            yield self.promotions.pop(0)


def _trace(directory: Path, lines: Iterable[str], size: str = "8M") -> api.Trace:
    """A program with one mapping of its own that does what the lines say."""
    path = directory / "program.mmtx"
    head = ["#: program /bin/prog", "#: isa x86-64", f"mmap {BASE:#x} {size} rw anon"]
    path.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
    return api.open(path)


def _stores(start: int, pages: int) -> list[str]:
    return [f"w {start + page * PAGE:#x}" for page in range(pages)]


def _policy(directory: Path, name: str, rest: str = "") -> str:
    path = directory / f"{name}.toml"
    path.write_text(POLICY.format(name=name, rest=rest), encoding="utf-8")
    return str(path)


def _text(result: Result) -> str:
    return json.dumps({key: value for key, value in result.data.items() if key != "adviser"})


@pytest.mark.parametrize("policy", ["linux-4k", "linux-thp-khugepaged", "linux-mthp"])
def test_an_adviser_that_leaves_all_to_the_policy_changes_nothing(policy: str) -> None:
    trace, adviser = api.open("gen:gups?footprint=256M&updates=20000"), Indifferent()
    (alone,) = trace.run(MACHINE, [policy])
    (advised,) = trace.run(MACHINE, [policy], adviser=adviser)
    assert adviser.faults > 0
    assert adviser.views > 0
    assert _text(advised) == _text(alone)
    assert advised.data["adviser"] == f"{__name__}.Indifferent"
    assert "adviser" not in alone.data


@pytest.mark.parametrize("trace", [GUPS, "gen:first-touch?footprint=16M&touches=4000"])
def test_2m_wherever_it_fits_is_thp(trace: str) -> None:
    (thp,) = api.open(trace).run(MACHINE, ["linux-thp"])
    (advised,) = api.open(trace).run(MACHINE, ["linux-thp"], adviser=Always("2M"))
    assert _text(advised) == _text(thp)
    assert thp.mapped_by_size["2M"] > 0
    # Without the huge zero page, a policy of base pages is thp, too.
    sets = ["policy.thp.zero_page=false"]
    (thp,) = api.open(trace).run(MACHINE, ["linux-thp"], sets=sets)
    (advised,) = api.open(trace).run(MACHINE, ["linux-4k"], adviser=Always("2M"))
    for key in ("tlb", "arrays", "walks", "memory"):
        assert advised.counts[key] == thp.counts[key], key
    assert advised.counts["kernel"]["faults"] == thp.counts["kernel"]["faults"]


def test_base_pages_everywhere_are_linux_4k() -> None:
    (small,) = api.open(GUPS).run(MACHINE, ["linux-4k"])
    (advised,) = api.open(GUPS).run(MACHINE, ["linux-thp"], adviser=Always("4K"))
    for key in ("tlb", "arrays", "walks"):
        assert advised.counts[key] == small.counts[key], key
    assert advised.mapped_by_size == small.mapped_by_size


def test_a_fault_says_where_it_is_and_what_fits(tmp_path: Path) -> None:
    trace = _trace(tmp_path, [f"w {BASE + PAGE:#x}", f"r {BASE + HUGE + 5:#x}", f"w {BASE + 2 * HUGE:#x}"], "6148K")
    adviser = Always("64K")
    trace.run(MACHINE, ["linux-mthp"], adviser=adviser)
    first, second, third = adviser.asked
    assert (first.address, first.access, second.access) == (BASE + PAGE, "write", "read")
    assert (first.mapping.start, first.mapping.end) == (BASE, BASE + 6148 * 1024)
    assert (first.mapping.kind, first.mapping.name, first.mapping.advice) == ("anon", "anon", None)
    assert {"4K", "64K", "2M"} <= set(first.sizes)
    assert "1G" not in first.sizes
    assert third.sizes[0] == "4K"


def test_a_range_with_a_page_in_it_has_no_room_for_a_larger_one(tmp_path: Path) -> None:
    adviser = Always("2M")
    trace = _trace(tmp_path, [f"w {BASE:#x}", f"w {BASE + PAGE:#x}"])

    class Small(Always):
        def fault(self, fault: Fault) -> str | None:
            self.asked.append(fault)
            return "4K"

    small = Small("4K")
    (result,) = trace.run(MACHINE, ["linux-thp"], adviser=small)
    assert [fault.sizes for fault in small.asked] == [("4K", "2M"), ("4K",)]
    assert result.mapped_by_size.get("2M", 0) == 0
    trace.run(MACHINE, ["linux-thp"], adviser=adviser)
    assert len(adviser.asked) == 1


def test_regions_get_the_sizes_of_a_table(tmp_path: Path) -> None:
    other = 0x7E0000000000
    lines = [f"mmap {other:#x} 4M rw anon", "brk 0x600000 0xa00000"]
    lines += [f"w {address:#x}" for address in (BASE, BASE + HUGE, other, 0x600000, 0x800000)]
    trace = _trace(tmp_path, lines)
    by_region = advisers.ByRegion({(BASE + HUGE, BASE + 2 * HUGE): "1G", "[heap]": "2M", "anon": "4K"})
    (result,) = trace.run(MACHINE, ["linux-4k"], adviser=by_region)
    # Of the range the largest that fits, 2M; of the heap both; the rest by its name.
    assert result.mapped_by_size["2M"] == 3 * HUGE
    assert result.mapped_by_size["4K"] == 2 * PAGE
    assert result.data["adviser"] == "mmulab.advisers.ByRegion"


@pytest.mark.parametrize(("pages", "promoted"), [(1, 3), (100, 2), (101, 1), (512, 0)])
def test_a_threshold_is_khugepaged_with_this_limit(tmp_path: Path, pages: int, promoted: int) -> None:
    lines = [*_stores(BASE, 511), *_stores(BASE + HUGE + 7 * PAGE, 100), *_stores(BASE + 2 * HUGE, 1), "tick"]
    lines += [*_stores(BASE, 511), "tick", f"w {BASE + 3 * HUGE:#x}"]
    trace = _trace(tmp_path, lines)
    limits = f"max_ptes_none = {512 - pages}\npages_to_scan = 1000000\nscan_sleep_ms = 10000\ndefrag = false"
    limits += "\nalloc_sleep_ms = 60000\nmax_ptes_shared = 511"
    built_in = f'[promotion]\nwhen = "daemon"\n[promotion.daemon]\n{limits}'
    (alone,) = trace.run(MACHINE, [_policy(tmp_path, "built-in", built_in)])
    (advised,) = trace.run(MACHINE, [_policy(tmp_path, "plain")], adviser=advisers.Threshold(pages))
    for key in ("tlb", "arrays", "walks", "memory"):
        assert advised.counts[key] == alone.counts[key], key
    ours, theirs = advised.counts["kernel"], alone.counts["kernel"]
    assert ours["faults"] == theirs["faults"]
    assert ours["invalidations"] == theirs["invalidations"]
    assert ours["events"]["khugepaged_collapses"] == theirs["events"]["khugepaged_collapses"] == promoted
    # A scan looks at ranges that it then leaves alone; all other work is the same.
    work = [{key: count for key, count in each["work"].items() if key != "entry_scan"} for each in (ours, theirs)]
    assert work[0] == work[1]
    assert advised.mapped_by_size.get("2M", 0) == promoted * HUGE


def test_a_view_has_the_mappings_and_pages_of_each_process(tmp_path: Path) -> None:
    lines = [*_stores(BASE, 3), f"w {BASE + HUGE:#x}", f"r {BASE + 2 * HUGE:#x}", "tick"]
    adviser = Ticks()
    _trace(tmp_path, lines).run(MACHINE, ["linux-4k"], adviser=adviser)
    (view,) = adviser.views
    (process,) = view.processes
    assert [(each.start, each.end) for each in process.mappings] == [(BASE, BASE + (8 << 20))]
    # The page that was read is a zero page.
    assert [(each.start, each.size, each.count) for each in process.pages] == [(BASE, "4K", 3), (BASE + HUGE, "4K", 1)]
    assert process.mapped("2M") == {BASE: 3 * PAGE, BASE + HUGE: PAGE}
    assert view.sizes == ("2M", "1G")


def test_a_promotion_to_1g_takes_all_of_it(tmp_path: Path) -> None:
    start = 0x7F0040000000
    lines = [*_stores(start, 3), f"w {start + (512 << 20):#x}", "tick"]
    trace = _trace(tmp_path, lines, "4G")
    adviser = Ticks(Promotion(1, start, start + (1 << 30), "1G"))
    (result,) = trace.run(MACHINE, ["linux-4k"], sets=["memory.size=8G"], adviser=adviser)
    assert result.mapped_by_size["1G"] == 1 << 30
    assert result.counts["kernel"]["work"]["copy_bytes"] == 4 * PAGE


def test_the_period_is_the_adviser_s_own_or_khugepaged_s() -> None:
    trace = api.open("gen:gups?footprint=64M&updates=100000")
    fast, slow = Indifferent(), Indifferent()
    fast.period_ms, slow.period_ms = 1, 3
    for adviser in (fast, slow):
        trace.run(MACHINE, ["linux-4k"], adviser=adviser)
    assert fast.views > slow.views > 0
    usual = Ticks()
    trace.run(MACHINE, ["linux-4k"], adviser=usual)
    assert usual.views == []


class Fails:
    """Raises at its second fault."""

    def __init__(self) -> None:
        self.faults = 0

    def fault(self, fault: Fault) -> None:
        self.faults += 1
        if self.faults == 2:
            raise LookupError("no idea")


def test_an_exception_ends_the_run_and_keeps_what_was_counted(tmp_path: Path) -> None:
    trace = _trace(tmp_path, [f"w {BASE:#x}", "n 10", f"w {BASE + HUGE:#x}", f"w {BASE + 2 * HUGE:#x}"])
    with pytest.raises(LookupError, match="no idea") as raised:
        trace.run(MACHINE, ["linux-4k"], adviser=Fails())
    (result,) = vars(raised.value)["results"]
    assert (result.ended, result.complete) == ("adviser", False)
    assert result.ended_message == f"the adviser failed at the fault at {BASE + HUGE:#x} of process 1"
    assert result.mapped_by_size == {"4K": PAGE}
    assert result.counts["writes"] == 2


@pytest.mark.parametrize("answer", ["1G", "3M", 2 << 20])
def test_a_size_that_cannot_be_mapped_is_refused_with_those_that_can(tmp_path: Path, answer: Any) -> None:
    class Wrong:
        def fault(self, fault: Fault) -> Any:
            return answer

    said = rf"{re.escape(repr(answer))} at {BASE:#x} of process 1, which cannot be mapped.*\n.*were 4K, 2M, or None"
    with pytest.raises(UserError, match=said) as refused:
        _trace(tmp_path, [f"w {BASE:#x}"]).run(MACHINE, ["linux-4k"], adviser=Wrong())
    (result,) = vars(refused.value)["results"]
    assert result.ended == "adviser"


@pytest.mark.parametrize(
    ("promotion", "said"),
    [
        (Promotion(1, BASE, BASE + PAGE, "2M"), "begins and ends at multiples of 2M"),
        (Promotion(1, BASE, BASE, "2M"), "begins and ends at multiples of 2M"),
        (Promotion(1, BASE + (8 << 20), BASE + (10 << 20), "2M"), "not in a mapping of private anonymous memory"),
        (Promotion(7, BASE, BASE + HUGE, "2M"), "no such process"),
        (Promotion(1, BASE, BASE + HUGE, "64K"), "give one of the view's sizes: 2M, 1G"),
        ((1, BASE, BASE + HUGE), r"give advised\.Promotion"),
        (Promotion(-1, BASE, BASE + HUGE), "give whole numbers"),
    ],
)
def test_promotions_that_cannot_be_are_refused(tmp_path: Path, promotion: Any, said: str) -> None:
    with pytest.raises(UserError, match=said) as refused:
        _trace(tmp_path, [f"w {BASE:#x}", "tick"]).run(MACHINE, ["linux-4k"], adviser=Ticks(promotion))
    assert [result.ended for result in vars(refused.value)["results"]] == ["adviser"]


def test_what_cannot_advise_is_refused() -> None:
    trace = api.open(GUPS)
    with pytest.raises(UserError, match="it advises nothing"):
        trace.run(MACHINE, adviser=object())
    for period in (0, 1.5, True):
        adviser = Indifferent()
        adviser.period_ms = period  # type: ignore[assignment]
        with pytest.raises(UserError, match="period_ms is"):
            trace.run(MACHINE, adviser=adviser)
    with pytest.raises(UserError, match="one machine under one policy"):
        trace.run(MACHINE, ["linux-4k", "linux-thp"], adviser=Indifferent())
    with pytest.raises(UserError, match="is asked by Linux"):
        trace.run(MACHINE, ["freebsd-super"], adviser=Indifferent())
    with pytest.raises(UserError, match="leave it out"):
        trace.run(MACHINE, options=Options(check="translations"), adviser=Indifferent())
    with pytest.raises(UserError, match="not a page size"):
        advisers.ByRegion({"[heap]": "3M"})
    with pytest.raises(UserError, match="is empty"):
        advisers.ByRegion({(BASE, BASE): "2M"})
    with pytest.raises(UserError, match="give from 1 to 512"):
        advisers.Threshold(513)


def test_results_of_an_adviser_have_names_of_their_own() -> None:
    (alone,) = api.open(GUPS).run(MACHINE)
    (advised,) = api.open(GUPS).run(MACHINE, adviser=advisers.Threshold(64))
    assert advised.changes == ["adviser mmulab.advisers.Threshold"]
    assert advised.slug != alone.slug
    assert advised.identity != alone.identity
    ran = engine.run(GUPS, [Job(MACHINE, "linux-4k")])
    assert ran.results[0].identity == alone.identity


def test_bytes_below_a_size_are_those_of_smaller_pages() -> None:
    process = Process(1, (), ())
    assert process.mapped("2M") == {}
    assert not process.holds(BASE, BASE + 1)


def test_the_guide_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each snippet of the page, in one namespace and in order."""
    monkeypatch.chdir(tmp_path)
    page = (CHECKOUT / "docs" / "guide" / "advisers.md").read_text("utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(snippets) >= 3
    names: dict[str, Any] = {}
    for snippet in snippets:
        exec(compile(snippet, "docs/guide/advisers.md", "exec"), names)
    assert names["large"].user_cycles < names["small"].user_cycles
    assert names["later"].mapped_by_size["2M"] > 0
