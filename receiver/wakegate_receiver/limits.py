"""Limits: genuine traffic and traffic that fails the signature each spend a budget of their own.

Which of the two a message is shows only once its signature was looked at, so neither budget is touched before.
What comes earlier is bounded by the connections, by the request's time, and by how many refusals are prompt.
"""

import time

from wakegate_receiver.answers import Refused


class Admission:
    """The places and the rate of correctly signed requests; used as `with`."""

    def __init__(self, rate: int, places: int) -> None:
        """Take the requests a second, and how many may be in progress at once."""
        self._rate = _Rate(rate)
        self._places = places
        self._taken = 0

    def __enter__(self) -> None:
        """Take a place. Raises `Refused` at once, never waits: `concurrency_limit`, `rate_limit`."""
        if self._taken >= self._places:
            raise Refused("concurrency_limit")
        if not self._rate.spend():
            raise Refused("rate_limit")
        self._taken += 1

    def __exit__(self, *_: object) -> None:
        """Give the place back."""
        self._taken -= 1


class Failures:
    """The rates of requests whose signature fails, and of all that are refused before they were proved genuine."""

    def __init__(self, rate: int) -> None:
        """Take the failures a second that are told why, which is also the refusals a second that are prompt."""
        self._told = _Rate(rate)
        self._prompt = _Rate(rate)

    def spend(self) -> bool:
        """Count one failure, and say whether it may be told why."""
        return self._told.spend()

    def prompt(self) -> bool:
        """Count one refusal, whatever its reason, and say whether it may be answered at once."""
        return self._prompt.spend()


class _Rate:
    """A bucket that holds a second's worth and leaks steadily. Nobody ever waits for it."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._level = 0.0
        self._at = time.monotonic()

    def spend(self) -> bool:
        """Spend one, if there is one."""
        now = time.monotonic()
        level = max(0.0, self._level - (now - self._at) * self._rate)
        self._at, self._level = now, level
        if level + 1 > self._rate:
            return False
        self._level = level + 1
        return True
