"""Exchanges: what is asked of each provider now, so that one that hangs holds up nobody else's calls."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

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
        self._slow_s = slow_s
        self._slow: Counter[str] = Counter()

    @contextmanager
    def under_way(self, provider: str) -> Iterator[None]:
        """Ask the provider inside, holding a slot.

        Args:
            provider: its base URL.

        Raises:
            ProviderBusy: too much is unanswered already.
        """
        if self._slow[provider] >= self._most_slow:
            raise ProviderBusy("the provider leaves too much unanswered to be asked more now")
        with ExitStack() as stack:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._slow_s, lambda: stack.enter_context(self._waiting(provider)))
            try:
                yield
            finally:
                timer.cancel()

    @contextmanager
    def _waiting(self, provider: str) -> Iterator[None]:
        self._slow[provider] += 1
        try:
            with self._slots.lent():
                yield
        finally:
            self._slow[provider] -= 1
