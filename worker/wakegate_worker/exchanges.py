"""Exchanges: what is asked of each provider now, so that one that hangs holds up nobody else's calls."""

import asyncio
from collections import Counter
from types import TracebackType

from wakegate_worker.decisions import DecisionError
from wakegate_worker.slots import Slots

SLOW_S = 1.0
"""Seconds after which an exchange is slow: it leaves its slot to others until it ends."""


class ProviderBusy(DecisionError):
    """The provider leaves so much unanswered that it is asked nothing more for now; nothing went out."""

    reason = "provider_busy"


class Exchanges:
    """Counts each provider's slow exchanges. One event loop's; not for threads.

    A provider that answers may have all slots. One that does not has each of them for `slow_s` only, and so many slow
    exchanges beside: that bounds what is waited for, and the calls that are begun no more keep no slot either.
    """

    def __init__(self, slots: Slots, most_slow: int, *, slow_s: float = SLOW_S) -> None:
        """Take the slots, how many slow exchanges one provider may have when another begins, and when one is slow."""
        self._slots = slots
        self._most_slow = most_slow
        self.slow_s = slow_s
        """Seconds after which an exchange is slow."""
        self._slow: Counter[str] = Counter()

    def under_way(self, provider: str) -> "_UnderWay":
        """Ask the provider inside, holding a slot.

        Args:
            provider: its base URL.

        Raises:
            ProviderBusy: too much is unanswered already.
        """
        if self._slow[provider] >= self._most_slow:
            raise ProviderBusy("the provider leaves too much unanswered to be asked more now")
        return _UnderWay(self, provider)

    def slows(self, provider: str) -> None:
        """Count an exchange that has become slow, and leave its slot to others."""
        self._slow[provider] += 1
        self._slots.give_back()

    def ends(self, provider: str) -> None:
        """Count the end of a slow one, and have its slot again, past the size for a moment perhaps."""
        self._slow[provider] -= 1
        self._slots.take()


class _UnderWay:
    """One exchange: slow once it has taken some time, until its end."""

    __slots__ = ("_exchanges", "_is_slow", "_provider", "_timer")

    def __init__(self, exchanges: Exchanges, provider: str) -> None:
        self._exchanges = exchanges
        self._provider = provider
        self._is_slow = False

    def __enter__(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._exchanges.slow_s, self._slows)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._is_slow:
            self._exchanges.ends(self._provider)

    def _slows(self) -> None:
        self._is_slow = True
        self._exchanges.slows(self._provider)
