"""mkdocs's hook for the docs site: links to files outside `docs/`, nested lists, titles of code blocks.

mkdocs knows the files of `docs/` alone. Pages also link to ARCHITECTURE.md, to machine files and to sources of the
checkout. The hook puts each of these files into the site, below `checkout/`: Markdown and sources as pages, others as
they are. Notebooks become pages with the outputs that they keep, and lie beside these pages as they are.
"""

import base64
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markdown import Markdown
from markdown.blockprocessors import CodeBlockProcessor, ListIndentProcessor
from markdown.extensions import Extension
from markdown.extensions.sane_lists import SaneOListProcessor, SaneUListProcessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PLACE = "checkout"
# Documents of the checkout that the site always contains.
DOCUMENTS = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "moonshot/README.md")
# The first line of a code block with a language and more: "```toml machine".
FENCE = re.compile(r"^( *```+)(\w+) +([^\n{]+)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")
SHOWN = {".toml": "toml", ".rs": "rust", ".c": "c", ".py": "python"}


class TwoSpaces(Extension):
    """Lists nest by two spaces, as the pages (and GitHub) have it; blocks of code stay at four."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Replaces the processors that depend on the indentation."""
        md.tab_length = 2
        code = CodeBlockProcessor(md.parser)
        code.tab_length = 4
        # Processors compile the indentation when they are made. The priorities are Markdown's own.
        processors = md.parser.blockprocessors
        processors.register(ListIndentProcessor(md.parser), "indent", 90)
        processors.register(code, "code", 80)
        processors.register(SaneOListProcessor(md.parser), "olist", 40)
        processors.register(SaneUListProcessor(md.parser), "ulist", 30)


def _outside(page: str, text: str) -> Iterator[str]:
    """The files outside `docs/` that a page links to, by their paths in the checkout."""
    for target, _ in LINK.findall(text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if not path.startswith(("docs/", "..")) and (ROOT / path).is_file():
            yield path


def _as_page(path: str) -> str:
    """The place of a file of the checkout among the site's sources. A source file gets a page."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{PLACE}/{path}" + (".md" if Path(path).suffix in SHOWN else "")


def notebook_page(text: str, name: str) -> str:
    """A notebook as Markdown: its texts, its code, and what that printed."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(
            source.replace(".ipynb)", ".md)") if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        )
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if picture := "".join(data.get("image/svg+xml", [])):
                encoded = base64.b64encode(picture.encode()).decode()
                parts.append(f'<img alt="What the cell above draws" src="data:image/svg+xml;base64,{encoded}">')
            elif shown := "".join(output.get("text", data.get("text/plain", []))).rstrip():
                parts.append(f"```text\n{shown}\n```")
    heading, *rest = parts
    about = f"This page is a notebook: [download it]({name}). A test executes it and compares what it prints."
    return "\n\n".join([heading, about, *rest]) + "\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the extension for lists."""
    config.markdown_extensions.append(TwoSpaces())  # type: ignore[arg-type]
    return config


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Adds what lies outside `docs/`, and pages of notebooks."""
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        content = notebook_page(notebook.read_text("utf-8"), notebook.name)
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=content))
    found = set(DOCUMENTS)
    for file in files.documentation_pages():
        found |= set(_outside(f"docs/{file.src_uri}", file.content_string))
    for path in DOCUMENTS:
        found |= set(_outside(path, (ROOT / path).read_text("utf-8")))
    for path in sorted(found):
        text = ROOT / path
        kind = SHOWN.get(text.suffix)
        if kind:
            shown = f"# {path}\n\n~~~~~~{kind}\n{text.read_text('utf-8')}\n~~~~~~\n"
            files.append(File.generated(config, _as_page(path), content=shown))
        else:
            files.append(File.generated(config, _as_page(path), abs_src_path=str(text)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Points links to and from files outside `docs/` at the site's pages, and gives code blocks titles."""
    uri = page.file.src_uri
    inside = not uri.startswith(f"{PLACE}/")
    source = f"docs/{uri}" if inside else uri.removeprefix(f"{PLACE}/")

    def moved(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        # A notebook's own page has a link to the file.
        if path.startswith("docs/notebooks/") and path.endswith(".ipynb") and not uri.startswith("notebooks/"):
            page = path.removeprefix("docs/").removesuffix("ipynb") + "md"
            return f"]({posixpath.relpath(page, posixpath.dirname(uri) or '.')}{link[2] or ''})"
        if (inside and path.startswith("docs/")) or not (ROOT / path).is_file():
            return link[0]
        return f"]({posixpath.relpath(_as_page(path), posixpath.dirname(uri) or '.')}{link[2] or ''})"

    return FENCE.sub(r'\1\2 title="\3"', LINK.sub(moved, markdown))
