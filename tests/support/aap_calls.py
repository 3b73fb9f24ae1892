"""Calls of the AAP client, and answers to them, for tests against servers on loopback."""

import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from support.executions import INSTANCE_ID, an_execution, unattached
from support.http_servers import Handler
from wakegate_schema import strict_json
from wakegate_schema.records import Execution
from wakegate_schema.sealing import BearerToken, Credential
from wakegate_worker.aap import AapClient
from wakegate_worker.decisions import (
    DecisionError,
)
from wakegate_worker.outbound import Limits

TOKEN = "tok-PLANTED-secret-1234567890"
TRACE = "3f0e6a3c-8f9e-4d2e-9c53-0f3f4f1f9d10"
SHORT = Limits(connect_s=1.0, total_s=0.5)


def client(session: aiohttp.ClientSession, url: str, limits: Limits = SHORT) -> AapClient:
    return AapClient(session, Credential(url, INSTANCE_ID, BearerToken(TOKEN)), limits=limits)


def answering(
    body: object, status: int = 200, content_type: str | None = "application/json", **headers: str
) -> Handler:
    data = body if isinstance(body, bytes) else strict_json.dumps(body)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if content_type is not None:
        sent["Content-Type"] = content_type

    async def handler(request: web.Request) -> web.Response:
        response = web.Response(status=status, body=data, headers=sent)
        if content_type is None:
            response.headers.popall("Content-Type", None)
        return response

    return handler


def error_body(code: str, kind: str = "invalid_request") -> dict[str, Any]:
    return {"error": {"type": kind, "code": code, "message": f"{TOKEN} 4900 p-9", "request_id": TRACE}}


async def failing(
    call: Callable[[AapClient], Awaitable[object]], session: aiohttp.ClientSession, url: str
) -> DecisionError:
    with pytest.raises(DecisionError) as raised:
        await call(client(session, url))
    shown = "".join(traceback.format_exception(raised.value)) + repr(raised.value) + repr(vars(raised.value))
    cause: BaseException | None = raised.value.__context__
    while cause is not None:  # hidden from tracebacks perhaps, but not from whatever walks the chain
        shown += repr(cause) + repr(vars(cause))
        cause = cause.__context__
    assert TOKEN not in shown
    assert "p-9" not in shown
    return raised.value


def read(execution: Execution | None = None, wait_s: float = 0.0) -> Callable[[AapClient], Awaitable[object]]:
    return lambda source: source.read(execution or an_execution(), wait_s)


def submit(execution: Execution | None = None) -> Callable[[AapClient], Awaitable[object]]:
    return lambda source: source.submit(execution or unattached())


def cancel(source: AapClient) -> Awaitable[object]:
    return source.cancel(an_execution())
