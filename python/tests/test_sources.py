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


def test_code_in_rust_comments_is_shown_and_not_run() -> None:
    """`make test` does not ask rustdoc for tests: examples that run are tests beside the code."""
    fence = re.compile(r"\s*//[/!] ```(.*)")
    wrong = []
    for path in RUST:
        fences = [m[1] for line in path.read_text(encoding="utf-8").splitlines() if (m := fence.match(line))]
        # Every second one ends a block.
        if set(fences[::2]) - {"text"} or set(fences[1::2]) - {""}:
            wrong.append(path)
    assert _relative(wrong) == []


# Comments in words that a reader must decipher, and their number in Rust sources. A number may only fall: lower it
# when you rewrite some.
DATED = {
    # "What it holds": the reader has to guess the noun.
    "documentation that begins with What": (r"//[/!] What ", 360),
    # One verb for nine actions: contain, show, print, count, report, distinguish, ...
    "comments with a form of tell": (r"//.*\b(?:[Tt]ells?|[Tt]old|[Tt]elling|untold)\b", 214),
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


# Pages that commands write from the code, and the list of changes, which quotes.
WRITTEN = ("docs/reference/", "docs/gallery.md", "CHANGELOG.md")
# Words of a sentence at most. The aim is 25: these numbers may only fall.
LONGEST = {
    "README.md": 25,
    "ARCHITECTURE.md": 24,
    "docs/questions/": 25,
    "docs/guide/probe.md": 31,
    "docs/results/performance.md": 36,
    "docs/results/forecast": 28,
    "docs/results/": 25,
    "": 28,
}
# The same for comments and docstrings.
WORDS = 28
# Longer sentences that are left, by file or folder. The numbers may only fall. Those of single files describe keys,
# and their texts stand in schemas or reference pages as well.
LEFT = {
    "crates/kernel/src/parts/text/mod.rs": 1,
    "crates/machine/benches/": 1,
    "crates/machine/src/describe/options.rs": 1,
    "crates/reshape/src/image/desc.rs": 1,
    "crates/tlb/": 33,
    "crates/walker/": 9,
}


def _sentences(page: str) -> list[tuple[int, str]]:
    """The sentences of a page's prose with their numbers of words: no code or tables; a code span is one word."""
    text = re.sub(r"^ *(```+).*?^ *\1`*$", "\n\n", page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(\||#| {4,}\S|\s*<).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ *([-*]|\d+\.) ", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"``.*?``|`[^`]*`", "Code", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    ends = re.compile(r"(?<=[.!?])[\"”)*\]]*\s+(?=[\"“(*\[]*[A-Z0-9]|(?:mmulab|glibc|khugepaged|jemalloc|zstd|fork)\b)")
    found = [one for block in re.split(r"\n\s*\n", text) for one in ends.split(block)]
    return [(sum(bool(re.search(r"\w", word)) for word in one.split()), " ".join(one.split())) for one in found]


def test_sentences_of_written_pages_are_short() -> None:
    """A sentence with more than 25 words mostly chains facts that a list, or two sentences, would show apart."""
    pages = [CHECKOUT / "README.md", CHECKOUT / "ARCHITECTURE.md", *sorted(CHECKOUT.glob("docs/**/*.md"))]
    pages = [page for page in pages if not str(page.relative_to(CHECKOUT)).startswith(WRITTEN)]
    assert len(pages) > 100
    said = [(str(page.relative_to(CHECKOUT)), *one) for page in pages for one in _sentences(page.read_text("utf-8"))]
    assert len(said) > 5000
    longest = [next(most for start, most in LONGEST.items() if one[0].startswith(start)) for one in said]
    assert [one for one, most in zip(said, longest, strict=True) if one[1] > most] == []


def _comments(path: Path) -> list[str]:
    """The comments of a source file, lines that follow each other as one text, and the docstrings of Python."""
    text = path.read_text(encoding="utf-8")
    texts: list[list[str]] = []
    last: str | None = None
    for line in text.splitlines():
        found = re.match(r"\s*(//[/!]?|#)(?: (.*))?$", line)
        mark = found.group(1) if found else None
        if found and mark == last:
            texts[-1].append(found.group(2) or "")
        elif found:
            texts.append([found.group(2) or ""])
        last = mark
    comments = ["\n".join(lines) for lines in texts]
    if path.suffix == ".py":
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
        comments += [ast.get_docstring(node) or "" for node in nodes]
    return comments


@pytest.mark.parametrize(("paths", "least"), [(RUST, 12_000), (PYTHON, 4000)], ids=["rust", "python"])
def test_sentences_of_comments_are_short(paths: list[Path], least: int) -> None:
    found = 0
    long: dict[str, list[tuple[str, int, str]]] = {}
    for path in paths:
        name = str(path.relative_to(CHECKOUT))
        said = [one for text in _comments(path) for one in _sentences(text)]
        found += len(said)
        place = next((start for start in LEFT if name.startswith(start)), "")
        long.setdefault(place, []).extend((name, *one) for one in said if one[0] > WORDS)
    assert found > least
    assert [one for place, ones in long.items() if len(ones) > LEFT.get(place, 0) for one in ones] == []


def test_a_long_sentence_is_found() -> None:
    chain = "One fact and " + "another and " * 15 + "`code with blanks` ([a link](x.md#and-its-place))."
    assert max(_sentences(f"# Title\n\nShort. {chain}\n\n```\n{chain}\n```\n"))[0] == 3 + 30 + 3
    assert _sentences("One. Two (*three*). And four.\n- Five.\n")[0] == (1, "One.")


def test_a_long_sentence_of_a_comment_is_found(tmp_path: Path) -> None:
    chain = "One fact and " + "another and\n{0}" + "another and " * 14 + "`code`."
    rust, python = tmp_path / "one.rs", tmp_path / "one.py"
    rust.write_text(f"//! Short.\nfn f() {{}}\n/// {chain.format('/// ')}\n// Of another comment.\nfn g() {{}}\n")
    python.write_text(f'"""{chain.format("")}\n\nShort."""\n\n# Short. {chain.format("# ")}\nX = 1\n')
    lengths = [[one[0] for text in _comments(path) for one in _sentences(text)] for path in (rust, python)]
    assert lengths == [[1, 34, 3], [1, 34, 34, 1]]
