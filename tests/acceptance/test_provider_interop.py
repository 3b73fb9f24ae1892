"""The public AAP package, not our code, as client and as receiver of this provider."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import httpx
import pytest
from agentapprovalprotocol import (
    Client,
    ConflictError,
    CredentialRefused,
    NotFound,
    Receiver,
    WebhookVerificationFailed,
)
from aiohttp import web

from support.provider import REFUND, Caller, provider, provider_settings
from wakegate_provider import decide
from wakegate_schema.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return provider_settings(tmp_path)


@pytest.fixture
async def caller(settings: Settings) -> AsyncIterator[Caller]:
    async with provider(settings) as caller:
        yield caller


@pytest.fixture
async def client(caller: Caller) -> AsyncIterator[Client]:
    client = Client(caller.url, await caller.credential(), retry_budget=2.0)
    yield client
    client.close()


async def test_its_client_creates_and_long_polls_to_the_decision(settings: Settings, client: Client) -> None:
    created = await asyncio.to_thread(client.create, {**REFUND, "arguments": {"amount": 49.5}}, "k")
    assert (created.status, created.arguments) == ("pending", {"amount": Decimal("49.5")})
    poll = asyncio.create_task(asyncio.to_thread(client.get, created.id, wait=20))
    await asyncio.sleep(0.1)
    decide(settings, created.id, "approve", note="fine")
    read = await poll
    assert read.decision is not None
    assert read.decision.expires_at is not None
    assert (read.status, read.decision.note) == ("approved", "fine")
    assert read.decision.expires_at > read.decision.decided_at


async def test_its_client_gets_the_same_request_for_the_same_key(client: Client) -> None:
    first = await asyncio.to_thread(client.create, REFUND, "k")
    assert (await asyncio.to_thread(client.create, REFUND, "k")).id == first.id
    with pytest.raises(ConflictError) as conflict:
        await asyncio.to_thread(client.create, {**REFUND, "tool": "other"}, "k")
    assert conflict.value.code == "idempotency_conflict"


async def test_its_client_cancels_and_is_told_when_it_is_too_late(settings: Settings, client: Client) -> None:
    cancelled = await asyncio.to_thread(client.create, REFUND, "a")
    assert (await asyncio.to_thread(client.cancel, cancelled.id)).status == "cancelled"
    denied = await asyncio.to_thread(client.create, REFUND, "b")
    decide(settings, denied.id, "deny")
    with pytest.raises(ConflictError) as conflict:
        await asyncio.to_thread(client.cancel, denied.id)
    assert conflict.value.code == "already_terminal"


async def test_its_client_understands_our_refusals(caller: Caller, client: Client) -> None:
    with pytest.raises(NotFound):
        await asyncio.to_thread(client.get, str(uuid.uuid4()))
    with pytest.raises(NotFound):
        await asyncio.to_thread(client.consume, str(uuid.uuid4()), "k")
    stranger = Client(caller.url, "unknown")
    with pytest.raises(CredentialRefused):
        await asyncio.to_thread(stranger.get, str(uuid.uuid4()))
    stranger.close()


@pytest.fixture
async def receiver() -> AsyncIterator[tuple[Receiver, str, list[str]]]:
    """Serve the package's own receiver over HTTP; gives it, its URL and the requests it resumed."""
    resumed: list[str] = []
    receiver = Receiver(resumers={"test": lambda _, request: resumed.append(request.id)})

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        status, body = await receiver.handle(dict(request.headers), await request.read())
        return web.Response(status=status, body=body)

    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield receiver, f"http://127.0.0.1:{runner.addresses[0][1]}/aap/events", resumed
    await runner.cleanup()


async def test_its_receiver_provisions_itself_and_resumes_on_our_delivery(
    settings: Settings, caller: Caller, receiver: tuple[Receiver, str, list[str]]
) -> None:
    peer, url, resumed = receiver
    async with httpx.AsyncClient() as http:
        made = await peer.provision(
            provider_url=caller.url, provisioner_token=caller.token, url=url, instance_name="refund-desk", http=http
        )
        assert made.instance_name == "refund-desk"
        request_id = await caller.request_id(made.token, context={"resume": {"framework": "test"}})
        decide(settings, request_id, "approve")
        async with asyncio.timeout(5):
            while not resumed:
                await asyncio.sleep(0.02)
    assert resumed == [request_id]


async def test_its_receiver_is_told_when_it_cannot_be_verified(
    caller: Caller, receiver: tuple[Receiver, str, list[str]]
) -> None:
    peer, url, _ = receiver
    with pytest.raises(WebhookVerificationFailed):
        await peer.provision(
            provider_url=caller.url, provisioner_token=caller.token, url=url.replace("127.0.0.1", "127.0.0.2")
        )
