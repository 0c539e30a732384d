"""The docs site: the navigation lists every page and notebook of docs/ once, and every link has its target.

These tests read mkdocs.yml as text and do not need mkdocs. Only the strict build needs it.
"""

import itertools
import os
import posixpath
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import CHECKOUT

DOCS = CHECKOUT / "docs"
# Documents outside docs/ whose links are checked, too.
DOCUMENTS = [CHECKOUT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES = sorted([*DOCS.glob("**/*.md"), *(page for page in DOCUMENTS if page.exists())])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def _outside_code(text: str) -> str:
    """The page without code blocks, and without links in inline code."""
    text = re.sub(r"^( *)(```+|~~~+)[^\n]*\n.*?^\1\2$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)(?:(?!\1).)+\1", lambda code: code[0].replace("](", "] ("), text, flags=re.DOTALL)


def _anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ +(.+?) *#*$", _outside_code(text), re.MULTILINE)
    words = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings)
    return {re.sub(r"[^\w\- ]", "", word.lower()).strip().replace(" ", "-") for word in words}


def _navigation() -> list[str]:
    """The pages that mkdocs.yml lists, relative to docs/."""
    text = (CHECKOUT / "mkdocs.yml").read_text("utf-8")
    return re.findall(r"^ +- .*?([\w./-]+\.md)$", text[text.index("\nnav:") :], re.MULTILINE)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [path for path in _navigation() if not path.startswith("checkout/")]
    there = [path.relative_to(DOCS).as_posix() for path in DOCS.glob("**/*.md")]
    # scripts/site_hook.py makes pages of notebooks.
    there += [path.relative_to(DOCS).with_suffix(".md").as_posix() for path in DOCS.glob("**/*.ipynb")]
    assert sorted(listed) == sorted(there)


def test_what_the_navigation_lists_outside_docs_is_there() -> None:
    outside = [path.removeprefix("checkout/") for path in _navigation() if path.startswith("checkout/")]
    assert "ARCHITECTURE.md" in outside
    assert [path for path in outside if not (CHECKOUT / path).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_every_link_of_a_document_has_its_target(page: Path) -> None:
    dead = []
    for link in LINK.findall(_outside_code(page.read_text("utf-8"))):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = Path(os.path.normpath(page.parent / path)) if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in _anchors(target.read_text())):
            dead.append(link)
    assert dead == []


def test_the_test_finds_links() -> None:
    """The pattern above finds many, and anchors of several kinds."""
    links = [link for page in PAGES for link in LINK.findall(_outside_code(page.read_text("utf-8")))]
    assert len(links) > 500
    assert _anchors("# A `heading_of` code\n## [Two](b.md), linked\n") == {"a-heading_of-code", "two-linked"}
    assert "~" not in _outside_code("~~~\n[a](b.md)\n~~~\n")


def test_a_list_begins_after_an_empty_line() -> None:
    """Without the empty line, mkdocs makes the list part of the paragraph; GitHub does not."""
    merged = []
    for page in PAGES:
        lines = _outside_code(page.read_text("utf-8")).splitlines()
        for before, line in itertools.pairwise(lines):
            if re.match(r"[-*] ", line) and before.strip() and not re.match(r" |[-*] ", before):
                merged.append(f"{posixpath.basename(page)}: {line}")
    assert merged == []


@pytest.mark.skipif(find_spec("material") is None, reason="mkdocs-material is in the extra `docs`")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "--site-dir", str(tmp_path)],
        cwd=CHECKOUT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / "index.html").is_file()
    assert (tmp_path / "checkout" / "ARCHITECTURE.html").is_file()
    index = (tmp_path / "search" / "search_index.json").read_text("utf-8")
    assert "page-walk cache" in index
    notebook = (tmp_path / "notebooks" / "sweep.html").read_text("utf-8")
    assert "16 jobs were run" in notebook
    assert "data:image/svg+xml;base64," in notebook
    assert (tmp_path / "notebooks" / "sweep.ipynb").is_file()
    # mkdocs recognised all code blocks.
    shown = (tmp_path / "scenarios" / "nested-walks.html").read_text("utf-8")
    assert "```" not in shown


def test_the_citation_has_the_version_of_the_package() -> None:
    found = [
        re.search(pattern, (CHECKOUT / name).read_text("utf-8"), re.MULTILINE)
        for name, pattern in (("pyproject.toml", r'^version = "(.+)"$'), ("CITATION.cff", r"^version: (.+)$"))
    ]
    versions = [match[1] for match in found if match]
    assert len(versions) == 2
    assert versions[0] == versions[1]


def test_the_gallery_is_small_and_all_linked() -> None:
    """Its reports are files of the repository, and name no paths of the computer they were made on."""
    reports = sorted((DOCS / "gallery").glob("*"))
    linked = re.findall(r"\(gallery/([\w-]+\.html)\)", (DOCS / "gallery.md").read_text("utf-8"))
    assert sorted(linked) == [report.name for report in reports]
    assert len(linked) >= 8
    assert sum(report.stat().st_size for report in reports) < 1_500_000
    for report in reports:
        text = report.read_text("utf-8")
        assert str(CHECKOUT) not in text, report.name
        assert re.findall(r"/(?:home|root|tmp)/[^ <]*", text) == [], report.name
