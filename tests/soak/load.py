"""The load: a client that signs as a provider does, and notes every 2xx outside the program before it goes on."""

import asyncio
import hashlib
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import aiohttp
from yarl import URL

from soak.journal import Journal
from support.deliveries import Delivery, Sender, new_id

AT_ONCE = 16
"""Deliveries in flight at most: a slow machine gets fewer a second."""
FAR = 3600.0
"""Seconds by which a stale delivery is stale, more than any clock of the soak is apart."""
ANSWER_S = 12.0


@dataclass(frozen=True, slots=True)
class Event:
    """A notification: the same id and body in every attempt."""

    event_id: str
    body: bytes
    kind: str


class Load:
    """Sends to the receivers for one instance, to any of them at any time, as a load balancer does."""

    def __init__(
        self,
        urls: Sequence[str],
        sender: Sender,
        random: Random,
        journal: Journal,
        requests: Callable[[], list[str]],
    ) -> None:
        """Take the receivers' URLs, what signs, what chooses, the journal of 2xx, and what names real requests."""
        self._urls = urls
        self._sender = sender
        self._random = random
        self._journal = journal
        self._requests = requests
        self._open: deque[Event] = deque()
        self._acknowledged: deque[Event] = deque(maxlen=500)
        self._in_flight = 0
        self.answers: Counter[tuple[str, str]] = Counter()
        """How often each kind of delivery was answered in each way."""

    @property
    def acknowledged(self) -> int:
        """How many deliveries were answered with 2xx."""
        return sum(count for (_, answer), count in self.answers.items() if answer.startswith("2"))

    async def run(self, per_second: float, until: asyncio.Event) -> None:
        """Send at this rate, or slower if the receiver is slow, until the event is set."""
        async with self._session() as session, asyncio.TaskGroup() as group:
            while not until.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(until.wait(), self._random.expovariate(per_second))
                if self._in_flight < AT_ONCE:
                    group.create_task(self._send_one(session))

    async def deliver_the_rest(self, seconds: float) -> int:
        """Repeat what has no 2xx yet, as a provider would, and return how many have none in the end."""
        deadline = time.monotonic() + seconds
        async with self._session() as session:
            while self._open and time.monotonic() < deadline:
                batch = [self._open.popleft() for _ in range(min(AT_ONCE, len(self._open)))]
                before = len(self._open)
                await asyncio.gather(*(self._send(session, event) for event in batch))
                if len(self._open) > before:
                    await asyncio.sleep(0.5)
        return len(self._open)

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_S))

    async def _send_one(self, session: aiohttp.ClientSession) -> None:
        self._in_flight += 1
        chance = self._random.random()
        if chance < 0.1:
            await self._junk(session)
        elif chance < 0.3 and (self._open or self._acknowledged):
            event = self._open.popleft() if self._open else self._random.choice(self._acknowledged)
            await self._send(session, event)
        else:
            await self._send(session, self._event())
        self._in_flight -= 1

    def _event(self) -> Event:
        real = self._requests() if self._random.random() < 0.3 else []
        request_id = self._random.choice(real) if real else new_id()
        delivery = self._sender.notification(request_id)
        return Event(delivery.headers["webhook-id"], delivery.body, "real" if real else "unknown")

    async def _send(self, session: aiohttp.ClientSession, event: Event) -> None:
        answer = await self._post(session, self._sender.raw(event.body, event.event_id))
        self.answers[event.kind, answer] += 1
        if answer.startswith("2"):
            self._journal.note(event_id=event.event_id, body=hashlib.sha256(event.body).hexdigest())
            self._acknowledged.append(event)
        else:
            self._open.append(event)

    async def _junk(self, session: aiohttp.ClientSession) -> None:
        kind, make = self._random.choice(_JUNK)
        made = make(self._sender)
        answer = await self._garble(made) if isinstance(made, bytes) else await self._post(session, made)
        self.answers[f"junk: {kind}", answer] += 1

    async def _post(self, session: aiohttp.ClientSession, delivery: Delivery) -> str:
        url = self._random.choice(self._urls)
        try:
            async with session.post(url, data=delivery.body, headers=delivery.headers) as response:
                return str(response.status)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return type(error).__name__

    async def _garble(self, said: bytes) -> str:
        """Say something to the receiver that is no HTTP, or not all of it, and leave after a second."""
        address = URL(self._random.choice(self._urls))
        try:
            reader, writer = await asyncio.open_connection(address.host, address.port)
        except OSError as error:
            return type(error).__name__
        with suppress(OSError, TimeoutError):
            writer.write(said)
            await writer.drain()
            line = await asyncio.wait_for(reader.readline(), 1.0)
            writer.close()
            return line.split(b" ")[1].decode() if line.startswith(b"HTTP/") else "closed"
        writer.close()
        return "silence"


def _other(delivery: Delivery) -> Delivery:
    return Delivery(delivery.headers, delivery.body.replace(b'"created_at": "2', b'"created_at": "1'))


def _unknown_field(sender: Sender) -> Delivery:
    value = json.loads(sender.notification().body)
    return sender.message(value | {"decision": "approved"})


_JUNK: tuple[tuple[str, Callable[[Sender], Delivery | bytes]], ...] = (
    ("stale", lambda sender: sender.notification(at=time.time() - FAR)),
    ("altered", lambda sender: _other(sender.notification())),
    ("unsigned", lambda sender: sender.notification().with_headers(webhook_signature=None)),
    ("other id", lambda sender: sender.raw(sender.notification().body, new_id())),
    ("unknown field", _unknown_field),
    ("not JSON", lambda sender: sender.raw(b'{"id": "')),
    ("not typed", lambda sender: sender.notification().with_headers(content_type="text/plain")),
    ("too large", lambda sender: sender.raw(b'{"id": "' + b"a" * 100_000 + b'"}')),
    ("no HTTP", lambda sender: b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"),
    ("half a head", lambda sender: b"POST /aap/events HTTP/1.1\r\nHost: x\r\nwebhook-id: "),
    ("half a body", lambda sender: b"POST /aap/events HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{"),
)
"""What is sent beside genuine notifications, and never deserves a 2xx."""
