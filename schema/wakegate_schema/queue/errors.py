"""What can be wrong with a queue before anything is sent through it."""

import importlib.util

from wakegate_schema.errors import WakegateError


class QueueError(WakegateError):
    """The queue cannot be used."""

    reason = "queue"


def require_extra() -> None:
    """Raise `QueueError` where Redis' driver or RQ is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("redis", "rq")):
        raise QueueError(
            "WAKEGATE_QUEUE names a Redis, which needs the extra `redis`: pip install 'wakegate[redis]'",
            reason="extra_missing",
        )
