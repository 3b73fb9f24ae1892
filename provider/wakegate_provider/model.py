"""The provider's values: an instance, a request with its decision and consumption, a notification that is owed."""

import sqlite3
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar, cast

from wakegate_schema import strict_json, timestamps
from wakegate_schema.wire import RequestStatus

Status = RequestStatus
DecidedBy = Literal["policy", "review", "deadline", "instance", "deletion"]
OutcomeStatus = Literal["succeeded", "failed"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredInstance:
    """An instance, or the record of a deleted one. Times are in µs since the epoch."""

    instance_id: str
    idempotency_key: str
    given_name: str | None
    name: str
    created_at: int
    deleted_at: int | None
    credential_sha256: bytes | None = field(repr=False)
    sealed_credential: bytes | None = field(repr=False)
    delivery_url: str | None
    registration_id: str | None
    sealed_secret: bytes | None = field(repr=False)
    created_with: bytes | None = field(repr=False)
    """The SHA-256 of the creation's body; None for one that was made before that was kept."""


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request as submitted, its decision and its consumption once there are any. Times are in µs since the epoch."""

    request_id: str
    instance_id: str
    idempotency_key: str
    tool: str
    submission: bytes = field(repr=False)
    approval_ttl: int
    created_at: int
    deadline_at: int
    planned_at: int | None
    planned_status: Literal["approved", "denied"] | None
    planned_note: str | None = field(repr=False)
    status: Status
    resolution: int | None
    decided_at: int | None
    decided_by: DecidedBy | None
    note: str | None = field(repr=False)
    expires_at: int | None
    consumption_key: str | None = None
    consumed_at: int | None = None
    outcome: OutcomeStatus | None = None
    outcome_note: str | None = field(default=None, repr=False)
    reported_at: int | None = None

    def submitted(self) -> strict_json.JsonObject:
        """Return the submitted fields, numbers exact."""
        return cast("strict_json.JsonObject", strict_json.parse(self.submission))

    def view(self) -> strict_json.JsonObject:
        """Return the request as its instance reads it (AAP, `ApprovalRequest`)."""
        view: strict_json.JsonObject = {
            "id": self.request_id,
            **self.submitted(),
            "status": self.status,
            "created_at": timestamps.render(self.created_at),
            "deadline_at": timestamps.render(self.deadline_at),
        }
        if self.decided_at is not None:
            view["decision"] = self._decision(self.decided_at)
        if self.consumed_at is not None:
            view["consumption"] = self._consumption(self.consumed_at)
        return view

    def _decision(self, decided_at: int) -> strict_json.JsonObject:
        decision: strict_json.JsonObject = {
            "status": self.status,
            "decided_at": timestamps.render(decided_at),
        }
        if self.note is not None:
            decision["note"] = self.note
        if self.expires_at is not None:
            decision["expires_at"] = timestamps.render(self.expires_at)
        return decision

    def _consumption(self, consumed_at: int) -> strict_json.JsonObject:
        consumption: strict_json.JsonObject = {"consumed_at": timestamps.render(consumed_at)}
        if self.reported_at is not None:
            outcome: strict_json.JsonObject = {"status": self.outcome}
            if self.outcome_note is not None:
                outcome["note"] = self.outcome_note
            consumption["outcome"] = outcome | {"reported_at": timestamps.render(self.reported_at)}
        return consumption


@dataclass(frozen=True, slots=True)
class OwedNotification:
    """A notification that is due, with where it goes. Times are in µs since the epoch."""

    event_id: str
    instance_id: str
    body: bytes
    attempts: int
    next_at: int
    retry_until: int
    delivery_url: str
    registration_id: str
    sealed_secret: bytes = field(repr=False)


def read_row(model: type[T], row: sqlite3.Row) -> T:
    """Make a value from the columns of a row that are named like its fields.

    Args:
        model: one of this module's classes.
        row: a row that has at least those columns; the tables' CHECKs hold their values to the fields' types.
    """
    return model(**{name.name: row[name.name] for name in fields(cast("Any", model))})
