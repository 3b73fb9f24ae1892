"""Identifiers: UUIDs in their canonical text form (AAP, conventions)."""

import uuid
from typing import Final

from wakegate_schema.errors import WakegateError

PATTERN: Final = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
"""The whole form of an id, as a regular expression."""


class MalformedId(WakegateError):
    """The text is not a UUID such as f4b96ac4-404d-4f6a-9a03-a0565edc4922."""

    reason = "bad_uuid"


def parse(text: str) -> str:
    """Return a UUID in lower case.

    Args:
        text: 8-4-4-4-12 hexadecimal digits in either case; no braces, `urn:` or form without hyphens.

    Raises:
        MalformedId: the text has another form.
    """
    if text.encode("ascii", "replace").translate(_FORM) != _UUID:
        raise MalformedId
    return text.lower()


def new() -> str:
    """Return a new random UUID."""
    return str(uuid.uuid4())


_FORM: Final = bytes.maketrans(b"0123456789abcdefABCDEF", b"0" * 22)
"""Tells every digit by a 0: a tenth of the time that the regular expression takes, and a test holds the two equal."""
_UUID: Final = b"00000000-0000-0000-0000-000000000000"
