"""Secret files: the only way a secret comes in. One value, one owner, nothing odd around it."""

import os
import stat
from pathlib import Path

from wakegate_schema import drafts
from wakegate_schema.errors import WakegateError
from wakegate_schema.sealing import BearerToken, MalformedCredential
from wakegate_schema.signing import MalformedSecret, SigningSecret

SIZE_LIMIT = 4096
"""The largest secret file that is read, in bytes."""

_BOM = b"\xef\xbb\xbf"
_PRINTABLE = range(0x21, 0x7F)
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class SecretFileError(WakegateError):
    """A secret file cannot be used."""

    reason = "secret_file"


class SecretFileMissing(SecretFileError):
    """A secret file does not exist."""

    reason = "secret_file_missing"


def read_secret_file(path: Path, what: str, *, credentials_directory: Path | None = None) -> str:
    """Return the one secret that the file holds, without its one trailing line ending.

    Args:
        path: the file.
        what: what it is, for the error: "the wake secret".
        credentials_directory: where systemd puts credentials; `$CREDENTIALS_DIRECTORY` unless given. Files in
            it may have wider permissions, because systemd guards the directory.

    Raises:
        SecretFileMissing: there is no such file.
        SecretFileError: it is readable by others than its owner, not a regular file, empty, over 4 KiB, or
            has a byte order mark, blanks, control or non-ASCII characters. The message names the file and
            never shows what is in it.
    """
    data = read_private_file(path, what, credentials_directory=credentials_directory)
    return _text(_without_line_ending(data), path, what)


def load_signing_secret(path: Path, what: str) -> SigningSecret:
    """Return the signing secret in the file; an error names the file and never shows the value."""
    text = read_secret_file(path, what)
    try:
        return SigningSecret.parse(text)
    except WakegateError as error:
        raise SecretFileError(f"{path} ({what}): {error}", reason="secret_file_malformed") from error


def load_signing_secrets(path: Path, what: str) -> tuple[SigningSecret, ...]:
    """Return the signing secrets in the file, one a line, the newest first; errors as `load_signing_secret`."""
    lines = read_private_file(path, what).removesuffix(b"\n").split(b"\n")
    try:
        found = tuple(SigningSecret.parse(_text(line.removesuffix(b"\r"), path, what)) for line in lines)
    except MalformedSecret as error:
        raise SecretFileError(f"{path} ({what}): {error}", reason="secret_file_malformed") from error
    if len(set(found)) < len(found):
        raise SecretFileError(f"{path} ({what}) holds a secret twice", reason="secret_file_malformed")
    return found


def load_bearer_token(path: Path, what: str) -> BearerToken:
    """Return the bearer token in the file; an error names the file and never shows the value."""
    text = read_secret_file(path, what)
    try:
        return BearerToken(text)
    except MalformedCredential as error:
        raise SecretFileError(f"{path} ({what}): {error}", reason="secret_file_malformed") from error


def read_private_file(path: Path, what: str, *, credentials_directory: Path | None = None) -> bytes:
    """Return the bytes of a regular file of at most 4 KiB that only its owner may read.

    Links are followed, and what they lead to is what is checked. Raises as `read_secret_file` does.
    """
    descriptor = _open_private(path, what, credentials_directory)
    try:
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(SIZE_LIMIT + 1)
    finally:
        os.close(descriptor)
    if len(data) > SIZE_LIMIT:
        raise SecretFileError(f"{path} ({what}) is over {SIZE_LIMIT} bytes", reason="secret_file_too_long")
    return data


def check_private_file(path: Path, what: str, *, credentials_directory: Path | None = None) -> None:
    """Raise as `read_secret_file` does unless this is a regular file that only its owner may read.

    For a secret that a library reads by itself.
    """
    os.close(_open_private(path, what, credentials_directory))


def create_secret_file(path: Path, text: str, what: str) -> bool:
    """Write a new secret file, mode 0600, whole and synced before it has its name; never replace one.

    Args:
        path: where; the directory must exist.
        text: the secret; a line ending is added.
        what: what it is, for the error.

    Returns:
        False if the name was taken, by another process perhaps a moment ago; the file there is then the one.

    Raises:
        SecretFileError: it cannot be written.
    """
    try:
        return drafts.make(path, text.encode("ascii") + b"\n", 0o600, durable=True)
    except FileNotFoundError as error:
        raise SecretFileError(
            f"{path} ({what}) cannot be made: the directory {path.parent} does not exist; make it first"
        ) from error
    except OSError as error:
        raise SecretFileError(f"{path} ({what}) cannot be made: {error.strerror}") from error


def _open_private(path: Path, what: str, credentials_directory: Path | None) -> int:
    """Return a descriptor of a regular file that only its owner may read."""
    real = Path(os.path.realpath(path))
    try:
        descriptor = os.open(real, _READ_FLAGS | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise SecretFileMissing(f"{path} ({what}) does not exist") from error
    except OSError as error:
        raise SecretFileError(f"{path} ({what}) cannot be read: {error.strerror}") from error
    try:
        _check_status(os.fstat(descriptor), path, what, guarded=_is_credential(real, credentials_directory))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _text(line: bytes, path: Path, what: str) -> str:
    """Return one value as text, if there is nothing odd around it."""
    if not line:
        raise SecretFileError(f"{path} ({what}) is empty", reason="secret_file_empty")
    if line.startswith(_BOM):
        raise SecretFileError(
            f"{path} ({what}) begins with a byte order mark; save it as plain ASCII",
            reason="secret_file_malformed",
        )
    if any(byte not in _PRINTABLE for byte in line):
        raise SecretFileError(
            f"{path} ({what}) must hold one line of printable ASCII: no blanks, no control characters,"
            " no further lines",
            reason="secret_file_malformed",
        )
    return line.decode("ascii")


def _without_line_ending(data: bytes) -> bytes:
    if data.endswith(b"\r\n"):
        return data[:-2]
    return data.removesuffix(b"\n")


def _check_status(status: os.stat_result, path: Path, what: str, *, guarded: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SecretFileError(f"{path} ({what}) is not a regular file", reason="secret_file_not_regular")
    if status.st_mode & 0o077 and not guarded:
        raise SecretFileError(
            f"{path} ({what}) can be used by others than its owner (mode {stat.S_IMODE(status.st_mode):04o});"
            f" {_remedy(status, path)}",
            reason="secret_file_permissions",
        )


def _remedy(status: os.stat_result, path: Path) -> str:
    """Say how to keep others from a file; what belongs to another user is not for us to change."""
    if status.st_uid == os.geteuid():
        return f"run: chmod 600 {path}"
    return f"it belongs to another user (uid {status.st_uid}); give a copy that is yours alone, mode 0600"


def _is_credential(real: Path, directory: Path | None) -> bool:
    if directory is None:
        named = os.environ.get("CREDENTIALS_DIRECTORY")
        if not named:
            return False
        directory = Path(named)
    return directory.is_absolute() and real.is_relative_to(os.path.realpath(directory))
