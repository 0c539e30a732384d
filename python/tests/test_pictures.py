"""Pictures and words of a report: marks, scales, whiskers, what is drawn once, and what a term means."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import CHECKOUT
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from mmulab import paths
from mmulab.result import Result
from mmulab.study import Outcome, plots, words
from mmulab.study.plan import DEFAULT_POLICIES
from mmulab.study.report import html

CSS = (CHECKOUT / "python" / "mmulab" / "study" / "templates" / "report.css").read_text(encoding="utf-8")
# Okabe and Ito, "Color Universal Design" (2008).
OKABE_ITO = ("0072b2", "e69f00", "009e73", "cc79a7", "56b4e9", "d55e00", "f0e442", "000000")


@pytest.fixture
def outcome(study_dir: Path) -> Outcome:
    """Random updates on two machines under four policies."""
    results = [Result.load(p) for p in sorted((study_dir / "results").glob("*.json"))]
    return Outcome(sorted(results, key=lambda r: (r.machine, DEFAULT_POLICIES.index(r.policy))))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures, in place of their SVG."""
    found: list[Figure] = []
    monkeypatch.setattr(plots, "_svg", lambda figure, _: found.append(figure) or "")
    return found


def test_policies_differ_by_colour_and_by_hatch() -> None:
    """Eight colours that the colour-blind tell apart, and 64 marks before one repeats."""
    assert re.findall(r"--series-\d: #(\w{6})", CSS.partition("@media")[0]) == [*OKABE_ITO]
    marks = [plots._mark(n) for n in range(64)]
    assert len({(m["color"], m["hatch"]) for m in marks}) == 64
    assert len({m["hatch"] for m in marks[:8]}) == len({m["color"] for m in marks[:8]}) == 8


def test_levels_are_drawn_with_one_scale(outcome: Outcome, drawn: list[Figure]) -> None:
    """A bar twice as long has twice the misses, in whichever panel."""
    plots.misses(outcome)
    assert len(drawn[0].axes) == 4
    assert len({axes.get_xlim() for axes in drawn[0].axes}) == 1
    most = max(r.mpki(level) for r in outcome.results for level in ("l1i", "l1d", "l2i", "l2d"))
    assert drawn[0].axes[0].get_xlim()[1] > most


def test_whiskers_reach_to_the_ends_of_intervals(outcome: Outcome, drawn: list[Figure]) -> None:
    """Of the share that translation takes, and of what a policy saves, on each machine."""
    plots.time(outcome)
    takes, saves = drawn[0].axes
    for axes, ends in (
        (takes, lambda r: 100 * r.model["share_of_time_serial"]),
        (saves, lambda r: 100 * max(plots.saved_on(outcome, r.machine, r.policy))),
    ):
        drawn_bars = [c for c in axes.containers if isinstance(c, BarContainer)]
        for policy, bars in zip(outcome.policies, drawn_bars, strict=True):
            found = [next(r for r in results if r.policy == policy) for results in outcome.machines.values()]
            if axes is saves and policy == "linux-4k":
                continue
            if bars.errorbar is None:
                reached = [bar.get_width() for bar in bars]
            else:
                (segments,) = [c.get_segments() for c in bars.errorbar.lines[2]]
                reached = [segment[1][0] for segment in segments]
            assert reached == pytest.approx([ends(r) for r in found])
        assert any(bars.errorbar is not None for bars in drawn_bars)


def test_residency_is_what_was_counted(outcome: Outcome, drawn: list[Figure]) -> None:
    """The parts of a bar: accessed, bloat, read-around, page tables."""
    plots.residency(outcome)
    (axes,) = drawn[0].axes
    first = next(iter(outcome.machines.values()))
    parts = [[bar.get_width() * 2**20 for bar in bars] for bars in axes.containers]
    keys = ("touched_bytes", "bloat_bytes", "read_around_bytes", "table_bytes_peak")
    assert parts == [pytest.approx([r.memory[key] for r in first]) for key in keys]
    assert len({bars.patches[0].get_hatch() for bars in axes.containers}) == 4


def test_rows_that_are_equal_for_all_machines_stand_once(outcome: Outcome, study_dir: Path) -> None:
    """In the report and in the summary; where one machine differs, it has rows of its own."""
    page = html(outcome)
    memory = page.partition('id="memory"')[2].partition("</section>")[0]
    assert memory.count("<td>all machines</td>") == 2, "memory and page sizes"
    assert memory.count("<td>linux-thp</td>") == 2
    assert (study_dir / "summary.txt").read_text(encoding="utf-8").count("all machines") == 1
    other = next(r for r in outcome.results if r.machine == "zen3-5900x" and r.policy == "linux-thp")
    other.memory["table_bytes_peak"] += 4096
    changed = html(outcome).partition('id="memory"')[2].partition("</section>")[0]
    assert changed.count("<td>all machines</td>") == 1
    assert changed.count("<td>linux-thp</td>") == 3


def test_every_linked_word_is_explained(outcome: Outcome) -> None:
    """Once, in the report itself, in the glossary's words; an unknown term is a defect."""
    page = html(outcome)
    linked = set(re.findall(r'class="word" href="#([^"]+)"', page))
    explained = re.findall(r'<dt id="([^"]+)">', page)
    assert len(linked) > 10
    assert sorted(explained) == sorted(linked)
    assert "Private memory that is resident but was never accessed." in page
    with pytest.raises(KeyError):
        words.Words().link("no such word")


def test_the_glossary_is_read_whole_and_comes_with_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of its tables; from the package's own data where there is no checkout."""
    text = (CHECKOUT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| term ")]
    found = words.glossary()
    assert len({entry.anchor for entry in found.values()}) == len(rows)
    assert found["mTHP"].source == "Linux, transhuge.rst"
    assert not any("](" in entry.meaning + entry.source or "`" in entry.meaning for entry in found.values())
    package = tmp_path / "package"
    (package / "_lib" / "docs").mkdir(parents=True)
    (package / "_lib" / "docs" / "glossary.md").write_text("| word | Of the package. | |\n")
    monkeypatch.setattr(paths, "_PACKAGE", package)
    monkeypatch.setattr(paths, "_CHECKOUT", tmp_path)
    assert words.glossary()["word"].meaning == "Of the package."
    assert "docs/glossary.md" in (CHECKOUT / "scripts" / "assemble.sh").read_text(encoding="utf-8")


def test_each_part_that_scrolls_has_a_name_of_its_own(outcome: Outcome) -> None:
    """For those who hear the page."""
    names = re.findall(r'role="group" aria-label="([^"]+)"', html(outcome))
    assert len(names) > 10
    assert len(set(names)) == len(names)


def test_pictures_are_short_and_keep_their_labels(outcome: Outcome) -> None:
    """Text is in the page's fonts, and labels of few digits are not rounded with the coordinates."""
    whole = plots._compact(
        '<svg><defs>\n <style>*{}</style></defs><g id="a"><text style="font-size: 7px; '
        'font-family: \'DejaVu Sans\', sans-serif; text-anchor: start" x="1.234567" y="2.0004" '
        'transform="rotate(-0 1.2 2)">0.05432</text></g></svg>'
    )
    assert whole == '<svg><text style="font-size:7px;text-anchor:start" x="1.2" y="2">0.05432</text></svg>'
    drawn = plots.misses(outcome)
    assert "font-family" not in drawn
    assert len(drawn) < 40_000
    ElementTree.fromstring(drawn)
