"""Trouble: when something begins to fail, and when it is well again, so that each is told once."""

import threading
from collections import Counter


class Trouble:
    """Counts failures by reason. For several threads."""

    def __init__(self) -> None:
        """Begin without trouble."""
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._reason: str | None = None
        self._failures = 0

    @property
    def reason(self) -> str | None:
        """Why it fails now, None when it does not."""
        return self._reason

    def met(self, reason: str) -> bool:
        """Count a failure; return whether it is news: the first, or the first for this reason."""
        with self._lock:
            news = self._reason != reason
            self._reason = reason
            self._failures += 1
            self._counts[reason] += 1
            return news

    def over(self) -> int:
        """Say that it works; return after how many failures, 0 when there was no trouble."""
        if self._reason is None:
            return 0
        with self._lock:
            failures, self._failures, self._reason = self._failures, 0, None
            return failures

    def counts(self) -> dict[str, int]:
        """Return how many failures there were, by reason."""
        with self._lock:
            return dict(self._counts)
