"""Keys: the files that hold the Fernet keys, one a line, the newest first."""

import re
from pathlib import Path

from cryptography.fernet import Fernet

from wakegate_schema.errors import WakegateError
from wakegate_schema.sealing import Sealer
from wakegate_schema.secret_files import SecretFileMissing, create_secret_file, read_private_file
from wakegate_schema.setting_sources import variable

_KEY = re.compile(rb"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]=")


class KeyFileError(WakegateError):
    """A key file cannot be used."""

    reason = "key_file"


class KeyFileMissing(KeyFileError):
    """A key file does not exist."""

    reason = "key_file_missing"


def load_key(path: Path, setting: str | None = None) -> Sealer:
    """Return a sealer over the keys in the file: the first line seals, every line unseals.

    Args:
        path: the file.
        setting: the setting that names it, such as `worker_key_file`, for the error.

    Raises:
        KeyFileMissing: there is no such file; what was sealed with it cannot be read without it.
        KeyFileError: a line is not a Fernet key, or two lines are the same.
        SecretFileError: others may read the file, or it is empty, over 4 KiB or no regular file.
    """
    try:
        data = read_private_file(path, _what(setting))
    except SecretFileMissing as error:
        names = "WAKEGATE_RECEIVER_KEY_FILE, WAKEGATE_WORKER_KEY_FILE or WAKEGATE_PROVIDER_KEY_FILE"
        raise KeyFileMissing(
            f"the key file {path} does not exist; restore it from its backup or name it by"
            f" {names if setting is None else variable(setting)} (only a file that no setting names is made by itself,"
            " beside the database, while nothing in the store is sealed)"
        ) from error
    return Sealer([Fernet(key) for key in _keys(data, f"{path} ({_what(setting)})")], source=str(path))


def ensure_key(path: Path, setting: str | None = None) -> Sealer:
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


def existing_key(path: Path, setting: str, *, named: bool) -> Sealer | None:
    """Return a sealer over the keys in the file; None where there is none, and `first_key` may make it.

    Args:
        path, setting: as `load_key`.
        named: whether the setting names the file; such a file must be there.

    Raises:
        KeyFileError, SecretFileError: as `load_key`.
    """
    return load_key(path, setting) if named or path.exists() else None


def first_key(path: Path, setting: str, *, sealed: bool) -> Sealer:
    """Return a sealer as `ensure_key` does, but make no new key where the old one must have been lost.

    Args:
        path, setting: as `load_key`.
        sealed: whether the store holds anything that was sealed under this file's keys.

    Raises:
        KeyFileError, SecretFileError: as `load_key`.
    """
    return load_key(path, setting) if sealed else ensure_key(path, setting)


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
