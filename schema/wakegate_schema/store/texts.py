"""Texts that a database cannot hold: U+0000, which PostgreSQL has no place for, and halves of surrogate pairs.

Where a text is compared or handed on, it must be exact: such a one is refused, by both databases alike. Where it is
only told, the call goes on without the character.
"""

import re
from typing import overload

from wakegate_schema.store.errors import UnstorableValue

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@overload
def told(text: str) -> str: ...
@overload
def told(text: str | None) -> str | None: ...
def told(text: str | None) -> str | None:
    """Return a text that is only told, with U+FFFD for what cannot be kept: a decision's note, an error's text."""
    return text and _UNSTORABLE.sub("\ufffd", text)


def check_exact(*values: object) -> None:
    """Refuse a text that PostgreSQL could not hold, so that both databases take the same.

    Raises `UnstorableValue`.
    """
    for value in values:
        if type(value) is str and "\0" in value:
            raise UnstorableValue("no text may hold U+0000; nothing was changed")
