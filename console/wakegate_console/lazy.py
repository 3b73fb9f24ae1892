"""A command group that imports a command only when it is used, so that `--help` answers at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from wakegate_console.importing import importing


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command is defined, and its line in the group's help."""

    module: str
    attribute: str
    summary: str


class LazyGroup(click.Group):
    """A group over entries, in their order."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry] | None = None, **kwargs: Any) -> None:
        """Take the entries by command name; everything else as `click.Group`."""
        super().__init__(*args, **kwargs)
        self.entries = dict(entries or {})

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Return the names of the commands, in the order of the entries."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command and return it; None when there is no such command."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        with importing():
            command = getattr(import_module(entry.module), entry.attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.module}.{entry.attribute} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands' lines without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])
