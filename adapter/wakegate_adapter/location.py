"""Where the store is: what `Adapter.open` was given, or what the environment says."""

import os
from collections.abc import Mapping
from pathlib import Path

from wakegate_adapter.errors import ControlNotYet, NotConfigured
from wakegate_schema.setting_types import sqlite_path, sqlite_url


def database_url(given: str | os.PathLike[str] | None, environment: Mapping[str, str]) -> str:
    """Return the store's database URL (DESIGN, "Interfaces").

    Args:
        given: a `sqlite:///` URL or the path of a database file; None to ask the environment.
        environment: WAKEGATE_CONTROL comes first, then WAKEGATE_DATABASE.

    Raises:
        ControlNotYet: a control address was given.
        NotConfigured: nothing usable was.
    """
    if given is not None:
        return _url(os.fspath(given), "the argument of Adapter.open")
    if "WAKEGATE_CONTROL" in environment:
        raise ControlNotYet(
            "WAKEGATE_CONTROL is set, but the control API comes in a later version of wakegate;"
            " unset it and set WAKEGATE_DATABASE (which trusts this process with the whole store)"
        )
    if "WAKEGATE_DATABASE" not in environment:
        raise NotConfigured(
            "set WAKEGATE_DATABASE to the store, such as sqlite:////var/lib/wakegate/wakegate.db,"
            " or give it to Adapter.open"
        )
    return _url(environment["WAKEGATE_DATABASE"], "WAKEGATE_DATABASE")


def _url(text: object, name: str) -> str:
    if isinstance(text, str) and text.endswith(".sock"):
        raise ControlNotYet(f"{name}: names a control socket, but the control API comes in a later version of wakegate")
    if isinstance(text, str) and text and "://" not in text and not text.startswith("sqlite:"):
        text = f"sqlite:///{Path(text)}"
    try:
        return f"sqlite:///{sqlite_path(sqlite_url(text)).absolute()}"
    except ValueError as error:
        raise NotConfigured(f"{name}: {error}") from None
