"""Parameter types: what the text of an option or argument may be. A wrong one is refused by its name."""

from pathlib import Path
from typing import Any

import click

from wakegate_schema.errors import WakegateError


class _Checked(click.ParamType[Any]):
    """Text that a function of the schema reads; its error becomes the option's."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what the text says, or fail naming the option."""
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except WakegateError as error:
            self.fail(str(error), param, ctx)

    def read(self, text: str) -> Any:
        """Return what the text says. Raises a `WakegateError` for any other form."""
        raise NotImplementedError


class ProviderUrl(_Checked):
    """A provider's base URL, in its canonical form."""

    name = "URL"

    def read(self, text: str) -> str:
        """Return the canonical base URL."""
        from wakegate_schema.urls import base_url

        return base_url(text)


class WebhookUrl(_Checked):
    """The URL of a receiver, as a provider may call it."""

    name = "URL"

    def read(self, text: str) -> str:
        """Return the URL unchanged."""
        from wakegate_schema.urls import webhook_url

        return webhook_url(text)


class Identifier(_Checked):
    """A UUID, in lower case."""

    name = "ID"

    def read(self, text: str) -> str:
        """Return the UUID in its canonical form."""
        from wakegate_schema import ids

        return ids.parse(text)


class Beginning(_Checked):
    """A UUID, or at least the first four characters of one; in lower case."""

    name = "ID"

    def read(self, text: str) -> str:
        """Return it in lower case."""
        from wakegate_console.lookup import SHORTEST, prefix
        from wakegate_schema.ids import MalformedId

        found = prefix(text)
        if found is None:
            raise MalformedId(
                f"is not an id such as f4b96ac4-404d-4f6a-9a03-a0565edc4922, nor the first {SHORTEST} or more"
                " characters of one"
            )
        return found


class HarnessName(click.ParamType[str]):
    """What a harness may be called."""

    name = "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name as it is, or fail naming the argument."""
        from wakegate_schema.setting_types import table_name

        try:
            return table_name(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)


class StoreUrl(click.ParamType[str]):
    """A store's URL, an SQLite file by its whole path."""

    name = "URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the URL, or fail naming the argument."""
        from wakegate_schema.setting_types import is_postgresql, sqlite_path, store_url

        try:
            url = store_url(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        return url if is_postgresql(url) else f"sqlite:///{sqlite_path(url).absolute()}"


class User(click.ParamType[int]):
    """A user of this machine by name, or any user by number."""

    name = "USER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the user's number, or fail naming the option."""
        import pwd

        from wakegate_schema.harness_tables import user_id

        text = str(value)
        try:
            return user_id(int(text) if text.isascii() and text.isdecimal() else pwd.getpwnam(text).pw_uid)
        except KeyError:
            self.fail(f"{text!r} is no user of this machine, and no number.", param, ctx)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)


class Duration(_Checked):
    """A duration as AAP writes it, in microseconds."""

    name = "DURATION"

    def read(self, text: str) -> int:
        """Return the microseconds."""
        from wakegate_schema import timestamps

        return timestamps.duration(text)


class Moment(_Checked):
    """An RFC 3339 UTC timestamp, in microseconds since the epoch."""

    name = "TIME"

    def read(self, text: str) -> int:
        """Return the moment."""
        from wakegate_schema import timestamps

        return timestamps.parse(text)


class Words(click.ParamType[str]):
    """Text for people: not empty, printable, of bounded length."""

    name = "TEXT"

    def __init__(self, longest: int) -> None:
        """Take the greatest length in characters."""
        self.longest = longest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text as it is, or fail naming the option."""
        text = str(value)
        if not text.strip():
            self.fail("is empty; say something.", param, ctx)
        if len(text) > self.longest:
            self.fail(f"is over {self.longest} characters.", param, ctx)
        if not all(character.isprintable() or character in "\n\t" for character in text):
            self.fail("has control characters in it.", param, ctx)
        return text


PROVIDER_URL = ProviderUrl()
WEBHOOK_URL = WebhookUrl()
IDENTIFIER = Identifier()
BEGINNING = Beginning()
DURATION = Duration()
MOMENT = Moment()
HARNESS = HarnessName()
USER = User()
STORE_URL = StoreUrl()
CALLED = Words(255)
"""What something is called: an id, the beginning of one, a name or a key."""
NAME = Words(100)
NOTE = Words(2000)
SECRET_FILE = click.Path(path_type=Path)
"""The path of a file that holds a secret; its reader refuses it by its path."""

by_provider = click.option(
    "--provider-url", type=PROVIDER_URL, metavar="URL", help="Which provider's, if two have an instance of that name."
)
"""For every command that names an instance."""
