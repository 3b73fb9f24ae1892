"""Consumption: an approval is spent once, under one key, and what came of the call is told once (AAP, consumption)."""

from wakegate_provider import problems, requests
from wakegate_provider.model import StoredRequest
from wakegate_provider.store import ProviderStore
from wakegate_schema import wire


class NewConsumption(wire.WireModel):
    """The body of a consumption, where one is sent: an object without fields."""


def consume(store: ProviderStore, instance_id: str, request_id: str, key: str, now: int) -> StoredRequest:
    """Spend an approval; asking again with the key that spent it changes nothing, even after the approval's end.

    Args:
        store: the provider's store.
        instance_id: the authenticated instance.
        request_id: whose approval.
        key: the consumption's idempotency key, scoped to the request.
        now: µs since the epoch.

    Returns:
        The request with its consumption, and with the outcome if one was reported meanwhile.

    Raises:
        Problem: 404 as `requests.read`; 409 `already_consumed`, `not_approved`, `approval_expired`.
    """
    requests.read(store, instance_id, request_id, now)
    with store.transaction():
        store.run("consume", request_id=request_id, instance_id=instance_id, idempotency_key=key, now=now)
    request = requests.read(store, instance_id, request_id, now)
    if request.consumption_key == key:
        return request
    if request.consumed_at is not None:
        raise problems.already_consumed()
    if request.status != "approved":
        raise problems.not_approved(request.status)
    raise problems.approval_expired()


def report(store: ProviderStore, instance_id: str, request_id: str, told: wire.NewOutcome, now: int) -> StoredRequest:
    """Keep what came of a call whose approval was spent; telling the same again changes nothing.

    Args:
        store: the provider's store.
        instance_id: the authenticated instance.
        request_id: whose approval was spent.
        told: what the harness says; an empty note is none.
        now: µs since the epoch.

    Returns:
        The request with its consumption and this outcome.

    Raises:
        Problem: 404 as `requests.read`; 409 `not_consumed`, `outcome_conflict`.
    """
    if requests.read(store, instance_id, request_id, now).consumed_at is None:
        raise problems.not_consumed()
    outcome, note = told.status, told.note or None
    with store.transaction():
        store.run("report", request_id=request_id, instance_id=instance_id, outcome=outcome, outcome_note=note, now=now)
    request = requests.read(store, instance_id, request_id, now)
    if (request.outcome, request.outcome_note) != (outcome, note):
        raise problems.outcome_conflict()
    return request
