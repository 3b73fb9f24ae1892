"""Delivery: an owed notification is sent, signed, until the receiver acknowledges it or the window ends."""

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp
import structlog

from wakegate_provider.bell import IDLE_SECONDS, Bell, heard
from wakegate_provider.instances import unseal_secret
from wakegate_provider.model import OwedNotification, read_row
from wakegate_provider.outgoing import Unanswered, post_signed
from wakegate_provider.store import ProviderStore, StoreThread
from wakegate_schema.clock import SECOND, now
from wakegate_schema.sealing import CannotUnseal, Sealer
from wakegate_schema.store.errors import StoreUnavailable

FIRST_DELAYS = (0.2, 0.5, 1.0)
"""Seconds before the second, third and fourth attempt; from then on the delay doubles."""

MAX_DELAY = 300.0
"""The longest delay between attempts, in seconds, unless the receiver asks for more."""

JITTER = 0.2
"""Each delay is longer or shorter by up to this part of it."""

PER_INSTANCE = 8
"""Attempts in flight to one instance's receiver at most; one per event (AAP, delivery)."""

MAX_IN_FLIGHT = 256
"""Attempts in flight at most, to all receivers."""

log = structlog.get_logger()


class Courier:
    """Sends what is owed; one attempt in flight per event."""

    def __init__(self, store: StoreThread, sealer: Sealer, session: aiohttp.ClientSession, bell: Bell) -> None:
        """Take the store's thread, the key of the sealed secrets, the session for calls out and the bell."""
        self._store = store
        self._sealer = sealer
        self._session = session
        self._bell = bell
        self._in_flight: dict[str, tuple[str, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Send what becomes due, for ever."""
        with self._bell.listening() as event:
            while True:
                await heard(event, await self._send_due())

    def end(self, instance_id: str) -> None:
        """Break off what is in flight to a deleted instance's receiver."""
        for of_instance, task in self._in_flight.values():
            if of_instance == instance_id:
                task.cancel()

    async def close(self, grace: float) -> None:
        """Let attempts in flight end within `grace` seconds, then break them off; they stay owed."""
        tasks = [task for _, task in self._in_flight.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _send_due(self) -> float:
        """Start the attempts that are due; return the seconds to the next one."""
        at = now()
        try:
            owed, next_at = await self._store(_due, at)
        except StoreUnavailable as error:
            log.warning("looking for notifications failed", action="deliver", reason=error.reason)
            return 1.0
        busy = Counter(instance_id for instance_id, _ in self._in_flight.values())
        for notification in owed[: MAX_IN_FLIGHT - len(self._in_flight)]:
            if notification.event_id in self._in_flight or busy[notification.instance_id] >= PER_INSTANCE:
                continue
            busy[notification.instance_id] += 1
            self._start(notification)
        return IDLE_SECONDS if next_at is None else min((next_at - at) / SECOND, IDLE_SECONDS)

    def _start(self, notification: OwedNotification) -> None:
        task = asyncio.create_task(self._attempt(notification), name=f"deliver {notification.event_id}")
        self._in_flight[notification.event_id] = (notification.instance_id, task)
        task.add_done_callback(lambda _: self._ended(notification.event_id))

    def _ended(self, event_id: str) -> None:
        del self._in_flight[event_id]
        self._bell.ring()

    async def _attempt(self, notification: OwedNotification) -> None:
        """Make one attempt and record what came of it; a record that fails leaves the notification owed."""
        status, result, retry_after = await self._post(notification)
        delivered = status is not None and 200 <= status <= 299
        at = now()
        next_at = retry_at(at, notification.attempts + 1, retry_after, random.random())  # noqa: S311 - only jitter
        log.info(
            "delivery attempted",
            action="deliver",
            event_id=notification.event_id,
            instance_id=notification.instance_id,
            attempt=notification.attempts + 1,
            result=result,
        )
        try:
            await self._store(_record, notification.event_id, result, at, None if delivered else next_at)
        except StoreUnavailable as error:
            log.warning("recording a delivery failed", action="deliver", reason=error.reason)
            await asyncio.sleep(1.0)

    async def _post(self, notification: OwedNotification) -> tuple[int | None, str, str | None]:
        """Return the answer's status, the result in a word and the Retry-After header."""
        try:
            secret = unseal_secret(self._sealer, notification.registration_id, notification.sealed_secret)
            answer = await post_signed(
                self._session,
                notification.delivery_url,
                secret,
                notification.event_id,
                notification.body,
                now(),
            )
        except (Unanswered, CannotUnseal) as error:
            return None, error.reason, None
        except Exception:  # whatever it is, the delays between attempts must hold
            log.exception("unforeseen error", action="deliver", event_id=notification.event_id)
            return None, "unforeseen", None
        return answer.status, f"status_{answer.status}", answer.retry_after


def retry_at(at: int, attempts: int, retry_after: str | None, chance: float) -> int:
    """Return when to try again, in µs since the epoch.

    Args:
        at: now, in µs since the epoch.
        attempts: how many attempts were made.
        retry_after: the receiver's header, seconds or an HTTP date; it can only lengthen the delay.
        chance: from 0 to 1, for the jitter.
    """
    doublings = max(attempts - len(FIRST_DELAYS), 0)
    first = FIRST_DELAYS[min(attempts, len(FIRST_DELAYS)) - 1]
    delay: float = min(first * 2 ** min(doublings, 16), MAX_DELAY)
    delay *= 1 + JITTER * (2 * chance - 1)
    return max(at + round(delay * SECOND), _asked(at, retry_after))


def _asked(at: int, retry_after: str | None) -> int:
    """Return the moment that a Retry-After header names; now when there is none that can be read."""
    if retry_after is None:
        return at
    if retry_after.isascii() and retry_after.isdigit():
        return at + int(retry_after[:9]) * SECOND
    try:
        date = parsedate_to_datetime(retry_after)
    except ValueError:
        return at
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return int((date - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * SECOND


def _due(store: ProviderStore, at: int) -> tuple[list[OwedNotification], int | None]:
    """Return what is due and when the next one will be."""
    rows = store.all("due_notifications", now=at, per_instance=2 * PER_INSTANCE)
    later = store.one("next_notification", now=at)
    return [read_row(OwedNotification, row) for row in rows], None if later is None else later["next_at"]


def _record(store: ProviderStore, event_id: str, result: str, at: int, next_at: int | None) -> None:
    """Record an attempt: delivered when there is no next one."""
    if next_at is None:
        store.run("delivered", event_id=event_id, result=result, now=at)
    else:
        store.run("not_delivered", event_id=event_id, result=result, now=at, next_at=next_at)
