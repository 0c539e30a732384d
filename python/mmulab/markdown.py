"""Tables as Markdown."""

from collections.abc import Sequence


def grid(head: Sequence[str], rows: Sequence[Sequence[str]], text: int = 1) -> str:
    """A table whose first `text` columns are text."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * text}{'--:|' * (len(head) - text)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def percent(value: float) -> str:
    """With a sign."""
    return f"{value:+.1%}"
