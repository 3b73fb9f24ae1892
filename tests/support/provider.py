"""What the provider's tests share: settings, a caller, and a receiver for which the public SDK verifies."""

import asyncio
import io
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
from agentapprovalprotocol import receiver as sdk
from aiohttp import web

from wakegate_provider.service import running
from wakegate_schema.settings import Settings


def provider_settings(folder: Path, policy: str | None = None) -> Settings:
    """Return settings for a provider in this folder, on a free port."""
    policy_file = None
    if policy is not None:
        policy_file = folder / "policy.toml"
        policy_file.write_text(policy, encoding="utf-8")
    return Settings.model_validate(
        {
            "provider_listen": "127.0.0.1:0",
            "provider_database": f"sqlite:///{folder}/provider.db",
            "provider_policy_file": policy_file,
        }
    )


@dataclass
class Answered:
    """One answer of the provider."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def code(self) -> str:
        """The machine word of a refusal."""
        code: str = self.body["error"]["code"]
        return code


@dataclass
class Caller:
    """Calls a provider over HTTP with whatever a test wants to send."""

    url: str
    token: str
    """The provisioner token."""
    session: aiohttp.ClientSession

    async def call(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        key: str | None = None,
        body: object = None,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answered:
        """Call the provider as its provisioner, or with another token; an empty one sends none."""
        token = self.token if token is None else token
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        if key is not None:
            sent["Idempotency-Key"] = key
        data = io.BytesIO(raw if raw is not None else json.dumps(body).encode())
        if raw is not None or body is not None:
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        async with self.session.request(
            method, self.url + path, data=data if "Content-Type" in sent else None, headers=sent
        ) as response:
            text = await response.read()
            return Answered(response.status, response.headers, json.loads(text) if text else None)

    async def provision(
        self, end: "ReceivingEnd | None" = None, *, key: str | None = None, name: str | None = "refund-desk"
    ) -> Answered:
        """Create an instance that delivers to this receiver, or one without delivery."""
        body: dict[str, object] = {} if name is None else {"instance_name": name}
        if end is not None:
            body["delivery"] = end.delivery()
        return await self.call("POST", "/v1/instances", key=key or str(uuid.uuid4()), body=body)

    async def credential(self, end: "ReceivingEnd | None" = None) -> str:
        """Create an instance and return its credential."""
        answered = await self.provision(end)
        token: str = answered.body["credential"]["token"]
        return token

    async def submit(self, token: str, *, key: str | None = None, **fields: object) -> Answered:
        """Submit a refund, with other fields where they are given."""
        return await self.call(
            "POST", "/v1/requests", token=token, key=key or str(uuid.uuid4()), body={**REFUND, **fields}
        )

    async def request_id(self, token: str, *, key: str | None = None, **fields: object) -> str:
        """Submit a refund and return the request's id."""
        answered = await self.submit(token, key=key, **fields)
        request_id: str = answered.body["id"]
        return request_id


REFUND: Mapping[str, object] = {"tool": "issue_refund", "arguments": {"amount": 4900}, "timeout": "30m"}


@dataclass
class ReceivingEnd:
    """A real HTTP receiver; the public SDK verifies every message that comes in."""

    secret: str = field(default_factory=sdk.new_secret)
    registration_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    statuses: list[int] = field(default_factory=list)
    """The answers to the next notifications; 204 when it is empty."""
    retry_after: str | None = None
    answer_challenge: Callable[[str], tuple[int, object]] = lambda challenge: (200, {"challenge": challenge})
    """The status and the body that a challenge is answered with."""
    pause: float = 0.0
    url: str = ""
    messages: list[tuple[dict[str, Any], dict[str, str], bytes]] = field(default_factory=list)
    challenges: list[dict[str, Any]] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    def delivery(self, **fields: object) -> dict[str, object]:
        """Return the `delivery` that a provisioner submits for this receiver."""
        return {
            "type": "webhook",
            "url": self.url,
            "registration_id": self.registration_id,
            "signing_secret": self.secret,
            **fields,
        }

    async def received(self, count: int, seconds: float = 5.0) -> None:
        """Wait until so many notifications came in, answered with whatever status."""
        async with asyncio.timeout(seconds):
            while len(self.messages) < count:
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[Self]:
        """Serve on this port, or on a free one, for as long as the block lasts."""
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/aap/events"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            body = await request.read()
            message = sdk.verify(self.secret, dict(request.headers), body)
            if self.pause:
                await asyncio.sleep(self.pause)
            if message["type"] == "webhook.verification":
                return self._challenged(message)
            self.messages.append((message, dict(request.headers), body))
            status = self.statuses.pop(0) if self.statuses else 204
            headers = {"Retry-After": self.retry_after} if self.retry_after and status >= 400 else {}
            if 300 <= status <= 399:
                headers["Location"] = self.url
            return web.Response(status=status, headers=headers)
        finally:
            self.running -= 1

    def _challenged(self, message: dict[str, Any]) -> web.StreamResponse:
        self.challenges.append(message)
        status, body = self.answer_challenge(message["challenge"])
        return web.json_response(body, status=status, headers={"Location": self.url})


@asynccontextmanager
async def provider(settings: Settings) -> AsyncIterator[Caller]:
    """Run a provider in this process and call it."""
    async with running(settings) as url, aiohttp.ClientSession() as session:
        token = settings.provider_provisioner_token_path.read_text().strip()
        yield Caller(url, token, session)
