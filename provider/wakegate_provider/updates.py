"""Updates of instances: another name, another receiver or none; once per key, after the receiver proved itself."""

import hashlib

from wakegate_provider import instances
from wakegate_provider.instances import seal_secret, view
from wakegate_provider.problems import Problem
from wakegate_provider.store import ProviderStore, StoreThread
from wakegate_provider.submissions import Submissions
from wakegate_provider.verification import Verifier
from wakegate_schema import wire
from wakegate_schema.clock import now
from wakegate_schema.sealing import Sealer

_Key = tuple[str, str]
"""The instance, and the idempotency key."""


class Updating:
    """Changes instances; submissions of one key at the same time are one update."""

    def __init__(self, store: StoreThread, sealer: Sealer, verify: Verifier) -> None:
        """Take the store's thread, the key to seal with and what proves a receiver."""
        self._store = store
        self._sealer = sealer
        self._verify = verify
        self._submissions = Submissions[bytes](_conflict)

    async def update(self, instance_id: str, key: str, submitted: wire.InstanceUpdate) -> bytes:
        """Change an instance, or return what this key has changed before; later updates are left as they are.

        Args:
            instance_id: whose.
            key: the update's idempotency key.
            submitted: the checked fields.

        Returns:
            The instance after the update that this key made, as its provisioner reads it.

        Raises:
            Problem: 404, 409 `idempotency_conflict`, 422 `webhook_verification_failed`, 429 `too_many_creations`.
        """
        digest = hashlib.sha256(wire.object_bytes(submitted)).digest()
        name = (instance_id, key)
        return await self._submissions.once(name, digest, lambda: self._update(name, digest, submitted))

    async def close(self) -> None:
        """Break off the updates that are running; nothing of them is committed."""
        await self._submissions.close()

    async def _update(self, name: _Key, digest: bytes, submitted: wire.InstanceUpdate) -> bytes:
        known = await self._store(_replay, name, digest)
        if known is not None:
            return known
        delivery = submitted.delivery
        if delivery is not None:
            await self._verify(
                url=delivery.url,
                registration_id=delivery.registration_id,
                instance_id=name[0],
                secret=delivery.signing_secret,
            )
        return await self._store(_apply, self._sealer, name, digest, submitted)


def _replay(store: ProviderStore, name: _Key, digest: bytes) -> bytes | None:
    """Return what this key's update gave, if there was one; a deleted instance has none any more."""
    instance_id, key = name
    instances.read(store, instance_id)
    row = store.one("update_by_key", instance_id=instance_id, idempotency_key=key)
    if row is None:
        return None
    if row["submitted_sha256"] != digest:
        raise _conflict()
    result: bytes = row["result"]
    return result


def _apply(store: ProviderStore, sealer: Sealer, name: _Key, digest: bytes, submitted: wire.InstanceUpdate) -> bytes:
    """Commit a verified update with what its replay returns."""
    instance_id, key = name
    with store.transaction():
        instances.read(store, instance_id)
        if submitted.instance_name is not None:
            store.run("rename_instance", instance_id=instance_id, name=submitted.instance_name)
        if submitted.changes_delivery:
            _deliver(store, sealer, instance_id, submitted.delivery)
        result = wire.object_bytes(view(instances.read(store, instance_id)))
        store.run(
            "insert_update",
            instance_id=instance_id,
            idempotency_key=key,
            submitted_sha256=digest,
            result=result,
            updated_at=now(),
        )
    return result


def _deliver(store: ProviderStore, sealer: Sealer, instance_id: str, delivery: wire.Delivery | None) -> None:
    """Deliver to another receiver from now on, what is queued included; or to none."""
    store.run(
        "replace_delivery",
        instance_id=instance_id,
        delivery_url=delivery.url if delivery else None,
        registration_id=delivery.registration_id if delivery else None,
        sealed_secret=seal_secret(sealer, delivery) if delivery else None,
    )
    if delivery is None:
        store.run("end_deliveries", instance_id=instance_id, deleted_at=now())


def _conflict() -> Problem:
    return Problem(
        409,
        "idempotency_conflict",
        "This Idempotency-Key was used for another update of the instance; use a new key for a new update.",
    )
