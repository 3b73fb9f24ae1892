"""What may be said of a call that is on record: its id, the reason it is given up, the hold that waits for it."""

import math
import re
from typing import Final

from wakegate_schema import ids
from wakegate_schema.calls.call import check_visible
from wakegate_schema.calls.errors import CallRefused
from wakegate_schema.store import NotFound

LONGEST_HOLD_S: Final = 3600.0
"""The longest that a hold may last without being renewed, in seconds."""

_REASON: Final = re.compile(r"\S(.{0,253}\S)?")


def execution_id(value: object) -> str:
    """Return an execution id as it is on record. Raises `NotFound` for what cannot be one."""
    try:
        return ids.parse(value if isinstance(value, str) else "")
    except ids.MalformedId:
        raise NotFound("there is no such execution: an execution id is a UUID, as `suspend` returns it") from None


def check_reason(reason: object) -> None:
    """Refuse anything but 1 to 255 printable characters. Raises `CallRefused`."""
    if not isinstance(reason, str) or not reason.isprintable() or not _REASON.fullmatch(reason):
        raise CallRefused("reason", "it must be 1 to 255 printable characters", reason="bad_reason")


def check_hold(hold_id: object, seconds: float) -> None:
    """Refuse a hold's id that cannot be on record, and a time that is none. Raises `CallRefused`."""
    check_visible(hold_id, "hold_id")
    if not (math.isfinite(seconds) and 0 < seconds <= LONGEST_HOLD_S):
        raise CallRefused(
            "hold_seconds", f"it must be more than 0 and at most {LONGEST_HOLD_S:g} seconds", reason="bad_hold_seconds"
        )
