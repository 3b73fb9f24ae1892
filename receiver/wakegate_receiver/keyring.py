"""The keyring: the signing secrets, unsealed in memory, and read again when a message does not verify."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import structlog

from wakegate_receiver.messages import VERIFICATION, Message
from wakegate_schema.records import Registration
from wakegate_schema.sealing import CannotUnseal, Sealer, unseal_signing_secret
from wakegate_schema.signing import MalformedSecret, SigningSecret

REFRESH_INTERVAL_S: Final = 0.1
"""Seconds between the starts of two readings, whatever comes in: junk cannot make this a load."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Signer:
    """The name of a secret: whose it is."""

    provider: str
    registration_id: str


Secrets = Mapping[Signer, SigningSecret]


@dataclass(frozen=True, slots=True)
class _Opened:
    """What one reading gave; not changed once it is in use."""

    unsealed: dict[tuple[Signer, bytes], SigningSecret] = field(default_factory=dict, repr=False)
    by_registration: dict[str, dict[Signer, SigningSecret]] = field(default_factory=dict, repr=False)
    by_instance: dict[str, dict[Signer, SigningSecret]] = field(default_factory=dict, repr=False)
    closed: set[tuple[Signer, bytes]] = field(default_factory=set, repr=False)
    """What does not open under the keys there are."""


class Keyring:
    """The secrets of every registration; retired ones too, so that what they still sign is told apart from junk."""

    def __init__(self, sealer: Sealer, registrations: Callable[[], Awaitable[list[Registration]]]) -> None:
        """Take the receiver's key and the way to read the registrations; `renew` reads them the first time."""
        self._sealer = sealer
        self._registrations = registrations
        self._known: list[Registration] = []
        self._opened = _Opened()
        self._turn = asyncio.Lock()
        self._coming: asyncio.Task[None] | None = None
        """The next reading, not begun yet."""
        self._reading: asyncio.Task[None] | None = None
        """The last one that began; kept, because the loop alone would not keep it alive."""
        self._read_at = float("-inf")

    def secrets_for(self, message: Message) -> Secrets:
        """Return the secrets that may have signed a message; none when its registration or instance is unknown.

        Two providers may use the same instance id, so a notification may have been signed for any of them.
        """
        opened = self._opened
        known = opened.by_registration if message.kind == VERIFICATION else opened.by_instance
        return known.get(message.selector, _NONE)

    async def renew(self) -> None:
        """Return once the registrations have been read by a reading that began after this call.

        Everybody who calls before a reading begins shares it, and one reading runs at a time. Raises what the
        reading raises.
        """
        if self._coming is None:
            self._coming = asyncio.create_task(self._read())
            self._coming.add_done_callback(_notice)
        await asyncio.shield(self._coming)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        async with self._turn:
            await asyncio.sleep(max(0.0, self._read_at + REFRESH_INTERVAL_S - loop.time()))
            self._read_at = loop.time()
            self._reading, self._coming = self._coming, None
            found = await self._registrations()
            if found != self._known or (self._opened.closed and self._sealer.renew()):
                # In a thread: thousands of them would hold everybody up.
                self._opened = await asyncio.to_thread(self._open, found, self._opened)
                self._known = found

    def _open(self, registrations: list[Registration], before: _Opened) -> _Opened:
        """Return the secrets of these registrations, unsealing only what was not unsealed before."""
        opened = _Opened()
        for registration in registrations:
            signer = Signer(registration.provider, registration.registration_id)
            name = (signer, registration.sealed_secret)
            secret = before.unsealed.get(name) or self._unseal(*name, told=name in before.closed)
            if secret is None:
                if registration.sealed_secret:
                    opened.closed.add(name)
                continue
            opened.unsealed[name] = secret
            opened.by_registration.setdefault(signer.registration_id, {})[signer] = secret
            if registration.instance_id is not None:
                opened.by_instance.setdefault(registration.instance_id, {})[signer] = secret
        return opened

    def _unseal(self, signer: Signer, sealed: bytes, *, told: bool) -> SigningSecret | None:
        """Return a secret, or None for one that retention erased or this key does not open, which is `told` once."""
        if not sealed:
            return None
        try:
            return unseal_signing_secret(
                self._sealer, sealed, provider=signer.provider, registration_id=signer.registration_id
            )
        except (CannotUnseal, MalformedSecret) as error:
            if told:
                return None
            _log.error(
                "a signing secret cannot be used; its provider's messages will be refused",
                action="unseal",
                reason=error.reason,
                registration_id=signer.registration_id,
                problem=str(error),
            )
            return None


_NONE: Final[Secrets] = MappingProxyType({})


def _notice(reading: "asyncio.Task[None]") -> None:
    """Take note of how a reading ended even if nobody waits for it any more."""
    if not reading.cancelled():
        reading.exception()
