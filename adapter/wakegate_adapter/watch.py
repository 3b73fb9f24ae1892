"""The watch: waits for calls to get somewhere, over the store or the control API."""

import functools
from collections.abc import Callable
from typing import Final

from wakegate_schema.calls import Calls, Standing
from wakegate_schema.calls.persistence import patiently

WAIT_S: Final = 20.0
"""How long one question waits for its answer, in seconds."""


class Watch:
    """Waits for calls."""

    def __init__(self, calls: Calls, patience: float) -> None:
        """Take the verbs, and how many seconds nobody may answer."""
        self._calls = calls
        self._patience = patience

    async def until(self, execution_id: str, there: Callable[[Standing], bool]) -> Standing:
        """Return where a call stands as soon as `there` holds of it. Raises `NotFound`, or `StoreUnavailable`."""
        standing = await self.now(execution_id)
        while not there(standing):
            standing = await patiently(functools.partial(self._after, execution_id, standing), self._patience)
        return standing

    async def now(self, execution_id: str) -> Standing:
        """Return where a call stands. Raises as `until`."""
        return await patiently(lambda: self._calls.show(execution_id), self._patience)

    async def _after(self, execution_id: str, seen: Standing) -> Standing:
        return await self._calls.show(execution_id, unlike=seen.version, wait=WAIT_S)
