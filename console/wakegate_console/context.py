"""What the root command hands to every other: where the settings come from."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wakegate_console.importing import importing

if TYPE_CHECKING:
    from wakegate_schema.settings import Settings


@dataclass(frozen=True, slots=True)
class Context:
    """The options of the root command."""

    config: Path | None = None
    """The file given by `--config`; None looks for `$WAKEGATE_CONFIG`, then for `./wakegate.toml`."""

    def settings(self) -> "Settings":
        """Read the settings from environment and file. Raises `SettingsError` naming what is wrong."""
        with importing():
            from wakegate_schema.settings import load_settings

        return load_settings(self.config)

    def arguments(self) -> list[str]:
        """Return the arguments that make a child command read the same settings."""
        return [] if self.config is None else ["--config", str(self.config)]


pass_context = click.make_pass_decorator(Context, ensure=True)
"""Hand the `Context` to a command as its first argument."""
