"""Where wakegate is: what `Adapter.open` was given, or what the environment says."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from wakegate_adapter.errors import NotConfigured
from wakegate_schema.addresses import Address
from wakegate_schema.queue import QueueLocation
from wakegate_schema.sealing import BearerToken
from wakegate_schema.secret_files import load_bearer_token
from wakegate_schema.setting_types import control_address, pool, queue, secret_path, sqlite_path, store_url
from wakegate_schema.store.location import StoreLocation

TOKEN_FILE: Final = "WAKEGATE_CONTROL_TOKEN_FILE"  # noqa: S105 (where it is, not what it is)
PASSWORD_FILE: Final = "WAKEGATE_DATABASE_PASSWORD_FILE"  # noqa: S105 (where it is, not what it is)
QUEUE_PASSWORD_FILE: Final = "WAKEGATE_QUEUE_PASSWORD_FILE"  # noqa: S105 (where it is, not what it is)
_ARGUMENT: Final = "the argument of Adapter.open"


@dataclass(frozen=True, slots=True)
class Control:
    """The receiver's control API."""

    address: Path | Address
    token: BearerToken | None


def find(given: str | os.PathLike[str] | None, environment: Mapping[str, str]) -> StoreLocation | Control:
    """Return where to go (DESIGN, "Interfaces").

    Args:
        given: a control socket's path, `host:port`, a database file's path, a store's URL; None to ask the
            environment.
        environment: WAKEGATE_CONTROL comes first, then WAKEGATE_DATABASE; WAKEGATE_CONTROL_TOKEN_FILE names the file
            with the token for the control API.

    Raises:
        NotConfigured: nothing usable was given.
        SecretFileError: the token's file cannot be used.
    """
    if given is not None:
        text = os.fspath(given)
        return _control(text, _ARGUMENT, environment) if _is_control(text) else _database(text, _ARGUMENT, environment)
    if "WAKEGATE_CONTROL" in environment:
        return _control(environment["WAKEGATE_CONTROL"], "WAKEGATE_CONTROL", environment)
    if "WAKEGATE_DATABASE" not in environment:
        raise NotConfigured(
            "set WAKEGATE_CONTROL to the receiver's control socket, such as /run/wakegate/control.sock, or"
            " WAKEGATE_DATABASE to the store (which trusts this process with all of it), or give it to Adapter.open"
        )
    return _database(environment["WAKEGATE_DATABASE"], "WAKEGATE_DATABASE", environment)


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
    path = _secret_path(TOKEN_FILE, environment)
    return None if path is None else load_bearer_token(path, "the token for the control API")


def _database(text: object, name: str, environment: Mapping[str, str]) -> StoreLocation:
    if isinstance(text, str) and text and "://" not in text and not text.startswith("sqlite:"):
        text = f"sqlite:///{Path(text)}"
    try:
        location = StoreLocation(store_url(text), _secret_path(PASSWORD_FILE, environment), _queue(environment))
    except ValueError as error:
        raise NotConfigured(f"{name}: {error}") from None
    if location.is_postgresql:
        return location
    return replace(location, url=f"sqlite:///{sqlite_path(location.url).absolute()}", password_file=None)


def _queue(environment: Mapping[str, str]) -> QueueLocation:
    """Return what the environment says of the queue, which whoever opens the store rings."""
    given: dict[str, str] = {}
    for name, check in (("WAKEGATE_QUEUE", queue), ("WAKEGATE_POOL", pool)):
        if name in environment:
            try:
                given[name] = check(environment[name])
            except ValueError as error:
                raise NotConfigured(f"{name}: {error}") from None
    where = QueueLocation()
    url, of = given.get("WAKEGATE_QUEUE", where.url), given.get("WAKEGATE_POOL", where.pool)
    return QueueLocation(url, _secret_path(QUEUE_PASSWORD_FILE, environment), of)


def _secret_path(name: str, environment: Mapping[str, str]) -> Path | None:
    if name not in environment:
        return None
    try:
        return secret_path(environment[name])
    except ValueError as error:
        raise NotConfigured(f"{name}: {error}") from None
