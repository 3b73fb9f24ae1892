"""Keys: the files that hold the Fernet keys, one a line, the newest first."""

import os
import re
from pathlib import Path
from typing import Final

from cryptography.fernet import Fernet

from wakegate_schema.errors import WakegateError
from wakegate_schema.loggers import logger
from wakegate_schema.sealing import CannotUnseal, Sealer
from wakegate_schema.secret_files import SecretFileError, SecretFileMissing, create_secret_file, read_private_file
from wakegate_schema.setting_sources import variable

_KEY: Final = re.compile(rb"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]=")

_log = logger("wakegate_schema")


class KeyFileError(WakegateError):
    """A key file cannot be used."""

    reason = "key_file"


class KeyFileMissing(KeyFileError):
    """A key file does not exist."""

    reason = "key_file_missing"


class FileSealer(Sealer):
    """The keys of one file, which is read again when a value does not open and the file is another than was read.

    Keys that were read once stay in memory, behind those in the file: what was taken from the store before its values
    were sealed anew still opens.
    """

    __slots__ = ("_keys", "_path", "_seen", "_setting")

    def __init__(self, path: Path, setting: str | None = None) -> None:
        """Read the file; arguments and errors as `load_key`."""
        self._path, self._setting = path, setting
        self._seen = _identity(path)
        self._keys = read_keys(path, setting)
        super().__init__([Fernet(key) for key in self._keys], source=str(path))

    def renew(self) -> bool:
        """Read the file again if it is not the one that was read; say whether it was read."""
        seen = _identity(self._path)
        if seen is None or seen == self._seen:
            return False
        self._seen = seen
        try:
            keys = read_keys(self._path, self._setting)
        except (KeyFileError, SecretFileError) as error:
            _log.warning(
                "the key file has changed and cannot be used; the keys read before stay in use",
                action="read_key",
                reason=error.reason,
                problem=str(error),
            )
            return False
        self._keys = keys + [key for key in self._keys if key not in keys]
        self._take([Fernet(key) for key in self._keys])
        return True

    def _closed(self) -> CannotUnseal:
        error, aside = super()._closed(), aside_of(self._path)
        if not aside.exists():
            return error
        return CannotUnseal(
            f"{error}; keys that `wakegate db reseal` took out of use are in {aside}: what comes from a backup made"
            f" before needs them at the end of {self._path}"
        )


def load_key(path: Path, setting: str | None = None) -> FileSealer:
    """Return a sealer over the keys in the file: the first line seals, every line unseals.

    Args:
        path: the file.
        setting: the setting that names it, such as `worker_key_file`, for the error.

    Raises:
        KeyFileMissing: there is no such file; what was sealed with it cannot be read without it.
        KeyFileError: a line is not a Fernet key, or two lines are the same.
        SecretFileError: others may read the file, or it is empty, over 4 KiB or no regular file.
    """
    return FileSealer(path, setting)


def ensure_key(path: Path, setting: str | None = None) -> FileSealer:
    """Return a sealer over the keys in the file, making the file with one new key if there is none.

    Two processes that come here at once end with the same key: the file gets its name only when it is
    whole, and only one can take the name.

    Args:
        path, setting: as `load_key`.

    Raises:
        KeyFileError, SecretFileError: as `load_key`, or the file cannot be made.
    """
    try:
        return load_key(path, setting)
    except KeyFileMissing:
        create_secret_file(path, Fernet.generate_key().decode("ascii"), _what(setting))
        return load_key(path, setting)


def aside_of(path: Path) -> Path:
    """Return where the keys are kept that have left a key file: in `FILE.old` beside it."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}.old")


def read_keys(path: Path, setting: str | None = None) -> list[bytes]:
    """Return the keys in the file, the newest first; arguments and errors as `load_key`."""
    try:
        data = read_private_file(path, _what(setting))
    except SecretFileMissing as error:
        names = "WAKEGATE_RECEIVER_KEY_FILE, WAKEGATE_WORKER_KEY_FILE or WAKEGATE_PROVIDER_KEY_FILE"
        raise KeyFileMissing(
            f"the key file {path} does not exist; restore it from its backup or name it by"
            f" {names if setting is None else variable(setting)} (only a file that no setting names is made by itself,"
            " beside the database, while nothing in the store is sealed)"
        ) from error
    return _keys(data, f"{path} ({_what(setting)})")


def _identity(path: Path) -> tuple[int, ...] | None:
    """Return what tells this file from the one that was there before; None when it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _what(setting: str | None) -> str:
    return "the key file" if setting is None else f"the key file of {variable(setting)}"


def _keys(data: bytes, file: str) -> list[bytes]:
    lines = data.removesuffix(b"\n").split(b"\n")
    keys = [line.removesuffix(b"\r") for line in lines]
    for number, key in enumerate(keys, start=1):
        if _KEY.fullmatch(key) is None:
            raise KeyFileError(
                f"{file}, line {number}: not a Fernet key (32 bytes in URL-safe base64, one a line, no blank lines)",
                reason="key_malformed",
            )
        if key in keys[: number - 1]:
            raise KeyFileError(
                f"{file}, line {number}: the same key as line {keys.index(key) + 1}; remove one of them",
                reason="key_duplicate",
            )
    return keys
