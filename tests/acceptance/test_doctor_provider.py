"""The doctor asks real providers, healthy and not, and compares clocks with them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from email.utils import formatdate
from pathlib import Path

import pytest
from aiohttp import web

from support.clinic import CREDENTIAL, Diagnosis, diagnose, plant, read, tls_server
from support.console import Console, run
from support.http_servers import Served, http_server
from support.ports import free_port
from wakegate_schema import clock

NOT_FOUND = {"error": {"code": "not_found", "message": "no such request"}}


@asynccontextmanager
async def asked(console: Console, status: int = 404, body: object = None, **headers: str) -> AsyncIterator[Diagnosis]:
    """Ask the doctor about an instance at a provider that always answers so."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(NOT_FOUND if body is None else body, status=status, headers=headers)

    async with http_server(answer) as served:
        yield await with_provider(console, served)


async def with_provider(console: Console, served: Served) -> Diagnosis:
    """Put an instance at this provider on record and ask the doctor."""
    await plant(console, provider=served.url)
    return await diagnose(console)


async def test_a_provider_that_does_not_know_the_request_takes_the_credential(console: Console) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(NOT_FOUND, status=404)

    async with http_server(answer) as served:
        said = await with_provider(console, served)
        (seen,) = served.seen
    assert (seen.method, seen.headers["Authorization"]) == ("GET", f"Bearer {CREDENTIAL}")
    assert "takes its credential" in said.of("provider.credential", "ok")
    assert "answers in" in said.of("provider.reach", "ok")
    assert "agrees" in said.of("clock.provider", "ok")
    assert CREDENTIAL not in said.ran.out


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_credential_is_a_problem(console: Console, status: int) -> None:
    async with asked(console, status) as said:
        assert f"refuses its credential ({status})" in said.of("provider.credential", "problem")
        assert "wakegate instance credential desk" in said.of("provider.credential", "problem")


@pytest.mark.parametrize(
    ("status", "body", "check", "words"),
    [
        (503, None, "provider.reach", "answers with 503"),
        (302, None, "provider.reach", "redirects (302)"),
        (404, {"detail": "a page"}, "provider.credential", "does not answer as an approval provider"),
        (200, {}, "provider.credential", "does not answer as an approval provider"),
    ],
)
async def test_an_answer_that_no_provider_gives_is_a_problem(
    console: Console, status: int, body: object, check: str, words: str
) -> None:
    async with asked(console, status, body) as said:
        assert words in said.of(check, "problem")


async def test_a_provider_that_is_down_is_a_problem(console: Console) -> None:
    await plant(console, provider=f"http://127.0.0.1:{free_port()}")
    said = await diagnose(console)
    assert "nothing listens at the address" in said.of("provider.reach", "problem")
    assert "provider.credential" not in said.found


async def test_a_name_that_does_not_resolve_is_a_problem(console: Console) -> None:
    await plant(console, provider="https://approvals.example.invalid")
    said = await diagnose(console)
    assert "the host's name does not resolve" in said.of("provider.reach", "problem")


@pytest.mark.parametrize(("days", "words"), [(-1, "ended on"), (60, "signed by itself")])
async def test_a_certificate_that_is_not_trusted_is_a_problem(
    console: Console, tmp_path: Path, days: int, words: str
) -> None:
    async with tls_server(tmp_path, timedelta(days=days)) as url:
        await plant(console, provider=url)
        said = await diagnose(console)
    assert words in said.of("provider.certificate", "problem")
    assert "TLS failed" in said.of("provider.reach", "problem")


async def test_a_slow_provider_is_warned_of(console: Console) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(2.2)
        return web.json_response(NOT_FOUND, status=404)

    async with http_server(answer) as served:
        said = await with_provider(console, served)
    assert "takes 2." in said.of("provider.reach", "warning")


@pytest.mark.parametrize(("ahead", "verdict"), [(20, "warning"), (-20, "warning"), (400, "problem"), (-400, "problem")])
async def test_a_clock_that_differs_from_the_providers_is_told(console: Console, ahead: int, verdict: str) -> None:
    date = formatdate(clock.now() / clock.SECOND + ahead, usegmt=True)
    async with asked(console, Date=date) as said:
        found = said.of("clock.provider", verdict)
        assert ("behind" if ahead > 0 else "ahead of") in found


async def test_a_test_clock_shows_as_skew_and_is_a_problem_itself(console: Console) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(NOT_FOUND, status=404)

    folder = console.directory
    (folder / "apart").write_text(f"+{600 * clock.SECOND}")
    async with http_server(answer) as served:
        await plant(console, provider=served.url)
        ran = await asyncio.to_thread(
            run, folder, "doctor", "--json", settings={"WAKEGATE_TEST_CLOCK": str(folder / "apart")}
        )
    said = read(ran)
    assert "WAKEGATE_TEST_CLOCK is set" in said.of("settings.tests", "problem")
    assert "10 min ahead of" in said.of("clock.provider", "problem")


async def test_without_the_workers_key_a_provider_is_asked_without_a_credential(console: Console) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"code": "unauthorized", "message": ""}}, status=401)

    async with http_server(answer) as served:
        await plant(console, provider=served.url)
        (console.directory / "worker.key").unlink()
        said = await diagnose(console)
        (seen,) = served.seen
    assert "Authorization" not in seen.headers
    assert said.one("provider.reach").verdict == "ok"
    assert "not tried" in said.of("provider.credential", "note")


async def test_a_proxy_in_the_environment_is_noted_and_not_used(console: Console) -> None:
    console.set("HTTPS_PROXY", "http://planted-user:planted-password@127.0.0.1:1")
    await plant(console)
    said = await diagnose(console, "--offline")
    assert "HTTPS_PROXY is set" in said.of("provider.proxy", "note")
    assert "planted" not in said.ran.out
