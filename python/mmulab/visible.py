"""Text that shows every character: no escape sequence in a name reaches a terminal or a file that people read.

Names of programs, files, arguments and regions come from what was recorded. A terminal obeys control characters in
them: it can be made to hide, to move or to rewrite what it shows.
"""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

# Control characters of ASCII are shown by the pictures that Unicode has of them. Blanks and ends of lines stay.
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"} | {0x7F: 0x2421}
# Those of ISO 6429 (0x9B begins a sequence, too), those that turn the direction of writing, and halves of characters.
_OTHERS = (
    range(0x80, 0xA0),
    range(0x200E, 0x2010),
    range(0x2028, 0x202F),
    range(0x2066, 0x206A),
    range(0xD800, 0xE000),
)
_REPLACED = 0xFFFD
_TABLE = _PICTURES | {code: _REPLACED for codes in _OTHERS for code in codes}
# In JSON each is written as its number, which is the same text to a program.
_JSON = {code: f"\\u{code:04x}" for code in _TABLE}


def visible(text: str) -> str:
    """The text with a visible character for each that a terminal would obey."""
    return text if text.isascii() and text.isprintable() else text.translate(_TABLE)


def visible_json(text: str) -> str:
    """JSON with every such character escaped. `text` is JSON, in which blanks and ends of lines are between values."""
    return text if text.isascii() and "\x7f" not in text else text.translate(_JSON)


class VisibleConsole(Console):
    """A console that shows what a terminal would obey. Its own colours are not text, and stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As any console does, with visible characters."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(visible(text), style)

    def render_str(self, text: str, **kwargs: Any) -> Any:
        """Before rich drops some control characters unseen."""
        return super().render_str(visible(text), **kwargs)
