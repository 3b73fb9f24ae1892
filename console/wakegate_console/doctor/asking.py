"""Asking: a harmless question to every provider, and to the receiver's own control listener."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import aiohttp

from wakegate_console.doctor import certificates
from wakegate_console.doctor.certificates import Certificate
from wakegate_schema import clock, ids
from wakegate_schema.addresses import Address
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Instance
from wakegate_schema.sealing import CannotUnseal, Credential, Sealer, unseal_credential
from wakegate_worker.aap_answers import error_code
from wakegate_worker.answer_times import server_date
from wakegate_worker.outbound import Limits, Unanswered, exchange, open_session

LIMIT_S: Final = 5.0
"""How long one provider may take to answer, and to show its certificate, in seconds."""
_MOST_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """What a provider said to one question, whether under an instance's credential or without any."""

    provider: str
    instance: str | None
    """The name of the instance whose credential was used; None for none."""
    failure: str | None = None
    """Why no answer came: a word of `outbound.PROBLEMS`."""
    status: int = 0
    code: str | None = None
    """The provider's own word in its error object."""
    seconds: float = 0.0
    skew: int | None = None
    """How far its clock is ahead of this host's, µs, as its Date says; None when it did not say."""
    certificate: Certificate | None = None
    """What it shows; with the first question only."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the receiver's control listener says."""

    ready: bool
    reason: str | None = None
    """Why it is not ready."""
    obstacle: str | None = None
    """Why nothing was heard: `not_running`, `refused_to_us`, `silent`; None where it answered."""


async def ask_providers(instances: Iterable[Instance], key: Sealer | None) -> Sequence[Asked]:
    """Ask each provider for a request that cannot exist, once under each instance's credential.

    A provider that does not answer the first question is asked no more.

    Args:
        instances: those in use.
        key: the worker's; None asks each provider once, without a credential.
    """
    gate = asyncio.Semaphore(_MOST_AT_ONCE)
    async with open_session() as session:

        async def one(provider: str, instance: Instance | None) -> Asked:
            async with gate:
                return await _ask(session, provider, instance, _credential(instance, key))

        async def all_of(provider: str, asking: list[Instance | None]) -> list[Asked]:
            first, certificate = await asyncio.gather(
                one(provider, asking[0]), certificates.shown_at(provider, LIMIT_S)
            )
            rest = [] if first.failure else await asyncio.gather(*(one(provider, each) for each in asking[1:]))
            return [replace(first, certificate=certificate), *rest]

        wanted = _questions(list(instances), key)
        found = await asyncio.gather(*(all_of(provider, asking) for provider, asking in wanted.items()))
    return [asked for several in found for asked in several]


async def ask_receiver(control: Path | Address) -> Health:
    """Ask the control listener whether the receiver can take webhooks; it makes a write in its store to find out."""
    unix = isinstance(control, Path)
    connector = aiohttp.UnixConnector(str(control)) if isinstance(control, Path) else aiohttp.TCPConnector()
    host = "receiver" if unix else str(control)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, trust_env=False) as session,
            session.get(f"http://{host}/readyz", timeout=aiohttp.ClientTimeout(LIMIT_S)) as answer,
        ):
            told = json.loads(await answer.content.read(65_536))
    except PermissionError:
        return Health(ready=False, obstacle="refused_to_us")
    except (aiohttp.ClientConnectorError, ConnectionError) as error:
        denied = isinstance(getattr(error, "os_error", error), PermissionError)
        return Health(ready=False, obstacle="refused_to_us" if denied else "not_running")
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return Health(ready=False, obstacle="silent")
    return _health(told)


def _health(told: Any) -> Health:
    if not isinstance(told, dict) or not isinstance(told.get("ready"), bool):
        return Health(ready=False, obstacle="silent")
    reason = told.get("reason")
    return Health(ready=told["ready"], reason=reason if isinstance(reason, str) else None)


def _questions(instances: list[Instance], key: Sealer | None) -> dict[str, list[Instance | None]]:
    """Return who asks each provider: the instances whose credential opens; nobody in particular where none does."""
    wanted: dict[str, list[Instance | None]] = {each.provider: [] for each in instances}
    for each in instances:
        if each.state == "active" and _credential(each, key) is not None:
            wanted[each.provider].append(each)
    return {provider: asking or [None] for provider, asking in wanted.items()}


def _credential(instance: Instance | None, key: Sealer | None) -> Credential | None:
    if instance is None or key is None or instance.sealed_credential is None:
        return None
    try:
        return unseal_credential(
            key, instance.sealed_credential, provider=instance.provider, instance_id=instance.instance_id
        )
    except CannotUnseal:
        return None  # the checks of keys tell of it


async def _ask(
    session: aiohttp.ClientSession, provider: str, instance: Instance | None, credential: Credential | None
) -> Asked:
    """Ask, under the credential only where it was sealed for (`Credential.provider`)."""
    name = None if instance is None else instance.name
    base = provider if credential is None else credential.provider
    headers = {"Accept": "application/json"}
    if credential is not None:
        headers["Authorization"] = f"Bearer {credential.token.reveal()}"
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        answer = await exchange(
            session, "GET", f"{base}/v1/requests/{ids.new()}", headers=headers, limits=Limits(LIMIT_S, LIMIT_S),
            caller="read",
        )  # fmt: skip
    except Unanswered as error:
        return Asked(provider, name, failure=error.reason)
    seconds, date = loop.time() - began, server_date(answer)
    middle = clock.now() - int(seconds / 2 * SECOND)
    skew = None if date is None else int(date * SECOND) + SECOND // 2 - middle
    return Asked(provider, name, None, answer.status, error_code(answer), seconds, skew)
