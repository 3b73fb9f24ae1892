"""Answer times: what the headers of an HTTP answer say of time."""

import functools
import re
from email.utils import parsedate_to_datetime
from typing import Final

from wakegate_worker.outbound import Answer

MAX_RETRY_AFTER_S: Final = 366 * 86_400.0
"""A longer Retry-After counts as this, in seconds: past every deadline, and still a time."""


def retry_after_s(answer: Answer) -> float | None:
    """Return how many seconds the answer asks to wait, from now and however long; None when it does not say.

    A date is taken against the answer's own Date, so that no two clocks are compared.
    """
    text = answer.headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), MAX_RETRY_AFTER_S)
    until, since = _http_date(text), server_date(answer)
    if until is None or since is None:
        return None
    return min(max(0.0, until - since), MAX_RETRY_AFTER_S)


def server_date(answer: Answer) -> float | None:
    """Return the answer's Date in Unix seconds, the latest if there are several, or None without a valid one."""
    dates = [_http_date(text) for text in answer.headers.getall("Date", [])]
    return max((date for date in dates if date is not None), default=None)


_SECONDS: Final = re.compile(r"[0-9]{1,300}")


@functools.lru_cache(64)  # most answers of a moment say the same
def _http_date(text: str) -> float | None:
    if len(text) > 64:
        return None
    try:
        return parsedate_to_datetime(text).timestamp() if text.rstrip().endswith("GMT") else None
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
