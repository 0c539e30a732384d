"""A group whose commands are imported when they are asked for.

`mmulab --version` and each command import only what they need, and not numpy, the ELF reader and the papers'
experiments of all other commands.
"""

from importlib import import_module
from typing import Any

import rich_click as click


class LazyGroup(click.RichGroup):
    """Commands by their names, each with the place of its function: `module:function`."""

    def __init__(self, *args: Any, places: dict[str, str] | None = None, **kwargs: Any) -> None:
        """`places`: in the order in which help lists them."""
        super().__init__(*args, **kwargs)
        self.places = places or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now if it was not before."""
        if cmd_name in self.places and cmd_name not in self.commands:
            module, function = self.places[cmd_name].split(":")
            self.add_command(getattr(import_module(module), function), cmd_name)
        elif cmd_name not in self.places:
            # A mistake: what is suggested instead is one of all commands.
            self.loaded()
        return super().get_command(ctx, cmd_name)

    def loaded(self) -> dict[str, click.Command]:
        """All commands, for what walks through them: references, help snapshots."""
        ctx = click.Context(self)
        return {name: command for name in self.places if (command := self.get_command(ctx, name)) is not None}
