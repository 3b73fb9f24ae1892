"""Backoff: when to try again what failed, and when to look at what nobody has told of. Pure."""

from collections.abc import Callable
from typing import Final

from wakegate_schema import timestamps
from wakegate_schema.clock import MINUTE, SECOND
from wakegate_schema.records import Delivery, Execution
from wakegate_schema.states import GIVE_UP_AFTER

BASE_S: Final = 1.0
CAP_S: Final = 900.0
APPROVED_CAP_S: Final = 15.0
"""No approval that is on record waits longer for its provider or its worker: it runs out meanwhile."""
LEAST_S: Final = 0.05
"""No retry comes sooner: jitter alone could be zero, and zero is a busy loop."""
LONG_POLL_S: Final = 30.0
"""How long one long poll waits for a decision, in seconds; a source may allow less."""
WEBHOOK_LOOKS: Final = (1 * MINUTE, 5 * MINUTE, 30 * MINUTE, 60 * MINUTE)
AFTER_DEADLINE: Final = 10 * SECOND
AFTER_NOTIFICATION: Final = (1 * SECOND, 2 * SECOND, 4 * SECOND)


def delay_s(tries: int, random: Callable[[], float], *, base_s: float = BASE_S, cap_s: float = CAP_S) -> float:
    """Return how many seconds to wait: anything up to `base_s * 2**tries`, at most `cap_s` (full jitter).

    Args:
        tries: tries that failed before this one; 0 after the first failure.
        random: returns a number from 0 up to 1, like `random.random`.
        base_s: the longest first wait.
        cap_s: the longest wait ever.
    """
    longest = min(cap_s, base_s * 2.0 ** min(max(tries, 0), 60))
    return max(LEAST_S, random() * longest)


def retry_at(
    tries: int,
    now: int,
    random: Callable[[], float],
    *,
    retry_after_s: float | None = None,
    base_s: float = BASE_S,
    cap_s: float = CAP_S,
) -> int:
    """Return when to try again, in µs: never before what the other side asked for, and spread out after it.

    Args:
        tries: as in `delay_s`.
        now: wall clock, µs.
        random: as in `delay_s`.
        retry_after_s: the answer's Retry-After in seconds, respected however long.
        base_s: as in `delay_s`.
        cap_s: as in `delay_s`.
    """
    asked = max(0.0, retry_after_s or 0.0)
    return now + round((asked + delay_s(tries, random, base_s=base_s, cap_s=cap_s)) * SECOND)


def again_at(execution: Execution, now: int, random: Callable[[], float], *, retry_after_s: float | None = None) -> int:
    """Return when to try again an execution that failed on its way, in µs: soon if its approval is on record.

    Args:
        execution: one that has not started; `tries` counts whatever failed before.
        now: wall clock, µs.
        random: as in `delay_s`.
        retry_after_s: as in `retry_at`.
    """
    cap_s = CAP_S if execution.expires_at is None else APPROVED_CAP_S
    return retry_at(execution.tries, now, random, retry_after_s=retry_after_s, cap_s=cap_s)


def after_store_failure(execution: Execution, now: int, random: Callable[[], float]) -> int:
    """Return when to try again what the store failed in the middle of, in µs: soon, whatever is on record.

    An approval may have been read and could not be put on record; and nobody else is spared by waiting longer.

    Args:
        execution: as in `again_at`.
        now: wall clock, µs.
        random: as in `delay_s`.
    """
    return retry_at(execution.tries, now, random, cap_s=APPROVED_CAP_S)


def next_look(execution: Execution, delivery: Delivery, now: int) -> int:
    """Return when to read a waiting request again if nothing is heard, in µs, later than `now`.

    With a webhook: 1, 5, 30 and 60 minutes after the request was made, and 10 s after its deadline. Without one,
    and with one once all that is over: after 1 to 15 minutes, longer with age. (DESIGN, "Looking without being
    told"; requests that are long-polled need no look.)

    Args:
        execution: one that waits.
        delivery: whether the provider can notify.
        now: wall clock, µs.
    """
    made_at = min(now, max(execution.created_at, execution.request_created_at or 0))
    after_deadline = _deadline(execution) + AFTER_DEADLINE
    looks = [made_at + after for after in WEBHOOK_LOOKS] if delivery == "webhook" else [now + _spacing(now - made_at)]
    ahead = [at for at in (*looks, after_deadline) if at > now]
    return min(ahead, default=now + _spacing(now - after_deadline))


def look_after_notification(tries: int, now: int) -> int | None:
    """Return when to read a request that is still pending although its notification came, in µs.

    Args:
        tries: how often it was found pending since, beginning with 0.
        now: wall clock, µs.

    Returns:
        None once looking again shortly did not help: long-poll it.
    """
    return now + AFTER_NOTIFICATION[tries] if tries < len(AFTER_NOTIFICATION) else None


def give_up_at(execution: Execution) -> int:
    """Return when an undecided execution becomes unobtained, in µs: eight days after its deadline.

    Before the provider has said its deadline, the latest it can be counts: timeout after the call was saved.
    """
    return _deadline(execution) + GIVE_UP_AFTER


def _deadline(execution: Execution) -> int:
    if execution.deadline_at is not None:
        return execution.deadline_at
    return execution.created_at + timestamps.duration(execution.timeout)


def _spacing(age: int) -> int:
    return min(max(age // 4, 1 * MINUTE), 15 * MINUTE)
