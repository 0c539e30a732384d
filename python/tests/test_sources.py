"""Source files open with what they are and why they exist, lines fit a screen, and comments use plain words."""

import ast
import re
from pathlib import Path

import pytest
from conftest import CHECKOUT

COLUMNS = 120
RUST = sorted(CHECKOUT.glob("crates/**/*.rs"))
PYTHON = sorted([*CHECKOUT.glob("python/**/*.py"), *CHECKOUT.glob("scripts/*.py")])


def _relative(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(CHECKOUT)) for path in paths]


@pytest.mark.parametrize(("paths", "least"), [(RUST, 400), (PYTHON, 200)], ids=["rust", "python"])
def test_a_source_file_opens_with_what_it_is(paths: list[Path], least: int) -> None:
    def opens(path: Path) -> bool:
        text = path.read_text(encoding="utf-8")
        return text.startswith("//!") if path.suffix == ".rs" else bool(ast.get_docstring(ast.parse(text)))

    assert len(paths) > least
    assert _relative([path for path in paths if not opens(path)]) == []


def test_lines_of_rust_sources_have_120_columns_at_most() -> None:
    """Rustfmt leaves comments, texts and macros as they are. Ruff checks Python."""
    long = [
        f"{path.relative_to(CHECKOUT)}:{number}"
        for path in RUST
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > COLUMNS
    ]
    assert long == []


# Comments in words that a reader must decipher, and their number in Rust sources. A number may only fall: lower it
# when you rewrite some.
DATED = {
    # "What it holds": the reader has to guess the noun.
    "documentation that begins with What": (r"//[/!] What ", 668),
    # One verb for nine actions: contain, show, print, count, report, distinguish, ...
    "comments with a form of tell": (r"//.*\b(?:[Tt]ells?|[Tt]old|[Tt]elling|untold)\b", 303),
}


@pytest.mark.parametrize("name", DATED)
def test_dated_words_of_comments_only_become_fewer(name: str) -> None:
    pattern, most = DATED[name]
    begins = re.compile(rf"\s*{pattern}")
    found = [
        f"{path.relative_to(CHECKOUT)}:{number}"
        for path in RUST
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if begins.match(line)
    ]
    assert len(found) <= most, f"{name}: {len(found)}, and {most} are allowed: write new ones in other words"


def test_pages_name_source_files_that_exist() -> None:
    pages = [CHECKOUT / "README.md", CHECKOUT / "ARCHITECTURE.md", *CHECKOUT.glob("docs/**/*.md")]
    named = {
        (page, name)
        for page in pages
        for name in re.findall(r"crates/[\w-]+/[a-z0-9_/-]+\.rs", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert sorted(f"{page.name}: {name}" for page, name in named if not (CHECKOUT / name).exists()) == []
