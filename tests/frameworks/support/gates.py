"""The SDK's gate and client, which reach points on their way."""

from typing import Any

from agentapprovalprotocol import AsyncClient, AsyncGate, Call, Request

from frameworks.support.desk import Desk
from frameworks.support.points import Point, arrive


def gate(desk: Desk) -> AsyncGate:
    """The gate of a harness that pauses."""
    return _Gate(_Client(desk.url, desk.token), mode="async", timeout=desk.timeout)


class _Gate(AsyncGate):
    async def check(self, call: Call, *, can_pause: bool = True) -> Any:
        await arrive(Point.BEFORE_GATE)
        return await super().check(call, can_pause=can_pause)


class _Client(AsyncClient):
    async def create(self, submission: Any, idempotency_key: str) -> Request:
        request = await super().create(submission, idempotency_key)
        await arrive(Point.ASKED)
        return request

    async def consume(self, request_id: str, key: str) -> Request:
        request = await super().consume(request_id, key)
        await arrive(Point.CONSUMED)
        return request

    async def report_outcome(self, request_id: str, status: str, note: str | None = None) -> Request:
        await arrive(Point.RAN)
        request = await super().report_outcome(request_id, status, note)
        await arrive(Point.REPORTED)
        return request
