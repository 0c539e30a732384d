"""Groups of commands about named things: `mmulab machines NAME` shows one, as `mmulab machines show NAME` does."""

from difflib import get_close_matches

import rich_click as click

# How alike a word must be to a command's name to be taken for a slip of it: `lst` is, no machine's name is.
ALIKE = 0.75


class NamedGroup(click.RichGroup):
    """A group in which a word that is not one of its commands is a name to show."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, and what it is given."""
        word = args[0]
        is_name = self.get_command(ctx, word) is None and not word.startswith("-")
        if is_name and not get_close_matches(word, self.list_commands(ctx), cutoff=ALIKE):
            args = ["show", *args]
        return super().resolve_command(ctx, args)
