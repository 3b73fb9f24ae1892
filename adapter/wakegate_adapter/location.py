"""Where wakegate is: what `Adapter.open` was given, or what the environment says."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wakegate_adapter.errors import NotConfigured
from wakegate_schema.addresses import Address
from wakegate_schema.sealing import BearerToken
from wakegate_schema.secret_files import load_bearer_token
from wakegate_schema.setting_types import control_address, secret_path, sqlite_path, sqlite_url

TOKEN_FILE: Final = "WAKEGATE_CONTROL_TOKEN_FILE"  # noqa: S105 (where it is, not what it is)
_ARGUMENT: Final = "the argument of Adapter.open"


@dataclass(frozen=True, slots=True)
class Database:
    """The store itself."""

    url: str


@dataclass(frozen=True, slots=True)
class Control:
    """The receiver's control API."""

    address: Path | Address
    token: BearerToken | None


def find(given: str | os.PathLike[str] | None, environment: Mapping[str, str]) -> Database | Control:
    """Return where to go (DESIGN, "Interfaces").

    Args:
        given: a control socket's path, `host:port`, a database file's path or its `sqlite:///` URL; None to ask the
            environment.
        environment: WAKEGATE_CONTROL comes first, then WAKEGATE_DATABASE; WAKEGATE_CONTROL_TOKEN_FILE names the file
            with the token for the control API.

    Raises:
        NotConfigured: nothing usable was given.
        SecretFileError: the token's file cannot be used.
    """
    if given is not None:
        text = os.fspath(given)
        return _control(text, _ARGUMENT, environment) if _is_control(text) else _database(text, _ARGUMENT)
    if "WAKEGATE_CONTROL" in environment:
        return _control(environment["WAKEGATE_CONTROL"], "WAKEGATE_CONTROL", environment)
    if "WAKEGATE_DATABASE" not in environment:
        raise NotConfigured(
            "set WAKEGATE_CONTROL to the receiver's control socket, such as /run/wakegate/control.sock, or"
            " WAKEGATE_DATABASE to the store (which trusts this process with all of it), or give it to Adapter.open"
        )
    return _database(environment["WAKEGATE_DATABASE"], "WAKEGATE_DATABASE")


def _is_control(text: object) -> bool:
    if not isinstance(text, str) or "://" in text or text.startswith("sqlite:"):
        return False
    if ":" in text and "/" not in text:
        return True
    try:
        return stat.S_ISSOCK(Path(text).stat().st_mode)
    except (OSError, ValueError):
        return text.endswith(".sock")


def _control(text: str, name: str, environment: Mapping[str, str]) -> Control:
    try:
        address = control_address(text)
    except ValueError as error:
        raise NotConfigured(f"{name}: {error}") from None
    token = _token(environment)
    if isinstance(address, Address) and token is None:
        raise NotConfigured(
            f"{name}: over TCP the receiver asks for a token; set {TOKEN_FILE} to a file, readable by its owner only,"
            " with the token that `wakegate harness add` was given, or use the control socket"
        )
    return Control(address if isinstance(address, Address) else address.absolute(), token)


def _token(environment: Mapping[str, str]) -> BearerToken | None:
    if TOKEN_FILE not in environment:
        return None
    try:
        path = secret_path(environment[TOKEN_FILE])
    except ValueError as error:
        raise NotConfigured(f"{TOKEN_FILE}: {error}") from None
    return load_bearer_token(path, "the token for the control API")


def _database(text: object, name: str) -> Database:
    if isinstance(text, str) and text and "://" not in text and not text.startswith("sqlite:"):
        text = f"sqlite:///{Path(text)}"
    try:
        return Database(f"sqlite:///{sqlite_path(sqlite_url(text)).absolute()}")
    except ValueError as error:
        raise NotConfigured(f"{name}: {error}") from None
