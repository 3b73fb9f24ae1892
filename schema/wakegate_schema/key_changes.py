"""Changing a key file: one process at a time, whole, and not while something is being sealed under its keys.

Whoever seals holds the file shared until what it has sealed is stored; whoever changes it holds it alone. The lock is
on the file itself, and one that was replaced meanwhile is let go: only the file that bears the name counts.
"""

import fcntl
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from wakegate_schema import fault_points
from wakegate_schema.drafts import sync_directory
from wakegate_schema.keys import KeyFileError, aside_of, read_keys

PATIENCE_S = 30.0
"""How long somebody else's hold on the file is waited for, in seconds."""
KEPT = 90
"""How many keys are kept aside at most: what a key file can hold."""


class KeyFileBusy(KeyFileError):
    """Another command holds the key file; run this one again when that has ended."""

    reason = "key_file_busy"


@contextmanager
def sealing(path: Path) -> Iterator[None]:
    """Keep the file's keys from being changed while something is sealed under them and stored.

    Raises:
        KeyFileBusy: they are being changed for longer than `PATIENCE_S`.
        KeyFileError: the file cannot be opened.
    """
    descriptor = _hold(path, fcntl.LOCK_SH)
    try:
        yield
    finally:
        os.close(descriptor)


class HeldKeys:
    """A key file that nobody else changes or seals under meanwhile."""

    def __init__(self, path: Path, descriptor: int, keys: list[bytes]) -> None:
        """Take the file, the descriptor that holds it, and its keys, the newest first."""
        self._path = Path(os.path.realpath(path))
        self._descriptor = descriptor
        self.keys = keys

    @property
    def aside(self) -> Path:
        """The file of the keys that are not in use any more."""
        return aside_of(self._path)

    def replace(self, keys: Sequence[bytes]) -> None:
        """Put a file with these keys in the place of this one, durably; owner and mode stay.

        Raises:
            KeyFileError: it cannot be written; the old one is still there.
        """
        descriptor = self._write(self._path, keys)
        os.close(self._descriptor)
        self._descriptor = descriptor
        self.keys = list(keys)

    def set_aside(self, keys: Sequence[bytes]) -> None:
        """Keep these keys durably in the file beside, before those that are in it.

        Raises:
            KeyFileError, SecretFileError: that file cannot be read or written.
        """
        known = read_keys(self.aside) if self.aside.exists() else []
        os.close(self._write(self.aside, [*keys, *(key for key in known if key not in keys)][:KEPT]))

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def _write(self, path: Path, keys: Sequence[bytes]) -> int:
        """Write a file beside, like this one, and give it the name; return its descriptor, held alone."""
        draft = path.with_name(f".{path.name}.new")
        try:
            draft.unlink(missing_ok=True)  # of one that was killed
            descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                self._fill(descriptor, b"".join(key + b"\n" for key in keys))
                fault_points.reach("file.draft", path.name)
                draft.replace(path)
                sync_directory(path.parent)
                fault_points.reach("file.named", path.name)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise KeyFileError(
                f"the key file {path} cannot be replaced: {error.strerror}; the directory {path.parent} must be"
                " writable for its owner"
            ) from error
        return descriptor

    def _fill(self, descriptor: int, data: bytes) -> None:
        status = os.fstat(self._descriptor)
        made = os.fstat(descriptor)
        if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
            os.fchown(descriptor, status.st_uid, status.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)


@contextmanager
def changing(path: Path, setting: str) -> Iterator[HeldKeys]:
    """Hold a key file alone.

    Args:
        path: the file.
        setting: the setting that may name it, for errors.

    Raises:
        KeyFileBusy: it is held by others for longer than `PATIENCE_S`.
        KeyFileError, SecretFileError: as `load_key`.
    """
    keys = read_keys(path, setting)  # which says what is wrong with it, if anything is
    held = HeldKeys(path, _hold(path, fcntl.LOCK_EX), keys)
    try:
        held.keys = read_keys(path, setting)
        yield held
    finally:
        held.close()


def _hold(path: Path, how: int) -> int:
    """Return a descriptor that holds the file that has this name."""
    until = time.monotonic() + PATIENCE_S
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(descriptor)
                raise KeyFileBusy(
                    f"another command holds the key file {path}; run this one again when that has ended"
                ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        time.sleep(0.02)


def _open(path: Path) -> int:
    try:
        return os.open(os.path.realpath(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        raise KeyFileError(f"the key file {path} cannot be opened: {error.strerror}") from error
