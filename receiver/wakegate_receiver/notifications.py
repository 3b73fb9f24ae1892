"""Notifications: recorded first, acknowledged after."""

from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from wakegate_receiver import answers
from wakegate_receiver.answers import Refused
from wakegate_receiver.keyring import Signer
from wakegate_receiver.messages import Message, complete
from wakegate_schema import timestamps
from wakegate_schema.records import Arrival, Receipt
from wakegate_schema.signing import SecurityHeaders
from wakegate_schema.wire import ResolvedEvent

_log = structlog.get_logger()


async def acknowledge(
    message: Message,
    headers: SecurityHeaders,
    body: bytes,
    signer: Signer,
    record: Callable[[Arrival], Awaitable[Receipt]],
    at: int,
) -> web.Response:
    """Record a notification and return the acknowledgement, which promises that it is on disk.

    Args:
        message: one whose signature was proved.
        headers: its security headers.
        body: its exact bytes.
        signer: whose secret signed it.
        record: commits the notification, and returns after that.
        at: now (µs).

    Raises:
        Refused: the message is not the object AAP defines (400), its event id meant something else before (409),
            or its registration does not speak for the instance (401).
    """
    event = complete(ResolvedEvent, message, headers.message_id)
    arrival = Arrival(
        provider=signer.provider,
        registration_id=signer.registration_id,
        instance_id=event.instance_id,
        event_id=event.id,
        request_id=event.request_id,
        created_at=timestamps.parse(event.created_at),
        received_at=at,
        body=body,
    )
    receipt = await record(arrival)
    if receipt.kind == "conflict":
        raise Refused("event_conflict")
    if receipt.kind == "not_live":
        raise Refused("not_live")
    _log.debug("received", action="record", outcome=receipt.kind, reason=receipt.reason, event_id=event.id)
    return answers.received()
