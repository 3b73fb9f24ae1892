"""The stream: what harnesses are told, taken up again wherever it broke off."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from wakegate_adapter.log import log
from wakegate_schema.calls import Calls
from wakegate_schema.calls.persistence import patiently
from wakegate_schema.resolution import Resolution
from wakegate_schema.store import StoreUnavailable

PAUSE_S: Final = 0.5
"""Between two tries to take it up again, in seconds."""
STEADY_S: Final = 30.0
"""A stream that broke off after so many seconds was there; longer than any try to take it up lasts."""


async def follow(calls: Calls, after: str | None, patience: float) -> AsyncGenerator[tuple[str, Resolution], None]:
    """Yield resolutions without end, each with the cursor to resume after.

    Args:
        calls: where they are told.
        after: a cursor; the empty string for the earliest that is kept, None for what comes from now on.
        patience: seconds for which it may not be taken up again.

    Raises:
        CallRefused: `after` is no cursor.
        StoreUnavailable: nobody has answered for as long as that.
    """
    loop = asyncio.get_running_loop()
    if after is None:
        after = await patiently(calls.end_of_stream, patience)
    failing_since: float | None = None
    while True:
        begun = loop.time()
        try:
            async with aclosing(calls.resolutions(after)) as told:
                async for cursor, resolution in told:
                    failing_since = None
                    yield cursor, resolution
                    after = cursor
        except StoreUnavailable as error:
            if failing_since is None or loop.time() - begun > STEADY_S:
                failing_since = loop.time()
                log.warning("the stream broke off; it is taken up again", action="stream", reason=error.reason)
            if error.reason == "closed" or loop.time() - failing_since > patience:
                raise
        await asyncio.sleep(PAUSE_S)
