"""The calls of a harness over the receiver's control API: the verbs of `Calls`, for who may not open the store."""

import asyncio
import functools
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from wakegate_adapter.control_answers import (
    ClaimAnswer,
    HarnessAnswer,
    HeldAnswer,
    PageAnswer,
    RefusedClaimAnswer,
    RenewedAnswer,
    SavedAnswer,
    StandingAnswer,
    read,
)
from wakegate_adapter.control_errors import not_understood, refused_by
from wakegate_adapter.control_http import PAGE_LIMIT, Answer, ControlHttp, Verb
from wakegate_adapter.control_stream import READY, RESOLUTION, events
from wakegate_schema import clock
from wakegate_schema.addresses import Address
from wakegate_schema.calls import Call, Grant, Standing, Taken
from wakegate_schema.calls.calls import HOLD_S
from wakegate_schema.calls.checks import execution_id as checked
from wakegate_schema.calls.claiming import APPROVED
from wakegate_schema.calls.giving_back import given_back_if_cancelled
from wakegate_schema.calls.outcomes import LAPSED_AT_START, START_TOO_SLOW
from wakegate_schema.calls.persistence import patiently
from wakegate_schema.calls.store_calls import PATIENCE_S
from wakegate_schema.clock import SECOND
from wakegate_schema.downstream import downstream_key
from wakegate_schema.records import Outcome, Runs
from wakegate_schema.resolution import Resolution
from wakegate_schema.sealing import BearerToken
from wakegate_schema.states import State

WAITS: Final = 32
"""How many questions may wait at the receiver at a time; whoever else waits asks again and again."""
POLL_S: Final = 1.0
"""How long those wait between two questions, in seconds."""

_OK: Final = 200
_CREATED: Final = 201
_CONFLICT: Final = 409


@dataclass(frozen=True, slots=True)
class Begun:
    """When a claim was begun, by both clocks of this process."""

    at: int
    """The wall clock, µs."""
    monotonic: float
    """Seconds."""

    def unfit(self, start_before: int, lease: float) -> Outcome | None:
        """Return why the claimed call must not begin now; None when it may.

        A wall clock that was set back meanwhile gains nothing, and neither does a monotonic one that stood still while
        the machine was suspended: the one that shows more counts.
        """
        at, passed = clock.now(), time.monotonic() - self.monotonic
        if max(at, self.at + int(passed * SECOND)) >= start_before:
            return LAPSED_AT_START
        if max(passed, (at - self.at) / SECOND) >= lease:
            return START_TOO_SLOW
        return None


class ControlCalls:
    """The verbs, over HTTP. See `Calls` for what each does and raises.

    Beside that, every verb raises `ControlUnavailable`, a `StoreUnavailable`, when no answer came that is understood,
    and `ControlRefused` when the receiver will not have this harness.
    """

    def __init__(self, address: Path | Address, token: BearerToken | None = None) -> None:
        """Take the control socket's path, or a loopback address and its token."""
        self._http = ControlHttp(address, token)
        self._waits = asyncio.Semaphore(WAITS)

    async def introduce(self) -> str | None:
        """Return the name under which the receiver knows this harness; None for the receiver's own user."""
        return read(HarnessAnswer, await self._get("harness", "/v1/harness")).harness

    async def suspend(
        self, call: Call, runs: Runs, wake: str, *, hold_id: str | None = None, hold_seconds: float = HOLD_S
    ) -> tuple[Standing, bool]:
        """Save a call durably, or find what its key saved before."""
        told = {
            "tool": call.tool,
            "arguments": call.arguments,
            "key": call.key,
            "timeout": call.timeout,
            "runs": runs,
            "wake": wake,
            "instance": call.instance,
            "reasoning": call.reasoning,
            "context": call.context,
            "group": call.group,
            "version": call.version,
            "hold": None if hold_id is None else {"id": hold_id, "seconds": hold_seconds},
        }
        body = {name: value for name, value in told.items() if value is not None}
        saved = read(SavedAnswer, await self._post("suspend", "/v1/executions", body, _OK, _CREATED))
        if saved.key != call.key or saved.tool != call.tool:
            raise not_understood("another call than the one that was to be saved")
        return saved.standing(), saved.created

    async def show(self, execution_id: str, *, unlike: str | None = None, wait: float = 0.0) -> Standing:
        """Return where a call stands, at the latest after `wait` seconds."""
        if unlike is None or wait <= 0:
            return await self._show(execution_id, {}, 0.0)
        if self._waits.locked():
            await asyncio.sleep(min(wait, POLL_S))
            return await self._show(execution_id, {}, 0.0)
        async with self._waits:
            return await self._show(execution_id, {"unlike": unlike, "wait": f"{wait:g}"}, wait)

    async def listed(
        self, *, state: State | None = None, group: str | None = None, before: int | None = None, limit: int = 100
    ) -> tuple[list[Standing], int | None]:
        """Return a page of calls, the latest first."""
        asked = {"state": state, "group": group, "before": before, "limit": limit}
        query = {name: str(value) for name, value in asked.items() if value is not None}
        answer = await self._http.ask("list", "GET", "/v1/executions", query=query, limit=PAGE_LIMIT)
        page = read(PageAnswer, _value(answer, _OK))
        return [found.standing() for found in page.executions], page.next

    async def keep_hold(self, execution_id: str, hold_id: str, hold_seconds: float = HOLD_S) -> bool:
        """Lengthen a hold."""
        body = {"id": hold_id, "seconds": hold_seconds}
        return read(HeldAnswer, await self._post("hold", f"{_path(execution_id)}/hold", body)).held

    async def take(self, execution_id: str, claim_id: str) -> Taken:
        """Claim a permitted call."""
        checked(execution_id)
        return await given_back_if_cancelled(self._take(execution_id, claim_id), self._insist_on)

    async def _take(self, execution_id: str, claim_id: str) -> Taken:
        begun = Begun(clock.now(), time.monotonic())
        answer = await self._http.ask("claim", "POST", f"{_path(execution_id)}/claim", body={"claim_id": claim_id})
        if answer.status == _CONFLICT and "execution" in answer.value:
            refused = read(RefusedClaimAnswer, answer.value)
            return Taken(_same(refused.execution, execution_id), refused.message, refused.reason)
        granted = read(ClaimAnswer, _value(answer, _OK))
        standing, attempt = _same(granted.execution, execution_id), granted.attempt
        known = standing.resolution.execution_id
        if standing.state is not State.STARTED or standing.claim_id != claim_id:
            raise not_understood("a claim of a call that this claim has not started")
        if attempt.idempotency_key != downstream_key(known):
            raise not_understood("another call's idempotency key")
        return Taken(
            standing, APPROVED, None, Grant(known, attempt.number, attempt.token), attempt.arguments_json,
            attempt.lease_seconds, attempt.start_before,
            functools.partial(begun.unfit, attempt.start_before, attempt.lease_seconds),
        )  # fmt: skip

    async def renew(self, grant: Grant) -> bool:
        """Lengthen the lease of a taken call."""
        return (await self._renewed(grant)).kept

    async def runs_on(self, grant: Grant) -> bool:
        """Say that a taken call goes on although its lease is lost."""
        return not (await self._renewed(grant)).settled

    async def finish(self, grant: Grant, outcome: Outcome) -> Standing:
        """Record how a taken call ended."""
        told = {
            "number": grant.number,
            "token": grant.token,
            "outcome": outcome.kind,
            "reason": outcome.reason,
            "result": None if outcome.result is None else json.loads(outcome.result),
            "error": outcome.error,
        }
        absent = {name for name in ("error", "result") if getattr(outcome, name) is None}
        body = {name: value for name, value in told.items() if name not in absent}
        return await self._standing("finish", grant.execution_id, body)

    async def abandon(self, execution_id: str, reason: str) -> Standing:
        """Give a call up before it starts."""
        return await self._standing("abandon", execution_id, {"reason": reason})

    async def seal(
        self, group: str, instance: str | None = None, *, after: int | None = None, limit: int = 100
    ) -> tuple[list[Standing], int | None]:
        """Say that a group is complete."""
        told = {"instance": instance, "after": after, "limit": limit}
        body = {name: value for name, value in told.items() if value is not None}
        path = f"/v1/groups/{quote(group, safe='')}/seal"
        answer = await self._http.ask("seal", "POST", path, body=body, limit=PAGE_LIMIT)
        page = read(PageAnswer, _value(answer, _OK))
        return [found.standing() for found in page.executions], page.next

    async def resolutions(self, after: str | None = None) -> AsyncGenerator[tuple[str, Resolution], None]:
        """Yield what harnesses are told, in order and without end."""
        query = {} if after is None else {"after": after}
        async with (
            self._http.stream("resolutions", "/v1/resolutions", query) as content,
            aclosing(events(content)) as told,
        ):
            async for event in told:
                if event.kind == RESOLUTION:
                    yield event.cursor, event.resolution()

    async def end_of_stream(self) -> str:
        """Return the place in the stream of what was told last."""
        async with (
            self._http.stream("resolutions", "/v1/resolutions", {}) as content,
            aclosing(events(content)) as told,
        ):
            async for event in told:
                if event.kind == READY:
                    return event.cursor
        raise not_understood("a stream that does not say where it begins")

    async def close(self) -> None:
        """Let go of every connection."""
        await self._http.close()

    async def _insist_on(self, grant: Grant, outcome: Outcome) -> Standing:
        return await patiently(lambda: self.finish(grant, outcome), PATIENCE_S)

    async def _show(self, execution_id: str, query: dict[str, str], wait: float) -> Standing:
        answer = await self._http.ask("show", "GET", _path(execution_id), query=query, wait=wait)
        return _same(read(StandingAnswer, _value(answer, _OK)), execution_id)

    async def _renewed(self, grant: Grant) -> RenewedAnswer:
        body = {"number": grant.number, "token": grant.token}
        return read(RenewedAnswer, await self._post("renew", f"{_path(grant.execution_id)}/renew", body))

    async def _standing(self, verb: Verb, execution_id: str, body: dict[str, Any]) -> Standing:
        path = f"{_path(execution_id)}/{verb}"
        return _same(read(StandingAnswer, await self._post(verb, path, body)), execution_id)

    async def _get(self, verb: Verb, path: str) -> dict[str, Any]:
        return _value(await self._http.ask(verb, "GET", path), _OK)

    async def _post(self, verb: Verb, path: str, body: dict[str, Any], *statuses: int) -> dict[str, Any]:
        return _value(await self._http.ask(verb, "POST", path, body=body), *(statuses or (_OK,)))


def _path(execution_id: str) -> str:
    return f"/v1/executions/{checked(execution_id)}"


def _value(answer: Answer, *statuses: int) -> dict[str, Any]:
    if answer.status not in statuses:
        raise refused_by(answer.status, answer.value)
    return answer.value


def _same(answer: StandingAnswer, execution_id: str) -> Standing:
    if answer.execution_id != checked(execution_id):
        raise not_understood("another call than the one that was asked for")
    return answer.standing()
