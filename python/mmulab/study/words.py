"""The terms of a report: each is a link to its entry in the report's own section "Words", out of docs/glossary.md.

docs/glossary.md --> glossary() --> Words.link(term), wherever the report has one --> Words.used, its last section
"""

import re
from dataclasses import dataclass

from markupsafe import Markup, escape

from mmulab import paths

# A row of the glossary's tables: terms, meaning, source.
_ROW = re.compile(r"^\| (?P<terms>[^|]+) \| (?P<meaning>[^|]+) \|(?P<source>[^|]*)\|$")
# A Markdown link, of which a report keeps the text: it can be read where the documents are not.
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


@dataclass(frozen=True)
class Entry:
    """An entry of the glossary, as plain text."""

    terms: str
    meaning: str
    source: str

    @property
    def anchor(self) -> str:
        """Its place in the report."""
        return "word-" + re.sub(r"[^a-z0-9]+", "-", self.terms.lower()).strip("-")


def glossary() -> dict[str, Entry]:
    """The entries by term. Several terms may share one; the headings of the tables are none."""
    found: dict[str, Entry] = {}
    for line in paths.glossary().read_text(encoding="utf-8").splitlines():
        row = _ROW.match(line)
        if row is None or row["terms"] == "term":
            continue
        terms, meaning, source = (_LINK.sub(r"\1", row[name]).replace("`", "").strip() for name in row.groupdict())
        entry = Entry(terms, meaning, source)
        found.update((term.strip(), entry) for term in terms.split(","))
    return found


class Words:
    """The terms that one report has links for."""

    def __init__(self) -> None:
        self._known = glossary()
        self._used: dict[str, Entry] = {}

    def link(self, term: str, text: str = "") -> Markup:
        """The term, or another text in its place, as a link to its entry. Raises KeyError for an unknown term."""
        entry = self._known[term]
        self._used[entry.anchor] = entry
        return Markup('<a class="word" href="#{}">{}</a>').format(entry.anchor, Markup(text) or escape(term))

    @property
    def used(self) -> list[Entry]:
        """The entries that were linked to, in the order of the alphabet."""
        return sorted(self._used.values(), key=lambda entry: entry.terms.lower())
