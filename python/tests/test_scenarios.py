"""Every case of docs/scenarios, run and compared."""

import difflib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from scenarios import DOCS, PAGES, Block, Scenario, every, tell

ALL = every()


def parts(text: str) -> list[str]:
    """The lines of a narration, blanks evened out, comments left out."""
    lines = [re.sub(r"\s+", " ", line.split("#")[0]).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def different(page: str, block: Block, wanted: list[str], got: list[str]) -> str:
    """Where expectation and engine part, readably."""
    diff = difflib.unified_diff(wanted, got, "the page", "the engine", lineterm="", n=2)
    return "\n".join([f"docs/scenarios/{page}.md, line {block.line}:", *diff])


def at(result: dict[str, Any], place: str) -> Any:
    """A value by its dotted place; entries of lists by their number or `name`, which may have dots of its own."""
    value: Any = result
    while place:
        number, _, rest = place.partition(".")
        if isinstance(value, list) and number.isdigit():
            value, place = value[int(number)], rest
        elif isinstance(value, list):
            entry = next(e for e in value if place.startswith(f"{e['name']}."))
            value, place = entry, place.removeprefix(f"{entry['name']}.")
        else:
            key, _, place = place.partition(".")
            value = value[key]
    return value


@pytest.mark.parametrize("scenario", ALL, ids=[s.name for s in ALL])
def test_scenario(scenario: Scenario, tmp_path: Path) -> None:
    assert scenario.narration or scenario.result, f"'{scenario.name}' expects nothing"
    told, result = tell(scenario, tmp_path)
    if scenario.narration:
        wanted = parts(scenario.narration.text)
        assert told == wanted, different(scenario.page, scenario.narration, wanted, told)
    if scenario.result:
        wanted = parts(scenario.result.text)
        got = [f"{place} = {json.dumps(at(result, place))}" for place in (line.split(" = ")[0] for line in wanted)]
        assert got == wanted, different(scenario.page, scenario.result, wanted, got)


def test_the_index_names_every_page_and_every_page_its_mechanisms() -> None:
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in PAGES.glob("*.md")} - {"README.md"}
    assert set(re.findall(r"\]\(([a-z-]+\.md)\)", index)) == pages
    for page in pages:
        assert "Mechanisms: " in PAGES.joinpath(page).read_text(encoding="utf-8"), page


def test_a_page_that_is_wrong_is_told_where(tmp_path: Path) -> None:
    scenario = next(s for s in ALL if s.narration)
    told, _ = tell(scenario, tmp_path)
    assert scenario.narration
    text = different(scenario.page, scenario.narration, ["r 0x0 | L1", *told[1:]], told)
    assert "-r 0x0 | L1" in text
    assert f"+{told[0]}" in text


def test_every_page_of_the_docs_can_be_reached() -> None:
    reached, ahead = set(), [DOCS / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        links = re.findall(r"\]\(([^)\s#]+)", page.read_text(encoding="utf-8"))
        ahead += [(page.parent / link).resolve() for link in links if not link.startswith("http")]
    assert set(DOCS.resolve().rglob("*.md")) <= {page.resolve() for page in reached}
