"""PostgreSQL: how it is connected to, and what its errors mean here."""

from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg.types.numeric import Int2Dumper

from wakegate_schema.errors import WakegateError
from wakegate_schema.secret_files import read_secret_file
from wakegate_schema.store.errors import (
    Collided,
    InvariantViolated,
    StoreDenied,
    StoreOutdated,
    StoreUnavailable,
    UnstorableValue,
)
from wakegate_schema.store.location import StoreLocation

PgConnection = psycopg.Connection[DictRow]

DEFAULTS: Final[dict[str, str | int]] = {
    "application_name": "wakegate",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",
}
"""What the URL may say otherwise: a server that is cut off is noticed within ten seconds, and of several hosts the one
that takes writes is used."""

_NOT_STORABLE = (psycopg.DataError, OverflowError, UnicodeError)


class _FlagDumper(Int2Dumper):
    """Writes true and false as 1 and 0, as SQLite has them."""

    def dump(self, obj: Any) -> Any:
        return super().dump(int(obj))


def connect(location: StoreLocation, **options: str) -> PgConnection:
    """Connect, so that nothing depends on the session: a pooler may give each transaction another one.

    Args:
        location: where.
        options: libpq's, over those of the URL.

    Raises psycopg.Error when that does not work now, `WakegateError` when the password's file cannot be read.
    """
    chosen = conninfo_to_dict(location.url)
    if location.password_file is not None:
        chosen["password"] = read_secret_file(location.password_file, "the database's password")
    connection = psycopg.connect(
        **{**DEFAULTS, **chosen, **options, "client_encoding": "utf8"},  # type: ignore[arg-type]
        autocommit=True,
        prepare_threshold=None,
        row_factory=dict_row,
    )
    connection.adapters.register_dumper(bool, _FlagDumper)
    return connection


def translate(error: Exception, location: StoreLocation) -> Exception:
    """Turn a driver's error about a store into ours; leave anything else as it is."""
    if isinstance(error, WakegateError):
        return error
    if isinstance(error, errors.SerializationFailure | errors.DeadlockDetected):
        return Collided(f"the store at {location.url} had to break off a transaction; try again")
    if isinstance(error, psycopg.IntegrityError):
        return InvariantViolated(f"the database refused a change: {_message(error)}")
    if isinstance(error, _NOT_STORABLE):
        return UnstorableValue(f"the database cannot hold a value of this call ({type(error).__name__})")
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return StoreOutdated(
            f"the database at {location.url} has not the tables of this version; run `wakegate db migrate`"
        )
    message = f"the store at {location.url} cannot be used: {_message(error)}"
    if isinstance(error, psycopg.Error | OSError):
        word = _word(error)
        if word == "store_denied":
            return StoreDenied(message + (_LOGIN if _is_login(error) else _RIGHTS))
        return StoreUnavailable(message + (_NEXT.get(word) or _on_the_way(error)), reason=word)
    return error


_NEXT = {
    "disk_full": "; make room",
    "store_corrupt": "; stop the services and have the database looked after before anything else is written",
    "store_read_only": "; it is a standby, or made read-only: name the primary",
    "store_overloaded": "; give the server more connections, or put a pooler before it",
    "store_busy": "; somebody else has been writing for long, or was stopped while writing; it is tried again",
}
"""What to do next, where it is always the same."""
_RIGHTS: Final = "; see docs/postgresql.md for what the role needs"
_LOGIN: Final = "; see the user in WAKEGATE_DATABASE, WAKEGATE_DATABASE_PASSWORD_FILE, and the server's pg_hba.conf"

_WORDS: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.InsufficientPrivilege, "store_denied"),
    (errors.InvalidAuthorizationSpecification, "store_denied"),
    (errors.DiskFull, "disk_full"),
    (errors.ReadOnlySqlTransaction, "store_read_only"),
    (errors.FeatureNotSupported, "store_read_only"),  # to write in a standby that a pooler led to
    (errors.InsufficientResources, "store_overloaded"),
    (errors.LockNotAvailable, "store_busy"),
    (errors.DataCorrupted, "store_corrupt"),
    (errors.IndexCorrupted, "store_corrupt"),
)


_AT_LOGIN: tuple[tuple[str, str], ...] = (
    ("password authentication failed", "store_denied"),
    ("no password supplied", "store_denied"),
    ("no pg_hba.conf entry", "store_denied"),
    ("permission denied for database", "store_denied"),
    ("is not permitted to log in", "store_denied"),
    ("too many c", "store_overloaded"),
    ("connection slots are reserved", "store_overloaded"),
    ("session is read-only", "store_read_only"),
)
"""Before there is a session libpq gives no code, but the text; where a server speaks another language, the word is the
general one."""


def _is_login(error: Exception) -> bool:
    return isinstance(error, psycopg.Error) and error.sqlstate is None and "permission denied" not in str(error)


def _on_the_way(error: Exception) -> str:
    """Say what to do about a connection that did not come about; nothing of one that broke."""
    said = str(error)
    if not said.startswith(("connection failed", "connection is bad", "connection timeout", "failed to resolve")):
        return ""
    if said.rstrip().endswith('" does not exist'):
        return "; make that, or correct the name (docs/postgresql.md)"
    return "; see that PostgreSQL runs where WAKEGATE_DATABASE says, and that the network lets this host there"


def _word(error: Exception) -> str:
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return next((word for text, word in _AT_LOGIN if text in str(error)), "store_unavailable")
    return next((word for kind, word in _WORDS if isinstance(error, kind)), "store_unavailable")


def _message(error: Exception) -> str:
    """Return the first line of what the server says; more of it may hold values."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return (primary or str(error) or type(error).__name__).strip().splitlines()[0]
