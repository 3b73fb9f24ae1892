"""Notifications: recorded first, acknowledged after."""

from collections.abc import Awaitable, Callable

from wakegate_receiver.answers import RECEIVED, Refused, Reply
from wakegate_receiver.keyring import Signer
from wakegate_receiver.messages import Message, resolved
from wakegate_schema.records import Arrival, Receipt
from wakegate_schema.signing import SecurityHeaders


async def acknowledge(
    message: Message,
    headers: SecurityHeaders,
    body: bytes,
    signer: Signer,
    record: Callable[[Arrival], Awaitable[Receipt]],
    at: int,
) -> Reply:
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
    event = resolved(message, headers.message_id)
    receipt = await record(
        Arrival(
            signer.provider,
            signer.registration_id,
            event.instance_id,
            event.id,
            event.request_id,
            event.created_at,
            at,
            body,
        )
    )
    if receipt.kind == "conflict":
        raise Refused("event_conflict")
    if receipt.kind == "not_live":
        raise Refused("not_live")
    return RECEIVED
