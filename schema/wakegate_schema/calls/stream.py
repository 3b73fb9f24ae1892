"""The stream of resolutions: what harnesses are told, in order, from any place in it on."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from wakegate_schema.calls.errors import CallRefused
from wakegate_schema.calls.watch import REREAD_S, Watch
from wakegate_schema.records import Instance, Told
from wakegate_schema.resolution import Resolution, resolution_of
from wakegate_schema.store import Store

PAGE: Final = 100
"""How many resolutions are read at once."""

_CURSOR: Final = re.compile(r"([1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})", re.ASCII)


def cursor(place: tuple[int, int]) -> str:
    """Return a place in the log, epoch and number, as text: `EPOCH-NUMBER`."""
    return "{}-{}".format(*place)


def place(text: str) -> tuple[int, int]:
    """Return the place that a cursor names. Raises `CallRefused`."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise CallRefused("after", "it must be a cursor as the stream gives it", reason="bad_cursor")
    return int(found[1]), int(found[2])


async def told_after(
    store: Store, watch: Watch, instances: Callable[[], Awaitable[list[Instance]]], after: str | None
) -> AsyncGenerator[tuple[str, Resolution], None]:
    """Yield what is told of some instances, without end, each with the cursor to resume after.

    Args:
        store: where the log is.
        watch: tells of changes in it.
        instances: whose resolutions; asked again and again, so that one made meanwhile counts too.
        after: a cursor; the empty string begins with the earliest that is kept, None with what comes from now on.

    Raises:
        CallRefused: `after` is no cursor.
        StoreUnavailable: the store cannot be read now; resume after the last cursor.
    """
    reached = place(after) if after else None
    if after is None:
        reached = await store.resolutions_end()
    while True:
        seen = watch.number
        theirs = [instance.identity for instance in await instances()]
        page = await store.resolutions(theirs, reached, PAGE)
        for told in page:
            yield cursor(told.place), await _resolution(store, told)
            reached = told.place
        if len(page) < PAGE:
            await watch.changed(seen, REREAD_S)


async def _resolution(store: Store, told: Told) -> Resolution:
    return resolution_of(await store.execution(told.execution_id), told.wake_id, told.to_state)
