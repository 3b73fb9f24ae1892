"""Installations for the doctor: what is registered in them, and what it says."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from support.certificates import certificate
from support.console import Console, Ran
from support.desk import Desk, new_id
from support.http_servers import Served, http_server
from wakegate_schema import clock
from wakegate_schema.keys import ensure_key
from wakegate_schema.records import Challenge, Instance, Registration
from wakegate_schema.sealing import seal_credential, seal_signing_secret
from wakegate_schema.signing import SigningSecret
from wakegate_schema.store import Store, open_store

PROVIDER = "http://127.0.0.1:9"
CREDENTIAL = "planted-credential-7f3c"

PassOn = Callable[[bytes, dict[str, str], str], Awaitable[web.StreamResponse]]
Twist = Callable[[web.Request, bytes, PassOn], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Said:
    """One finding."""

    verdict: str
    what: str
    do: str | None


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor said."""

    ran: Ran
    found: dict[str, list[Said]]

    def one(self, check: str) -> Said:
        """The one finding of a check."""
        (said,) = self.found[check]
        return said

    def of(self, check: str, verdict: str) -> str:
        """What a check says with this verdict, which it must give: everything of it in one text."""
        said = [each for each in self.found.get(check, []) if each.verdict == verdict]
        assert said, f"{check} gave no {verdict}: {self.found.get(check)}"
        return "\n".join(f"{each.what} → {each.do}" for each in said)

    def worse_than(self, verdict: str) -> list[tuple[str, str, str]]:
        """Every finding that is worse."""
        order = ("ok", "note", "warning", "problem")
        worse = order[order.index(verdict) + 1 :]
        return [
            (check, each.verdict, each.what)
            for check, said in self.found.items()
            for each in said
            if each.verdict in worse
        ]


def read(ran: Ran) -> Diagnosis:
    """Read what `doctor --json` has written."""
    found: dict[str, list[Said]] = {}
    try:
        rows: list[dict[str, Any]] = json.loads(ran.out)
    except ValueError:
        raise AssertionError(f"{ran.code}: {ran.out} {ran.err}") from None
    for row in rows:
        assert row["area"] == row["check"].partition(".")[0]
        found.setdefault(row["check"], []).append(Said(row["verdict"], row["what"], row["do"]))
    worst = any(each.verdict == "problem" for said in found.values() for each in said)
    assert ran.code in ((1, 2) if worst else (0,)), ran
    return Diagnosis(ran, found)


def diagnosed(console: Console, *arguments: str) -> Diagnosis:
    """Run the doctor in this process."""
    return read(console("doctor", "--json", *arguments))


async def diagnose(console: Console, *arguments: str) -> Diagnosis:
    """Run it beside this event loop."""
    return await asyncio.to_thread(diagnosed, console, *arguments)


@dataclass(frozen=True)
class Planted:
    """What was put on record."""

    registration: Registration
    instance: Instance
    secret: SigningSecret


async def plant(
    console: Console, *, provider: str = PROVIDER, url: str | None = None, name: str = "desk", **changes: Any
) -> Planted:
    """Put an instance with a registration on record, sealed with the installation's own keys, made if need be."""
    receiver, worker = (ensure_key(console.directory / f"{party}.key") for party in ("receiver", "worker"))
    registration_id, instance_id, secret, now = new_id(), new_id(), SigningSecret.generate(), clock.now()
    sealed = seal_signing_secret(receiver, provider=provider, registration_id=registration_id, secret=secret)
    registration = Registration(
        registration_id, provider, name, "expected", sealed, url, None, None, now, now + clock.HOUR
    )
    credential = seal_credential(worker, provider=provider, instance_id=instance_id, token=CREDENTIAL)
    instance = Instance(provider, instance_id, name, "active", None, "webhook", credential, now + 90 * clock.DAY, now)
    instance = replace(instance, **changes)
    async with await open_store(console.database, mode="service") as store:
        await store.add_registration(registration)
        await store.bind(Challenge(registration_id, instance_id, now))
        await store.add_instance(instance, registration_id)
    return Planted(registration, instance, secret)


def planted(console: Console, **changes: Any) -> Planted:
    """The same, from outside an event loop."""
    return asyncio.run(plant(console, **changes))


def changed(console: Console, work: Callable[[Store], Awaitable[Any]]) -> None:
    """Do something in the store."""

    async def act() -> None:
        async with await open_store(console.database, mode="service") as store:
            await work(store)

    asyncio.run(act())


async def straight(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    """The twist of a proxy that has none."""
    return await pass_on(body, dict(request.headers), request.path)


@asynccontextmanager
async def reverse_proxy(upstream: str, twist: Twist = straight) -> AsyncIterator[Served]:
    """Run a real reverse proxy in front of a receiver, with one habit of its own.

    Args:
        upstream: the receiver's origin.
        twist: takes a request, its body and what passes a body, headers and a path on.
    """
    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def pass_on(body: bytes, headers: dict[str, str], path: str) -> web.StreamResponse:
            kept = {name: value for name, value in headers.items() if name.lower() not in ("host", "content-length")}
            async with session.request(
                "POST", upstream + path, data=body, headers=kept, allow_redirects=False
            ) as answer:
                kind = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
                return web.Response(status=answer.status, body=await answer.read(), headers=kind)

        async def handle(request: web.Request) -> web.StreamResponse:
            return await twist(request, await request.read(), pass_on)

        async with http_server(handle) as served:
            yield served


@asynccontextmanager
async def tls_server(folder: Path, ends_in: timedelta, host: str | None = None) -> AsyncIterator[str]:
    """Serve TLS with a certificate of its own (see `certificate`); gives the origin."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate(folder, ends_in=ends_in, host=host))

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=404)

    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Every file of a folder, with mode, size and the time of its last change."""
    found = [(path, path.lstat()) for path in folder.rglob("*")]
    return {str(path): (status.st_mode, status.st_size, status.st_mtime_ns) for path, status in found}


def at_desk(console: Console, found: Planted, work: Callable[[Desk], Awaitable[Any]]) -> None:
    """Do something with calls of the instance."""
    changed(console, lambda store: work(Desk(store, found.instance.provider, found.instance.instance_id)))


def suspended(console: Console, found: Planted, **changes: Any) -> None:
    """Save a call of the instance."""
    at_desk(console, found, lambda desk: desk.save(**changes))
