"""The SDK's own `Receiver`, as the process of a harness serves it."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from agentapprovalprotocol import AsyncClient, Receiver, Request
from aiohttp import web

from frameworks.support.harness import Resumer, harness

SAVED: Final = "provisioned.json"
"""What the harness keeps of `Receiver.provision`."""
ACKNOWLEDGED: Final = "acknowledged"
"""A line for each notification that this life has acknowledged."""
WAKES: Final = "wakes"
"""A line for each wake that is over: the request's id."""
LATER: Final = "later"
"""While it is there, no wake begins."""


def serve(framework: str, port: str, provider_url: str, token_file: str) -> None:
    """Serve on a loopback port until killed; the first time, provision the instance. `listening` is written then."""
    asyncio.run(_serve(framework, int(port), provider_url, Path(token_file)))


async def _serve(framework: str, port: int, provider_url: str, token_file: Path) -> None:
    async with AsyncExitStack() as stack:
        receiver = _Receiver(resumers={framework: _once_woken(framework, stack)}, **_saved(provider_url))
        runner = web.ServerRunner(web.Server(_handler(receiver), access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        if not Path(SAVED).exists():
            made = await receiver.provision(
                provider_url=provider_url,
                provisioner_token=token_file.read_text().strip(),
                url=f"http://127.0.0.1:{port}/aap/events",
            )
            Path(SAVED).write_text(json.dumps(asdict(made)))
        print("listening", flush=True)  # noqa: T201
        await asyncio.Event().wait()


def _once_woken(framework: str, stack: AsyncExitStack) -> Resumer:
    """The harness's resumer, made at the first wake: before it there may be no instance to make it for."""
    made: list[Resumer] = []

    async def resume(handle: Mapping[str, Any], request: Request) -> None:
        if not made:
            made.append(await stack.enter_async_context(harness(framework).resumer()))
        await made[0](handle, request)

    return resume


class _Receiver(Receiver):
    """The SDK's, which notes what it acknowledges, and when a wake is over."""

    async def handle(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        status, answer = await super().handle(headers, body)
        if status == 204:
            _note(ACKNOWLEDGED, "one")
        return status, answer

    async def wake(self, request_id: str) -> bool:
        while Path(LATER).exists():
            await asyncio.sleep(0.02)
        woken = await super().wake(request_id)
        _note(WAKES, request_id)
        return woken


def _note(name: str, line: str) -> None:
    with Path(name).open("a") as file:
        file.write(f"{line}\n")


def _saved(provider_url: str) -> dict[str, Any]:
    """What a later start passes to the receiver."""
    if not Path(SAVED).exists():
        return {}
    made = json.loads(Path(SAVED).read_text())
    kept = {name: made[name] for name in ("secret", "registration_id", "instance_id")}
    return kept | {"client": AsyncClient(provider_url, made["token"])}


def _handler(receiver: Receiver) -> Any:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        status, body = await receiver.handle(dict(request.headers), await request.read())
        return web.Response(status=status, body=body)

    return handle
