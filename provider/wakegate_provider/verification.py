"""Verification: a receiver proves with a signed challenge that it expects its registration."""

import aiohttp
import structlog

from wakegate_provider.outgoing import Unanswered, post_signed
from wakegate_provider.problems import Problem
from wakegate_schema import ids, strict_json, timestamps, wire
from wakegate_schema.clock import now
from wakegate_schema.signing import SigningSecret

log = structlog.get_logger()


class Verifier:
    """Sends one challenge for each creation or update; there is no second attempt (AAP, receiver verification)."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        """Take the session for calls out."""
        self._session = session

    async def __call__(self, *, url: str, registration_id: str, instance_id: str, secret: SigningSecret) -> None:
        """Challenge the receiver.

        Args:
            url: the receiver.
            registration_id: what the receiver expects.
            instance_id: the instance that will be bound to it.
            secret: the registration's signing secret.

        Raises:
            Problem: 422 `webhook_verification_failed`: no answer in 10 s, a status other than 200, or a body
                other than exactly the challenge.
        """
        event = wire.VerificationEvent(
            id=ids.new(),
            type="webhook.verification",
            registration_id=registration_id,
            instance_id=instance_id,
            created_at=timestamps.render(now()),
            challenge=ids.new(),
        )
        fault = await self._challenge(url, secret, event)
        log.info(
            "receiver challenged",
            action="verify",
            registration_id=registration_id,
            instance_id=instance_id,
            result=fault or "verified",
        )
        if fault is not None:
            raise Problem(
                422,
                "webhook_verification_failed",
                f"The receiver did not prove that it expects this registration ({fault}); nothing was"
                " changed, and the same call may be tried again.",
                param="delivery",
            )

    async def _challenge(self, url: str, secret: SigningSecret, event: wire.VerificationEvent) -> str | None:
        """Return what was wrong with the answer, or None."""
        try:
            answer = await post_signed(self._session, url, secret, event.id, wire.object_bytes(event), now())
        except Unanswered as error:
            return error.reason
        if answer.status != 200:
            return f"status_{answer.status}"
        try:
            body = strict_json.parse(answer.body)
        except strict_json.MalformedJson:
            return "body_not_json"
        return None if body == {"challenge": event.challenge} else "challenge_not_returned"
