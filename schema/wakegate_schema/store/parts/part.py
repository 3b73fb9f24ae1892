"""A part of the store: verbs over one writer and one reader."""

from wakegate_schema.store.group_commit import GroupCommit
from wakegate_schema.store.reader import Reader


class Part:
    """What every part works with; `Store` sets both."""

    _writer: GroupCommit
    _reader: Reader
