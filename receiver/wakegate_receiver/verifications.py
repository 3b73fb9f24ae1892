"""Verification: a provider asks, before it commits a delivery, whether a registration is expected here."""

from collections.abc import Awaitable, Callable

from wakegate_receiver import answers
from wakegate_receiver.answers import Refused, Reply
from wakegate_receiver.messages import Message, complete
from wakegate_schema.records import Binding, Challenge
from wakegate_schema.signing import SecurityHeaders
from wakegate_schema.wire import VerificationEvent


async def answer(
    message: Message,
    headers: SecurityHeaders,
    bind: Callable[[Challenge], Awaitable[Binding]],
    at: int,
) -> Reply:
    """Bind the challenged instance and return its challenge, exactly as it was sent.

    Args:
        message: one whose signature was proved.
        headers: its security headers.
        bind: commits the binding, and returns after that.
        at: now (µs).

    Raises:
        Refused: the message is not the object AAP defines, or the registration is not expected (403).
    """
    event = complete(VerificationEvent, message, headers.message_id)
    binding = await bind(Challenge(event.registration_id, event.instance_id, at))
    if binding.refusal is not None:
        raise Refused(binding.refusal)
    return answers.challenge(str(message.value["challenge"]))
