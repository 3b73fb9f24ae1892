"""The doctor sends one signed message through real proxies with a bad habit each, and says which habit it is."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web

from support.certificates import certificate
from support.clinic import Diagnosis, PassOn, Twist, diagnose, plant, reverse_proxy, straight, tls_server
from support.console import Console, looked_up
from support.http_servers import http_server
from support.ports import free_port
from wakegate_receiver.refusals_file import read_refusals
from wakegate_receiver.service import receiving
from wakegate_receiver.stopping import Stop
from wakegate_schema.settings import load_settings


async def redirects(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    return web.Response(
        status=308, headers={"Location": "https://planted:planted@elsewhere.example/aap/events?token=planted"}
    )


async def adds_a_slash(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    return await pass_on(body, dict(request.headers), f"{request.path}/")


async def wants_a_slash(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    if not request.path.endswith("/"):
        return web.Response(status=301, headers={"Location": f"{request.path}/"})
    return await pass_on(body, dict(request.headers), request.path.rstrip("/"))


async def strips_a_slash(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    return await pass_on(body, dict(request.headers), request.path.rstrip("/"))


async def rewrites_json(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    return await pass_on(json.dumps(json.loads(body)).encode(), dict(request.headers), request.path)


async def strips_headers(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    kept = {name: value for name, value in request.headers.items() if not name.lower().startswith("webhook-")}
    return await pass_on(body, kept, request.path)


async def changes_the_type(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    return await pass_on(body, {**dict(request.headers), "Content-Type": "text/plain"}, request.path)


async def limits_bodies(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    return web.Response(status=413, text="<html>too large</html>")


async def asks_for_a_login(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    return web.Response(status=401, headers={"WWW-Authenticate": "Basic"})


async def has_no_route(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    return web.Response(status=404, text="nothing here")


async def has_no_upstream(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    return web.Response(status=502)


async def answers_itself(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    return web.Response(status=200, text="OK")


async def is_slow(request: web.Request, body: bytes, pass_on: PassOn) -> web.StreamResponse:
    await asyncio.sleep(3.2)
    return await pass_on(body, dict(request.headers), request.path)


@asynccontextmanager
async def behind(console: Console, twist: Twist, *, path: str = "/aap/events") -> AsyncIterator[Diagnosis]:
    """Run a receiver behind a proxy, and ask the doctor about a registration whose URL is the proxy's."""
    port = free_port()
    console.set("WAKEGATE_LISTEN", f"127.0.0.1:{port}")
    async with reverse_proxy(f"http://127.0.0.1:{port}", twist) as proxy:
        await plant(console, url=proxy.url + path)
        async with receiving(load_settings(), Stop()):
            yield await diagnose(console)


async def test_a_straight_way_is_fine_and_records_nothing(console: Console) -> None:
    async with behind(console, straight) as said:
        assert "answers a signed message rightly" in said.of("url.delivery", "ok")
        assert "leads to /aap/events" in said.of("url.form", "ok")
        assert await asyncio.to_thread(looked_up, console, lambda store: store.notifications()) == []
        assert read_refusals(console.directory / "refusals.jsonl") == []


@pytest.mark.parametrize(
    ("twist", "words"),
    [
        (redirects, "is redirected to https://elsewhere.example/aap/events (308), which no provider follows"),
        (adds_a_slash, "must pass it on as /aap/events"),
        (wants_a_slash, "with a trailing slash it works"),
        (rewrites_json, "something on the way rewrites the body or its headers"),
        (strips_headers, "have the proxy pass the webhook-id"),
        (changes_the_type, "the proxy changes Content-Type"),
        (limits_bodies, "the proxy's limit on bodies is too low"),
        (asks_for_a_login, "a proxy asks for a login"),
        (has_no_route, "the proxy has no route"),
        (has_no_upstream, "the proxy cannot reach the receiver"),
        (answers_itself, "by something that is not this receiver"),
    ],
)
async def test_a_proxys_bad_habit_is_a_problem_and_named(console: Console, twist: Twist, words: str) -> None:
    async with behind(console, twist) as said:
        found = said.of("url.delivery", "problem")
        assert words in found
        assert "planted" not in found
        assert said.ran.code == 1


async def test_a_slash_that_only_the_url_has_is_a_problem(console: Console) -> None:
    async with behind(console, straight, path="/aap/events/") as said:
        assert "without its trailing slash it works" in said.of("url.delivery", "problem")
        assert "but for its trailing slash" in said.of("url.form", "warning")


async def test_a_slash_that_a_proxy_strips_is_worth_no_problem(console: Console) -> None:
    async with behind(console, strips_a_slash, path="/aap/events/") as said:
        assert said.one("url.delivery").verdict == "ok"


async def test_a_slow_way_is_warned_of(console: Console) -> None:
    async with behind(console, is_slow) as said:
        assert "only after 3." in said.of("url.delivery", "warning")


async def test_a_receiver_that_does_not_know_the_secret_is_told_from_a_proxy_that_rewrites(console: Console) -> None:
    port = free_port()
    console.set("WAKEGATE_LISTEN", f"127.0.0.1:{port}")
    async with reverse_proxy(f"http://127.0.0.1:{port}") as proxy:
        found = await plant(console, url=f"{proxy.url}/aap/events")
        elsewhere = console.directory / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        console.set("WAKEGATE_DATABASE", f"sqlite:///{elsewhere}/wakegate.db")
        console.set("WAKEGATE_CONTROL", str(elsewhere / "c.sock"))
        other = load_settings()
        console.set("WAKEGATE_DATABASE", console.database)
        async with receiving(other, Stop()):
            said = await diagnose(console)
    assert "403 unknown_registration" in said.of("url.delivery", "problem")
    assert "another store or key" in said.of("url.delivery", "problem")
    assert found.registration.url is not None


async def test_nothing_listening_is_a_problem(console: Console) -> None:
    await plant(console, url=f"http://127.0.0.1:{free_port()}/aap/events")
    said = await diagnose(console)
    assert "nothing listens at the address" in said.of("url.delivery", "problem")
    assert "no receiver runs" in said.of("store.receiver", "problem")


async def test_without_the_receivers_key_only_the_way_is_tried_and_its_own_message_is_not_held_against_it(
    console: Console,
) -> None:
    port = free_port()
    console.set("WAKEGATE_LISTEN", f"127.0.0.1:{port}")
    await plant(console, url=f"http://127.0.0.1:{port}/aap/events")
    async with receiving(load_settings(), Stop()) as receiver:
        key = console.directory / "receiver.key"
        key.rename(key.with_name("away.key"))
        said = await diagnose(console)
        assert "leads to the receiver; whether bodies come through unchanged" in said.of("url.delivery", "note")
        await receiver.refusals.flush()
        again = await diagnose(console)
    assert again.one("store.refusals").verdict == "ok"


async def test_what_is_not_https_is_a_problem_and_loopback_is_spared(console: Console) -> None:
    await plant(console, url="http://agents.example.invalid/aap/events")
    said = await diagnose(console)
    assert "is not https" in said.of("url.form", "problem")
    assert "does not resolve" in said.of("url.delivery", "problem")


async def test_offline_sends_nothing(console: Console) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=404)

    async with http_server(answer) as server:
        await plant(console, url=f"{server.url}/aap/events", provider=server.url)
        said = await diagnose(console, "--offline")
        assert server.seen == []
        await diagnose(console)
        assert {each.method for each in server.seen} == {"GET", "POST"}
    assert not any(check in said.found for check in ("url.delivery", "url.tls", "provider.reach", "clock.provider"))


@pytest.mark.parametrize(
    ("ends_in", "host", "words"),
    [
        (timedelta(days=-2), None, "ended on"),
        (timedelta(days=60), None, "signed by itself"),
        (timedelta(days=60), "elsewhere.example", "it is for elsewhere.example"),
    ],
)
async def test_a_certificate_that_no_provider_takes_is_a_problem(
    console: Console, tmp_path: Path, ends_in: timedelta, host: str | None, words: str
) -> None:
    async with tls_server(tmp_path, ends_in, host) as url:
        if host is not None:
            console.set("SSL_CERT_FILE", str(tmp_path / "tls.crt"))  # so that only the name is wrong
        await plant(console, url=f"{url}/aap/events")
        said = await diagnose(console)
    assert words in said.of("url.tls", "problem")
    assert "TLS failed" in said.of("url.delivery", "problem")


@pytest.mark.parametrize(("days", "verdict"), [(5, "warning"), (60, "ok")])
async def test_a_certificate_that_is_trusted_is_judged_by_its_end(
    console: Console, tmp_path: Path, days: int, verdict: str
) -> None:
    async with tls_server(tmp_path, timedelta(days=days, hours=1), None) as url:
        console.set("SSL_CERT_FILE", str(tmp_path / "tls.crt"))
        await plant(console, url=f"{url}/aap/events")
        said = await diagnose(console)
    assert said.one("url.tls").verdict == verdict


async def test_the_certificate_that_the_receiver_serves_is_looked_at(console: Console, tmp_path: Path) -> None:
    chain, key = certificate(tmp_path, ends_in=timedelta(days=5, hours=1))
    console.set("WAKEGATE_TLS_CERT_FILE", str(chain))
    console.set("WAKEGATE_TLS_KEY_FILE", str(key))
    await plant(console)
    said = await diagnose(console, "--offline")
    assert "ends in 5 days" in said.of("url.certificate", "warning")
    os.truncate(chain, 10)
    assert "cannot be read" in (await diagnose(console, "--offline")).of("url.certificate", "problem")
