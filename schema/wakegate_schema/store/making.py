"""Making a file that another user of the group is to write too: it has its name only once its mode is right."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from wakegate_schema import fault_points


def make_file(path: Path, mode: int) -> None:
    """Make an empty file with exactly these permission bits, whatever the umask. One that is there is left alone.

    A process that dies in between leaves no file of that name, so none that locks the second user out.
    """
    if os.path.lexists(path):
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    made = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        os.fchmod(made, mode)
        fault_points.reach("file.draft", path.name)
        with suppress(FileExistsError):
            os.link(draft, path)
        fault_points.reach("file.named", path.name)
    finally:
        os.close(made)
        draft.unlink(missing_ok=True)
