"""Deliveries as a provider makes them, signed with the public `standardwebhooks` package, not with our own code."""

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from agentapprovalprotocol.receiver import sign as sign_bytes
from standardwebhooks import Webhook


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt: what is posted to the receiver."""

    headers: dict[str, str]
    body: bytes

    def with_headers(self, **changes: str | None) -> "Delivery":
        """The same with some headers replaced (`webhook_id="…"`), or left out (None)."""
        headers = dict(self.headers)
        for name, value in changes.items():
            header = name.replace("_", "-")
            headers.pop(header, None)
            if value is not None:
                headers[header] = value
        return replace(self, headers=headers)


class Sender:
    """A provider's side of one registration."""

    def __init__(self, secret: str, instance_id: str) -> None:
        """Take the `whsec_` secret and the instance that is notified."""
        self._secret = secret
        self._webhook = Webhook(secret)
        self.instance_id = instance_id

    @property
    def secret(self) -> str:
        """The `whsec_` secret, for a peer that verifies what this signs."""
        return self._secret

    def notification(
        self,
        request_id: str | None = None,
        event_id: str | None = None,
        created_at: str | None = None,
        *,
        at: float | None = None,
    ) -> Delivery:
        """A `request.resolved` message; ids are new and times now unless given. `at` is when it is signed (s)."""
        return self.message(
            {
                "id": event_id or new_id(),
                "type": "request.resolved",
                "instance_id": self.instance_id,
                "request_id": request_id or new_id(),
                "created_at": created_at or stamp(),
            },
            at=at,
        )

    def verification(
        self,
        registration_id: str,
        challenge: str | None = None,
        *,
        instance_id: str | None = None,
        at: float | None = None,
    ) -> Delivery:
        """A `webhook.verification` message."""
        return self.message(
            {
                "id": new_id(),
                "type": "webhook.verification",
                "registration_id": registration_id,
                "instance_id": instance_id or self.instance_id,
                "created_at": stamp(),
                "challenge": challenge or new_id(),
            },
            at=at,
        )

    def message(self, value: Mapping[str, Any], *, at: float | None = None) -> Delivery:
        """Any JSON object, signed; its `id` is the message's."""
        return self.raw(json.dumps(value).encode(), str(value.get("id", new_id())), at=at)

    def raw(self, body: bytes, message_id: str | None = None, *, at: float | None = None) -> Delivery:
        """Any bytes, signed."""
        name = message_id or new_id()
        timestamp = int(time.time() if at is None else at)
        return Delivery(
            {
                "content-type": "application/json",
                "webhook-id": name,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": self._sign(name, timestamp, body),
            },
            body,
        )

    def _sign(self, message_id: str, timestamp: int, body: bytes) -> str:
        try:
            text = body.decode()
        except UnicodeDecodeError:  # standardwebhooks signs only text; AAP's own package signs bytes
            return sign_bytes(self._secret, message_id, timestamp, body)
        return self._webhook.sign(message_id, datetime.fromtimestamp(timestamp, UTC), text)


def new_id() -> str:
    """A fresh UUID as text."""
    return str(uuid.uuid4())


def stamp() -> str:
    """Now, as AAP writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
