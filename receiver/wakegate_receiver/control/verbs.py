"""The verbs of the control API: from a request that was read to the calls of who asks, and back to JSON."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from wakegate_receiver.control import shapes
from wakegate_receiver.control.answers import ANSWERS, ControlRefused
from wakegate_receiver.control.asking import Ask, Reply
from wakegate_receiver.control.requests import AttemptRequest, FinishRequest, SuspendRequest
from wakegate_schema.calls import Call, Grant, Standing
from wakegate_schema.calls.calls import HOLD_S
from wakegate_schema.calls.outcomes import outcome_of, succeeded
from wakegate_schema.outcome_texts import one_line
from wakegate_schema.records import Outcome

CHUNK: Final = 25
"""How many calls of a page are read at once; each may have 256 KiB of arguments and as much of a result."""
PAGE_BYTES: Final = 4 * 1024 * 1024
"""Where a page ends although more was asked for."""

Piece: TypeAlias = tuple[list[Standing], int | None]
"""Some calls, and where the next ones begin; None at the end."""


async def who(ask: Ask) -> Reply:
    """Say which harness asks, and which instances are its own."""
    theirs = ask.visitor.scope.within(await ask.tools.store.instances())
    return Reply(shapes.HarnessJson(harness=ask.visitor.name, instances=[shapes.instance(each) for each in theirs]))


async def suspend(ask: Ask) -> Reply:
    """Save a call, or find what its key saved before."""
    call, asked = ask.body
    hold = asked.hold
    found, created = await ask.calls.suspend(
        call,
        asked.runs,
        asked.wake,
        hold_id=None if hold is None else hold.id,
        hold_seconds=HOLD_S if hold is None else hold.seconds,
    )
    value = shapes.SavedJson(**shapes.standing(found), created=created)
    return Reply(value, 201 if created else 200, found.resolution.execution_id)


def call_of(asked: SuspendRequest) -> tuple[Call, SuspendRequest]:
    """Return the call that a request describes. Raises `CallRefused`."""
    call = Call(
        asked.tool,
        asked.arguments,
        key=asked.key,
        instance=asked.instance,
        timeout=asked.timeout,
        reasoning=asked.reasoning,
        context=asked.context,
        group=asked.group,
        version=asked.version,
    )
    return call, asked


async def listed(ask: Ask) -> Reply:
    """List calls, the latest first."""
    query = ask.query

    def read(before: int | None, limit: int) -> Awaitable[Piece]:
        return ask.calls.listed(state=query.get("state"), group=query.get("group"), before=before, limit=limit)

    return await _page(ask, read, "before", query.get("before"), query.get("limit", 100))


async def show(ask: Ask) -> Reply:
    """Say where a call stands, at once or when it has changed; at once, too, when too many wait already."""
    execution_id, wait = ask.path["execution_id"], ask.query.get("wait", 0.0)
    if not wait or not ask.room:
        return _standing(await ask.calls.show(execution_id))
    with ask.lasting() as visit:
        waiting = asyncio.get_running_loop().create_task(
            ask.calls.show(execution_id, unlike=ask.query.get("unlike"), wait=wait)
        )
        try:
            await visit.until(waiting)
        finally:
            if not waiting.done():
                waiting.cancel()
        if waiting.done():
            return _standing(waiting.result())
        return _standing(await ask.tools.calls(ask.again()).show(execution_id))


async def hold(ask: Ask) -> Reply:
    """Lengthen a hold."""
    held = await ask.calls.keep_hold(ask.path["execution_id"], ask.body.id, ask.body.seconds)
    return Reply(shapes.HeldJson(held=held))


async def claim(ask: Ask) -> Reply:
    """Claim a permitted call."""
    execution_id = ask.path["execution_id"]
    taken = await ask.calls.take(execution_id, ask.body.claim_id)
    value = shapes.claimed(taken)
    if value is None:
        reason = taken.refusal if taken.refusal is not None and taken.refusal in ANSWERS else "not_allowed"
        raise ControlRefused(reason, taken.explanation, more={"execution": shapes.standing(taken.standing)})
    return Reply(value, execution_id=execution_id)


async def renew(ask: Ask) -> Reply:
    """Lengthen an attempt's lease; once it is lost, take the sign of life all the same."""
    grant = _grant(ask)
    kept = await ask.calls.renew(grant)
    settled = not kept and not await ask.calls.runs_on(grant)
    return Reply(shapes.RenewedJson(kept=kept, settled=settled))


async def finish(ask: Ask) -> Reply:
    """Record how an attempt ended."""
    return _standing(await ask.calls.finish(_grant(ask), _outcome(ask.body)), noted=True)


async def abandon(ask: Ask) -> Reply:
    """Give a call up before it starts."""
    return _standing(await ask.calls.abandon(ask.path["execution_id"], ask.body.reason), noted=True)


async def seal(ask: Ask) -> Reply:
    """Say that a group is complete."""

    def read(after: int | None, limit: int) -> Awaitable[Piece]:
        return ask.calls.seal(ask.path["group"], ask.body.instance, after=after, limit=limit)

    return await _page(ask, read, "after", ask.body.after, ask.body.limit)


async def _page(
    ask: Ask, read: Callable[[int | None, int], Awaitable[Piece]], name: str, shown: int | None, left: int
) -> Reply:
    """Answer a page of calls: in small steps, so that its memory is bounded."""
    place = None if shown is None else _meant(ask, shown, name)
    parts: list[bytes] = []
    size = 0
    while left > 0 and size < PAGE_BYTES:
        found, place = await read(place, min(left, CHUNK))
        written = await asyncio.to_thread(_written, found)
        parts += written
        size += sum(map(len, written))
        left -= len(found)
        if place is None:
            break
    following = b"null" if place is None else b"%d" % ask.tools.numbering.shown(place)
    return Reply(b'{"executions":[%b],"next":%b}' % (b",".join(parts), following))


def _standing(found: Standing, *, noted: bool = False) -> Reply:
    return Reply(shapes.standing(found), execution_id=found.resolution.execution_id if noted else None)


def _written(found: list[Standing]) -> list[bytes]:
    return [shapes.dumps(shapes.standing(each)) for each in found]


def _meant(ask: Ask, shown: int, name: str) -> int:
    number = ask.tools.numbering.meant(shown)
    if number is None:
        raise ControlRefused("bad_parameter", f"The parameter {name} is no page's `next`.", path=name)
    return number


def _grant(ask: Ask) -> Grant:
    body: AttemptRequest = ask.body
    return Grant(ask.path["execution_id"], body.number, body.token)


def _outcome(told: FinishRequest) -> Outcome:
    """Return what a harness says of an attempt's end."""
    given = "result" in told.model_fields_set
    if given and told.outcome != "succeeded" and told.result is not None:
        raise ControlRefused("wrong_type", "result: only a call that succeeded has one.", path="result")
    if told.outcome != "succeeded":
        plain = outcome_of(told.outcome, None, told.error)
        return Outcome(plain.kind, told.reason or plain.reason, error=plain.error)
    plain = succeeded(told.result) if given else Outcome("succeeded", "returned")
    kept = plain.error is None
    error = one_line(told.error) if kept and told.error else plain.error
    return Outcome("succeeded", (told.reason if kept else None) or plain.reason, plain.result, error)
