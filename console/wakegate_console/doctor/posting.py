"""Posting: a message to a registration's own URL, as its provider would send it, and the same to the local listener.

It is a `webhook.verification` for the very instance that the registration is bound to, signed with its own secret: the
receiver answers its challenge and records nothing (DESIGN, "The receiver's answers"). Its JSON is valid and written as
no library writes it, so that whoever rewrites bodies on the way breaks the signature. Where the secret cannot be
unsealed, an empty object is posted instead, which the receiver refuses.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from wakegate_console.doctor import certificates
from wakegate_console.doctor.certificates import Certificate
from wakegate_receiver.answers import ANSWERS
from wakegate_schema import clock, ids, timestamps
from wakegate_schema.addresses import Address
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Registration
from wakegate_schema.sealing import CannotUnseal, Sealer, unseal_signing_secret
from wakegate_schema.settings import Settings
from wakegate_schema.signing import MalformedSecret, SigningSecret, signed_headers
from wakegate_worker.outbound import Answer, Limits, Unanswered, exchange, open_session

LIMIT_S: Final = 10.0
"""How long one message may take to be answered, in seconds: what a provider waits at the least."""
_MOST_AT_ONCE: Final = 32
UNSIGNED: Final = b"{}"
"""What is posted where nothing can be signed; the receiver refuses it for its missing headers."""
_TOLD: Final = frozenset(ANSWERS) | {answer.told for answer in ANSWERS.values() if answer.told is not None}


@dataclass(frozen=True, slots=True)
class Reply:
    """What one message was answered."""

    failure: str | None = None
    """Why no answer came: a word of `outbound.PROBLEMS`."""
    status: int = 0
    reason: str | None = None
    """The receiver's own word in its answer; None where somebody else wrote it."""
    challenged: bool = False
    """Whether it is the challenge, exactly."""
    location: str | None = None
    """Where a redirect leads, without its query."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of the messages about one registration."""

    registration: Registration
    url: str
    signed: bool
    """Whether its secret was there to sign with."""
    public: Reply
    """What came from the URL."""
    local: Reply | None
    """What the local listener answered to such a message; None where its port is not known."""
    sibling: Reply | None = None
    """What came from the URL with its trailing slash added or taken away, tried where the URL itself fails."""
    certificate: Certificate | None = field(default=None, repr=False)


async def deliver(registrations: Sequence[Registration], key: Sealer | None, settings: Settings) -> list[Delivered]:
    """Post one message for each registration that has a URL, to it and to the local listener.

    Args:
        registrations: live ones, each bound to its instance.
        key: the receiver's; None posts nothing that is signed.
        settings: say where the receiver listens.
    """
    async with (
        open_session() as session,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=certificates.taking_any()),  # its name is not in its certificate
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        ) as nearby,
    ):
        post = Post(session, nearby, local_url(settings))
        gate = asyncio.Semaphore(_MOST_AT_ONCE)

        async def one(registration: Registration) -> Delivered:
            async with gate:
                return await post.all_for(registration, key)

        return list(await asyncio.gather(*(one(each) for each in registrations if each.url)))


def local_url(settings: Settings) -> str | None:
    """Return where the receiver listens on this machine; None where the system chose its port."""
    listen = settings.listen
    if listen.port == 0:
        return None
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)  # noqa: S104 - what a setting may say
    scheme = "http" if settings.tls_cert_file is None else "https"
    return f"{scheme}://{Address(host, listen.port)}{settings.events_path}"


def other_slash(url: str) -> str:
    """Return the URL with its path's trailing slash added or taken away."""
    head, mark, query = url.partition("?")
    return f"{head.removesuffix('/') if head.endswith('/') else f'{head}/'}{mark}{query}"


def is_ours(refusal: Mapping[str, Any]) -> bool:
    """Say whether a refusal that the receiver kept is of a message that could not be signed here."""
    return bool(refusal["reason"] == "missing_webhook_id" and refusal["bytes"] == len(UNSIGNED))


@dataclass(frozen=True, slots=True)
class Post:
    """Posts messages."""

    session: aiohttp.ClientSession
    nearby: aiohttp.ClientSession
    """For the local listener: any certificate will do."""
    local: str | None

    async def all_for(self, registration: Registration, key: Sealer | None) -> Delivered:
        """Post the messages about one registration."""
        url = registration.url or ""
        secret = _secret(registration, key)
        public, local, certificate = await asyncio.gather(
            self._one(self.session, url, registration, secret),
            self._nearby(registration, secret),
            certificates.shown_at(url, LIMIT_S / 2),
        )
        sibling = None
        if 300 <= public.status < 500 and not passes(public, signed=secret is not None):
            sibling = await self._one(self.session, other_slash(url), registration, secret)
        return Delivered(registration, url, secret is not None, public, local, sibling, certificate)

    async def _nearby(self, registration: Registration, secret: SigningSecret | None) -> Reply | None:
        return None if self.local is None else await self._one(self.nearby, self.local, registration, secret)

    async def _one(
        self, session: aiohttp.ClientSession, url: str, registration: Registration, secret: SigningSecret | None
    ) -> Reply:
        challenge, message_id = ids.new(), ids.new()
        headers, body = {"Content-Type": "application/json"}, UNSIGNED
        if secret is not None:
            body = message(registration, message_id, challenge)
            headers |= signed_headers([secret], message_id, clock.now() // SECOND, body)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            answer = await exchange(
                session, "POST", url, headers=headers, body=body, limits=Limits(LIMIT_S, LIMIT_S), caller="wake"
            )
        except Unanswered as error:
            return Reply(failure=error.reason, seconds=loop.time() - began)
        return read(answer, challenge, loop.time() - began)


def passes(reply: Reply, *, signed: bool) -> bool:
    """Say whether an answer is the one that a receiver gives to such a message, signed or not."""
    return reply.challenged or (not signed and reply.reason == "missing_webhook_id")


def message(registration: Registration, message_id: str, challenge: str) -> bytes:
    """Return a verification whose JSON no library would write so: odd spaces, an escape, CRLF, another order."""
    created = timestamps.render(clock.now())
    escaped = f"\\u{ord(challenge[0]):04X}{challenge[1:]}"
    return (
        f'{{ "challenge" :  "{escaped}",\r\n\t"type":"webhook.verification" ,"created_at":\t"{created}",\n'
        f'  "instance_id": "{registration.instance_id}","registration_id" : "{registration.registration_id}",\n'
        f'\t"id"\t: "{message_id}"  }}\n'
    ).encode()


def read(answer: Answer, challenge: str, seconds: float) -> Reply:
    """Return what an answer says."""
    told = _object(answer.body)
    reason = told.get("reason")
    return Reply(
        status=answer.status,
        reason=reason if isinstance(reason, str) and reason in _TOLD else None,
        challenged=answer.status == 200 and told == {"challenge": challenge},
        location=_place(answer.headers.get("Location")) if 300 <= answer.status < 400 else None,
        seconds=seconds,
    )


def _object(body: bytes | None) -> dict[str, object]:
    try:
        told = json.loads(body or b"")
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _place(location: str | None) -> str | None:
    """Return where a redirect leads, without what may be secret in it: user, password, query, fragment."""
    try:
        parts = urlsplit(location or "")
    except ValueError:
        return None
    host = parts.netloc.rpartition("@")[2]
    return (f"{parts.scheme}://{host}{parts.path}" if host else parts.path)[:200] or None


def _secret(registration: Registration, key: Sealer | None) -> SigningSecret | None:
    if key is None or registration.instance_id is None:
        return None
    try:
        return unseal_signing_secret(
            key,
            registration.sealed_secret,
            provider=registration.provider,
            registration_id=registration.registration_id,
        )
    except (CannotUnseal, MalformedSecret):
        return None  # the checks of keys tell of it
