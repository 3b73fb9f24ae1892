"""The public SDK's two gates, called alike; clients, rules and waiting are all its own."""

import asyncio
import time
from collections import Counter
from typing import Any

import httpx
from agentapprovalprotocol import Allow, AsyncClient, AsyncGate, Call, Client, Deny, Gate, Pending, Request

Verdict = Allow | Deny | Pending


class ToolBroken(Exception):
    """The tool failed."""


class Tool:
    """What the gates guard: counts how often each call ran."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.breaks = False

    def __call__(self, call: Call) -> None:
        """Run once."""
        self.ran[call.key] += 1
        if self.breaks:
            raise ToolBroken


class Threaded:
    """`Gate`, which waits in a thread."""

    def __init__(self, url: str, token: str, *, hesitates: float = 0.0, **how: Any) -> None:
        self._client = _Hesitant(url, token, http=httpx.Client(timeout=40.0, follow_redirects=False, verify=False))
        self._client.seconds = hesitates
        self._gate = Gate(self._client, **how)

    async def check(self, call: Call) -> Verdict:
        """Ask about a call."""
        return await asyncio.to_thread(self._gate.check, call)

    async def run(self, call: Call, tool: Tool) -> Verdict:
        """Run a call under the gate's guard, if it may."""

        def guarded() -> Verdict:
            with self._gate.guard(call) as verdict:
                if verdict:
                    tool(call)
            return verdict

        return await asyncio.to_thread(guarded)

    async def read(self, request_id: str) -> Request:
        """Read a request, as strictly as the gate does."""
        return await asyncio.to_thread(self._client.get, request_id)

    async def close(self) -> None:
        """Close its connections."""
        self._client.close()


class Looped:
    """`AsyncGate`, which waits in the event loop."""

    def __init__(self, url: str, token: str, *, hesitates: float = 0.0, **how: Any) -> None:
        http = httpx.AsyncClient(timeout=40.0, follow_redirects=False, verify=False)
        self._client = _AsyncHesitant(url, token, http=http)
        self._client.seconds = hesitates
        self._gate = AsyncGate(self._client, **how)

    async def check(self, call: Call) -> Verdict:
        """Ask about a call."""
        return await self._gate.check(call)

    async def run(self, call: Call, tool: Tool) -> Verdict:
        """Run a call under the gate's guard, if it may."""
        async with self._gate.guard(call) as verdict:
            if verdict:
                tool(call)
        return verdict

    async def read(self, request_id: str) -> Request:
        """Read a request, as strictly as the gate does."""
        return await self._client.get(request_id)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()


class _Hesitant(Client):
    """The SDK's client on a slow line: a consumption takes a while to leave."""

    seconds = 0.0

    def consume(self, request_id: str, key: str) -> Request:
        time.sleep(self.seconds)
        return super().consume(request_id, key)


class _AsyncHesitant(AsyncClient):
    seconds = 0.0

    async def consume(self, request_id: str, key: str) -> Request:
        await asyncio.sleep(self.seconds)
        return await super().consume(request_id, key)
