"""Drafts: a file gets its name only once it is whole, so that whoever dies meanwhile leaves no half of one.

The draft lies beside, under a name that nobody looks for. Both steps are fault points, `file.draft` and `file.named`.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wakegate_schema import fault_points


def make(path: Path, data: bytes, mode: int, *, durable: bool, owner: tuple[int, int] | None = None) -> bool:
    """Make a file; one that is there is left alone.

    Args:
        path: where; the directory must exist.
        data: all that is in it.
        mode: exactly its permission bits, whatever the umask.
        durable: have the disk keep content and name before this returns.
        owner: whose it is to be, uid and gid; unless given this process's, in the group that the folder gives.

    Returns:
        False if the name was taken, by another process perhaps a moment ago.

    Raises:
        OSError: it cannot be made; there is none, unless only the disk refused to keep its name.
    """
    with _draft(path, data, mode, durable=durable, owner=owner) as draft:
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        fault_points.reach("file.named", path.name)
    if durable:
        sync_directory(path.parent)
    return True


def replace(path: Path, data: bytes, mode: int, *, durable: bool = False, owner: tuple[int, int] | None = None) -> None:
    """Put a file in the place of the one that has this name, if any, so that no reader sees half of it.

    Args:
        path, data, mode, durable: as `make`.
        owner: the user and the group that it belongs to; whoever makes it, unless given.

    Raises:
        OSError: it cannot be replaced; what was there is there still, unless only the disk refused to keep the name.
    """
    with _draft(path, data, mode, durable=durable, owner=owner) as draft:
        draft.replace(path)
        fault_points.reach("file.named", path.name)
    if durable:
        sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Have the disk keep a file's content and its name. Raises OSError."""
    _sync(path, os.O_RDONLY)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Have the disk keep the names in a directory. Raises OSError."""
    _sync(directory, os.O_RDONLY | os.O_DIRECTORY)


@contextmanager
def _draft(
    path: Path, data: bytes, mode: int, *, durable: bool, owner: tuple[int, int] | None = None
) -> Iterator[Path]:
    """Give a whole file beside `path`, which is gone at the end unless it was renamed."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            made = os.fstat(descriptor)
            if owner is not None and owner != (made.st_uid, made.st_gid):
                os.fchown(descriptor, *owner)
            os.fchmod(descriptor, mode)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(descriptor)
        fault_points.reach("file.draft", path.name)
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
