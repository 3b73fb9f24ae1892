"""An interrupted restore: the marker that stands from before the first file is moved until the last one is in place.

Nobody opens a store beside which it stands: its files may be of two stores.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from wakegate_schema.drafts import sync_directory
from wakegate_schema.store.errors import RestoreInterrupted

SIDE_FILES = ("-wal", "-shm", "-journal")
"""The ends of the names under which SQLite keeps parts of a database beside it; they belong to one file only."""


class Moving:
    """A store's files on their way to another name, to make room for those of another."""

    def __init__(self, database: Path, aside: Path, *, was_there: bool) -> None:
        """Take the database file, the name beside it to keep it under, and whether there is one at all."""
        self.database = database
        self.aside = aside
        self.was_there = was_there

    def begin(self, work: Path) -> None:
        """Put the marker in place, durably; it is written in the folder `work`."""
        draft = work / "marker"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"aside": self.aside.name, "was_there": self.was_there}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(marker(self.database))
        sync_directory(self.database.parent)

    def move(self) -> Iterator[str]:
        """Move every file that is there, the database last; yield the name of each once it is moved."""
        for end in (*SIDE_FILES, ""):
            here = _beside(self.database, end)
            if here.exists():
                here.rename(_beside(self.aside, end))
                yield here.name
        sync_directory(self.database.parent)

    def end(self) -> None:
        """Take the marker away: what lies there now is one store."""
        sync_directory(self.database.parent)
        marker(self.database).unlink()
        sync_directory(self.database.parent)

    def undo(self) -> None:
        """After an interruption: move back what was moved, unless the new file has its place already."""
        replaced = self.database.exists() and (self.aside.exists() or not self.was_there)
        if not replaced:
            for end in (*SIDE_FILES, ""):
                moved = _beside(self.aside, end)
                if moved.exists():
                    moved.rename(_beside(self.database, end))
        self.end()


def refuse(database: Path) -> None:
    """Raise `RestoreInterrupted` when a restore was interrupted here."""
    found = interrupted(database)
    if found is None:
        return
    kept = f"; the store that was here is kept as {found.aside}" if found.aside.exists() else ""
    raise RestoreInterrupted(
        f"a restore of {database} was interrupted{kept}: run `wakegate db restore` again, with the same file"
    )


def interrupted(database: Path) -> Moving | None:
    """Return what an interrupted restore was moving, or None."""
    real = database.resolve()
    try:
        text = marker(real).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    found = json.loads(text)
    return Moving(real, real.with_name(Path(found["aside"]).name), was_there=found["was_there"])


def marker(database: Path) -> Path:
    """Return where the marker of an interruption stands."""
    real = database.resolve()
    return real.with_name(real.name + "-restoring")


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)
