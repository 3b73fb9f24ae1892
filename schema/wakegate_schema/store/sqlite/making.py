"""Making a file that another user of the group is to write too: it has its name only once its mode is right."""

import os
from pathlib import Path

from wakegate_schema import drafts


def make_file(path: Path, mode: int, database: Path | None = None) -> None:
    """Make an empty file with exactly these permission bits, whatever the umask. One that is there is left alone.

    Made by root it belongs to whom the store belongs to: root's own would lock out those whose store it is. A process
    that dies in between leaves no file of that name, so none that locks the second user out.

    Args:
        path: where.
        mode: its permission bits.
        database: the store's file, if this is one beside it; until that is there, and else, the folder's owner counts.

    Raises OSError.
    """
    if not os.path.lexists(path):
        drafts.make(path, b"", mode, durable=False, owner=_owner(path, database) if os.geteuid() == 0 else None)


def _owner(path: Path, database: Path | None) -> tuple[int, int]:
    of = database if database is not None and database.exists() else path.parent
    found = of.stat()
    return found.st_uid, found.st_gid
