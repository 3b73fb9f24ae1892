"""Looking up what a person names by its id, by the beginning of one, or, of a call, by its key."""

import re
from collections.abc import Sequence
from typing import TypeVar

from wakegate_schema.errors import WakegateError
from wakegate_schema.records import Execution, Notification, Wake
from wakegate_schema.store import NotFound, Store

SHORTEST = 4
"""Characters that the beginning of an id has at least."""

T = TypeVar("T")

_HEX = "[0-9a-f]"
_UUID = (8, 13, 18, 23)
"""Where the hyphens of an id are."""


class Ambiguous(WakegateError):
    """More than one thing is called that."""

    reason = "ambiguous"


def prefix(text: str) -> str | None:
    """Return the text as the beginning of an id, or None when it cannot be one or is too short."""
    lower = text.lower()
    fits = all(
        character == "-" if position in _UUID else re.fullmatch(_HEX, character)
        for position, character in enumerate(lower)
    )
    return lower if fits and SHORTEST <= len(lower) <= 36 else None


async def find_execution(store: Store, text: str) -> Execution:
    """Return the execution whose id is, or begins with, or whose key is the text.

    Raises:
        NotFound: none is called so.
        Ambiguous: several are.
    """
    found = await store.executions_called(text, prefix(text))
    exact = [record for record in found if record.execution_id == text.lower()]
    named = exact or [record for record in found if record.idempotency_key == text] or found
    if not named:
        raise NotFound(
            f"there is no execution {text}: give its id, {SHORTEST} or more characters of its beginning, or the call's"
            " key; see `wakegate execution list`"
        )
    return _only(named, [f"{record.execution_id} ({record.tool}, {record.state})" for record in named], text)


async def find_notification(store: Store, text: str, provider: str | None) -> Notification:
    """Return the notification whose event id is the text or begins with it.

    Args:
        store: open for reading.
        text: an id or its beginning, in lower case.
        provider: only this provider's; None for any.

    Raises:
        NotFound: none is.
        Ambiguous: several are.
    """
    found = [record for record in await store.notifications_called(text) if provider in (None, record.provider)]
    if not found:
        raise NotFound(f"there is no notification {text}; see `wakegate notification list`")
    several = [f"{record.event_id} of {record.provider}" for record in found]
    return _only(found, several, text, " and --provider-url" if len({r.event_id for r in found}) == 1 else "")


async def find_wake(store: Store, text: str) -> Wake:
    """Return the wake whose id is the text or begins with it.

    Raises:
        NotFound: none is.
        Ambiguous: several are.
    """
    beginning, _, number = text.lower().partition("_")
    known = prefix(beginning) is not None and (number == "" or (len(beginning) == 36 and number.isdecimal()))
    found = await store.wakes_called(text.lower()) if known else []
    named = [wake for wake in found if wake.wake_id == text.lower()] or found
    if not named:
        raise NotFound(
            f"there is no wake {text}: give its id, or {SHORTEST} or more characters of its beginning; see `wakegate"
            " wake list`"
        )
    return _only(named, [f"{wake.wake_id} ({wake.target}, {wake.state})" for wake in named], text)


def _only(found: Sequence[T], descriptions: Sequence[str], text: str, also: str = "") -> T:
    if len(found) == 1:
        return found[0]
    raise Ambiguous(f"{text} names {len(found)} of them; give the whole id{also} of one: {', '.join(descriptions)}")
