"""Keys: the files that hold the Fernet keys, one a line, the newest first."""

import re
from pathlib import Path

from cryptography.fernet import Fernet

from wakegate_schema.errors import WakegateError
from wakegate_schema.sealing import Sealer
from wakegate_schema.secret_files import (
    SecretFileMissing,
    create_secret_file,
    read_private_file,
)

_KEY = re.compile(rb"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]=")


class KeyFileError(WakegateError):
    """A key file cannot be used."""

    reason = "key_file"


class KeyFileMissing(KeyFileError):
    """A key file does not exist."""

    reason = "key_file_missing"


def load_key(path: Path) -> Sealer:
    """Return a sealer over the keys in the file: the first line seals, every line unseals.

    Raises:
        KeyFileMissing: there is no such file; what was sealed with it cannot be read without it.
        KeyFileError: a line is not a Fernet key, or two lines are the same.
        SecretFileError: others may read the file, or it is empty, over 4 KiB or no regular file.
    """
    try:
        data = read_private_file(path, "the key file")
    except SecretFileMissing as error:
        raise KeyFileMissing(
            f"the key file {path} does not exist; restore it from its backup or name it by"
            " WAKEGATE_RECEIVER_KEY_FILE, WAKEGATE_WORKER_KEY_FILE or WAKEGATE_PROVIDER_KEY_FILE"
            " (a service makes its own on its first start)"
        ) from error
    return Sealer([Fernet(key) for key in _keys(data, path)], source=str(path))


def ensure_key(path: Path) -> Sealer:
    """Return a sealer over the keys in the file, making the file with one new key if there is none.

    Two processes that come here at once end with the same key: the file gets its name only when it is
    whole, and only one can take the name.

    Raises:
        KeyFileError, SecretFileError: as `load_key`, or the file cannot be made.
    """
    try:
        return load_key(path)
    except KeyFileMissing:
        create_secret_file(path, Fernet.generate_key().decode("ascii"), "the key file")
        return load_key(path)


def _keys(data: bytes, path: Path) -> list[bytes]:
    lines = data.removesuffix(b"\n").split(b"\n")
    keys = [line.removesuffix(b"\r") for line in lines]
    for number, key in enumerate(keys, start=1):
        if _KEY.fullmatch(key) is None:
            raise KeyFileError(
                f"{path}, line {number}: not a Fernet key (32 bytes in URL-safe base64, one a line, no blank lines)",
                reason="key_malformed",
            )
        if key in keys[: number - 1]:
            raise KeyFileError(
                f"{path}, line {number}: the same key as line {keys.index(key) + 1}; remove one of them",
                reason="key_duplicate",
            )
    return keys
