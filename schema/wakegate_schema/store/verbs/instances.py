"""Instances: active, parked (the provider refused the credential) or retired."""

from dataclasses import asdict

from wakegate_schema.records import Instance
from wakegate_schema.store.errors import NotAllowed, NotFound
from wakegate_schema.store.transaction import Row, Transaction, each
from wakegate_schema.store.verbs.mapping import record
from wakegate_schema.store.verbs.repeats import confirm


@each
def add(tx: Transaction, item: tuple[Instance, str | None]) -> None:
    """Save an instance, or replace its credential."""
    instance, registration_id = item
    if registration_id is not None:
        _require_binding(tx, instance, registration_id)
    key = {"provider": instance.provider, "instance_id": instance.instance_id}
    found = tx.first("instance", key)
    if found is None:
        if tx.first("instance_named", {"name": instance.name}):
            raise NotAllowed(f"another instance is named {instance.name}; choose another name or retire that one")
        tx.change("instance_add", asdict(instance))
    elif found["state"] == "retired":
        raise NotAllowed(f"instance {instance.instance_id} is retired; provision a new one")
    else:
        _replace(tx, key, instance.sealed_credential, instance.credential_expires_at, instance.created_at)


def every(tx: Transaction) -> list[Instance]:
    """Return all of them, oldest first."""
    return [record(Instance, row) for row in tx.all("instances")]


def one(tx: Transaction, provider: str, instance_id: str) -> Instance:
    """Return one. Raises `NotFound`."""
    return record(Instance, require(tx, provider, instance_id))


def require(tx: Transaction, provider: str, instance_id: str) -> Row:
    """Return one's row. Raises `NotFound`."""
    row = tx.first("instance", {"provider": provider, "instance_id": instance_id})
    if row is None:
        raise NotFound(f"there is no instance {instance_id} at {provider}; see `wakegate instance list`")
    return row


@each
def set_credential(tx: Transaction, item: tuple[str, str, bytes, int | None, int]) -> None:
    """Replace the credential, unpark, and make due what waited for it."""
    provider, instance_id, sealed, expires_at, at = item
    if require(tx, provider, instance_id)["state"] == "retired":
        raise NotAllowed(f"instance {instance_id} is retired; provision a new one")
    _replace(tx, {"provider": provider, "instance_id": instance_id}, sealed, expires_at, at)


@each
def park(tx: Transaction, item: tuple[str, str, str, bytes]) -> bool:
    """Stop using the credential that was seen refused; say whether the instance is out of use now."""
    provider, instance_id, reason, seen = item
    if tx.change("instance_park", {"provider": provider, "instance_id": instance_id, "reason": reason, "seen": seen}):
        return True
    return bool(require(tx, provider, instance_id)["state"] != "active")


@each
def reseal(tx: Transaction, item: tuple[str, str, bytes, bytes]) -> bool:
    """Exchange the sealed credential that was seen for another sealing of it."""
    provider, instance_id, seen, sealed = item
    key = {"provider": provider, "instance_id": instance_id}
    return tx.change("instance_reseal", key | {"seen": seen, "sealed": sealed}) == 1


@each
def retire(tx: Transaction, item: tuple[str, str, str, int]) -> int:
    """Abandon what is unfinished and erase the credential."""
    provider, instance_id, actor, at = item
    require(tx, provider, instance_id)
    key = {"provider": provider, "instance_id": instance_id}
    if not tx.change("instance_retire", key | {"at": at}):
        confirm(tx)
        return 0
    abandoned = tx.change("instance_abandon", key | {"actor": actor, "at": at})
    tx.change("instance_forget_cancels", key)
    tx.change("instance_forget_reports", key)
    tx.change("instance_end_adoptions", key | {"at": at})
    tx.change("registrations_retire", key | {"at": at})
    return abandoned


def _require_binding(tx: Transaction, instance: Instance, registration_id: str) -> None:
    row = tx.first("registration", {"registration_id": registration_id})
    if row is None or row["provider"] != instance.provider:
        raise NotAllowed(f"registration {registration_id} is not one of {instance.provider}")
    if row["state"] not in ("verified", "superseded"):
        raise NotAllowed(f"registration {registration_id} is {row['state']}: the receiver has not verified it")
    if row["instance_id"] != instance.instance_id:
        raise NotAllowed(
            f"registration {registration_id} is bound to instance {row['instance_id']}, not {instance.instance_id}"
        )


def _replace(tx: Transaction, key: dict[str, str], sealed: bytes | None, expires_at: int | None, at: int) -> None:
    tx.change("instance_set_credential", {**key, "sealed": sealed, "expires_at": expires_at})
    tx.change("instance_make_due", {**key, "at": at})
    tx.change("instance_cancels_due", {**key, "at": at})
    tx.change("instance_reports_due", {**key, "at": at})
    tx.change("instance_adoptions_due", {**key, "at": at})
