"""A part of the store: verbs over one writer and one reader."""

from pathlib import Path

from wakegate_schema.queue import EmbeddedRinger, Ringer
from wakegate_schema.store.group_commit import GroupCommit
from wakegate_schema.store.reader import Reader


class Part:
    """What every part works with; `Store` sets it."""

    _writer: GroupCommit
    _reader: Reader
    _ringer: Ringer = EmbeddedRinger()
    """Rung after the commit of whatever makes an execution due."""
    _file: Path | None
    """SQLite's; None for a database that is no file."""
