"""Limits: genuine traffic and traffic that fails the signature each spend a budget of their own.

Which of the two a message is shows only once its signature was looked at, so neither budget is touched before.
What comes earlier is bounded by the connections, by the request's time, and by how many refusals are prompt.
"""

from types import TracebackType

from aiolimiter import AsyncLimiter

from wakegate_receiver.answers import Refused


class Admission:
    """The places and the rate of correctly signed requests; used as `async with`."""

    def __init__(self, rate: int, places: int) -> None:
        """Take the requests a second, and how many may be in progress at once."""
        self._limiter = AsyncLimiter(rate, time_period=1)
        self._places = places
        self._taken = 0

    async def __aenter__(self) -> None:
        """Take a place. Raises `Refused` at once, never waits: `concurrency_limit`, `rate_limit`."""
        if self._taken >= self._places:
            raise Refused("concurrency_limit")
        if not self._limiter.has_capacity():
            raise Refused("rate_limit")
        self._taken += 1
        await self._limiter.acquire()

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Give the place back."""
        self._taken -= 1


class Failures:
    """The rates of requests whose signature fails, and of all that are refused before they were proved genuine."""

    def __init__(self, rate: int) -> None:
        """Take the failures a second that are told why, which is also the refusals a second that are prompt."""
        self._told = AsyncLimiter(rate, time_period=1)
        self._prompt = AsyncLimiter(rate, time_period=1)

    async def spend(self) -> None:
        """Count one failure. Raises `Refused`: `too_many_failures`."""
        if not await _spent(self._told):
            raise Refused("too_many_failures")

    async def prompt(self) -> bool:
        """Count one refusal, whatever its reason, and say whether it may be answered at once."""
        return await _spent(self._prompt)


async def _spent(limiter: AsyncLimiter) -> bool:
    """Spend one, if there is one; never waits."""
    if not limiter.has_capacity():
        return False
    await limiter.acquire()
    return True
