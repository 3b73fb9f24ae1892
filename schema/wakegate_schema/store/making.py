"""Making a file that another user of the group is to write too: it has its name only once its mode is right."""

import os
from pathlib import Path

from wakegate_schema import drafts


def make_file(path: Path, mode: int) -> None:
    """Make an empty file with exactly these permission bits, whatever the umask. One that is there is left alone.

    A process that dies in between leaves no file of that name, so none that locks the second user out. Raises OSError.
    """
    if not os.path.lexists(path):
        drafts.make(path, b"", mode, durable=False)
