"""Harness tables: who may use the control API, and which instances are theirs, as the operator's file says now."""

import hashlib
import hmac
import os
import re
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from wakegate_schema import ids
from wakegate_schema.errors import WakegateError
from wakegate_schema.setting_sources import ConfigFile, MalformedFile, finding, read_settings_file, shown, tables_in
from wakegate_schema.setting_types import table_name, text

OVERFLOW_UID = 65_534
"""What the kernel shows for every user that a user namespace does not map: nobody in particular."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MOST_INSTANCES = 100
_LONGEST_INSTANCE = 255
_HIGHEST_UID = 2**32 - 2
_SETTLED_NS = 2_000_000_000


class HarnessesUnreadable(WakegateError):
    """The settings file does not say which harness may use what; its operator must mend it (no restart is needed).

    A message that says more is for the operator: it may name other harnesses.
    """

    reason = "harnesses_unreadable"


@dataclass(frozen=True, slots=True)
class Harness:
    """One harness, and what proves that it is the one who asks."""

    name: str
    instances: frozenset[str]
    """Names or ids."""
    uid: int | None = None
    """The user whose processes it is, on the control socket."""
    token_sha256: str | None = field(default=None, repr=False)
    """SHA-256 of its bearer token, in hex."""


class Harnesses:
    """The harnesses of the settings file as it is now; a change needs no restart.

    Every question costs a `stat`; the file is read again when that shows another one. A file that is malformed or
    gone answers nobody: what it used to say may be just what the operator has taken back.
    """

    def __init__(self, file: ConfigFile | None, tables: "Mapping[str, HarnessTable] | None" = None) -> None:
        """Look at nothing yet.

        Args:
            file: the settings file in force (`Settings.config_file`). None: the tables given hold for good.
            tables: what holds where there is no file (`Settings.harness`).
        """
        self._file = file
        self._current = _harnesses(tables or {})
        self._read = _Read()
        self._wrong: tuple[bytes | None, str] = None, ""
        """The last that could not be understood, and why."""

    def current(self) -> Mapping[str, Harness]:
        """Return every harness by name, in the file's order.

        Raises:
            HarnessesUnreadable: the file is malformed, is gone, or cannot be read.
        """
        if self._file is not None and not self._read.holds(self._file.path):
            self._look(self._file)
        return self._current

    def by_uid(self, uid: int) -> Harness | None:
        """Return whose user this is. Raises as `current`."""
        return next((each for each in self.current().values() if each.uid == uid), None)

    def by_token(self, token: str) -> Harness | None:
        """Return whose bearer token this is, in a time that tells nothing about any. Raises as `current`."""
        digest = token_sha256(token)
        found = None
        for harness in self.current().values():
            if hmac.compare_digest(harness.token_sha256 or "", digest):
                found = harness
        return found

    def _look(self, file: ConfigFile) -> None:
        """Read the file; what is remembered of it changes only once all of it was understood."""
        where = shown(str(file.path))
        try:
            data, status = _regular(file.path)
        except FileNotFoundError:
            if file.found or self._read.data is not None:
                raise HarnessesUnreadable(f"{where}: the settings file is gone; put it back") from None
            return
        except OSError as error:
            raise HarnessesUnreadable(f"{where}: the settings file cannot be read: {error.strerror}") from None
        except MalformedFile as error:
            raise HarnessesUnreadable(f"{where}: {error}; mend it") from None
        if data != self._read.data:
            self._current = self._understood(where, data)
        changed = max(status.st_mtime_ns, status.st_ctime_ns)  # whoever copies a file may set the first as they like
        self._read = _Read(data, _identity(status), time.time_ns() - changed > _SETTLED_NS)

    def _understood(self, where: str, data: bytes) -> dict[str, Harness]:
        """Return what the file says. What is wrong with it is found out once, however often anybody asks."""
        if data != self._wrong[0]:
            try:
                return _harnesses(_tables(where, data))
            except HarnessesUnreadable as error:
                self._wrong = data, str(error)
        raise HarnessesUnreadable(self._wrong[1])


def token_sha256(token: str) -> str:
    """Return what the settings file holds of a bearer token.

    A token has so much chance in it that nobody finds it from its digest, so no salt and no slow hash are needed.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def user_id(value: object) -> int:
    """Accept the number of one user."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _HIGHEST_UID:
        raise ValueError(f"must be a user's number, from 0 to {_HIGHEST_UID}")
    if value == OVERFLOW_UID:
        raise ValueError(f"must not be {OVERFLOW_UID}: a user namespace shows it for everybody it does not know")
    return value


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read last; None where the file was not there yet."""

    data: bytes | None = field(default=None, repr=False)
    identity: tuple[int, ...] = ()
    settled: bool = False
    """False: it was written so lately that the next change might carry the same time."""

    def holds(self, path: Path) -> bool:
        """Say whether the file is still the one that was read."""
        try:
            return self.settled and _identity(path.stat()) == self.identity
        except OSError:
            return False


def _regular(path: Path) -> tuple[bytes, os.stat_result]:
    """Read the file, unless it is one that nobody sees change, or that could be waited for in vain."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise MalformedFile("the settings file is no regular file, so its changes could not be seen")
    return read_settings_file(path)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _digest(value: object) -> str:
    found = value.lower() if isinstance(value, str) else ""
    if _SHA256.fullmatch(found) is None:
        raise ValueError("must be the SHA-256 of the token, 64 hex digits; `wakegate harness add` writes it")
    return found


def _instances(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= _MOST_INSTANCES:
        raise ValueError(f"must be a list of 1 to {_MOST_INSTANCES} instances, by name or id")
    named = tuple(_instance(name) for name in value)
    if len(set(named)) < len(named):
        raise ValueError("names an instance twice")
    return named


def _instance(value: object) -> str:
    name = text(value)
    if len(name) > _LONGEST_INSTANCE:
        raise ValueError(f"names an instance by more than {_LONGEST_INSTANCE} characters")
    try:
        return ids.parse(name)
    except ids.MalformedId:
        return name


class HarnessTable(BaseModel):
    """A `[harness.NAME]` table of the settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    instances: Annotated[tuple[str, ...], BeforeValidator(_instances)]
    uid: Annotated[int, BeforeValidator(user_id)] | None = None
    token_sha256: Annotated[str, BeforeValidator(_digest)] | None = None

    @model_validator(mode="after")
    def _can_be_known(self) -> "HarnessTable":
        if self.uid is None and self.token_sha256 is None:
            raise ValueError("needs a uid or a token_sha256, or nobody can be this harness")
        return self


def _apart(tables: dict[str, HarnessTable]) -> dict[str, HarnessTable]:
    """Refuse two harnesses that nobody could tell apart."""
    for key, what in (("uid", "uid"), ("token_sha256", "token")):
        owners: dict[object, str] = {}
        for name, table in tables.items():
            value = getattr(table, key)
            if value is not None and owners.setdefault(value, name) != name:
                raise ValueError(f"{owners[value]} and {name} have one {what}; each harness needs its own")
    return tables


HarnessTables = Annotated[dict[Annotated[str, BeforeValidator(table_name)], HarnessTable], AfterValidator(_apart)]
_TABLES: TypeAdapter[dict[str, HarnessTable]] = TypeAdapter(HarnessTables)


def _tables(where: str, data: bytes) -> dict[str, HarnessTable]:
    try:
        return _TABLES.validate_python(tables_in(data).get("harness", {}))
    except MalformedFile as error:
        raise HarnessesUnreadable(f"{where}: {error}; mend it") from None
    except ValidationError as error:
        raise HarnessesUnreadable(f"{where}: {finding(error.errors()[0], 'harness', 'harness')}; mend it") from None


def _harnesses(tables: Mapping[str, HarnessTable]) -> dict[str, Harness]:
    return {
        name: Harness(name, frozenset(table.instances), table.uid, table.token_sha256) for name, table in tables.items()
    }
