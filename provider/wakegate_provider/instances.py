"""Instances: created once per key after the receiver proved itself, shown without secrets, deleted."""

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass, field

from wakegate_provider.model import StoredInstance, read_row
from wakegate_provider.problems import Problem, missing
from wakegate_provider.store import ProviderStore, StoreThread
from wakegate_provider.submissions import Submissions
from wakegate_provider.verification import Verifier
from wakegate_schema import ids, wire
from wakegate_schema.clock import now
from wakegate_schema.sealing import BearerToken, Sealer
from wakegate_schema.signing import SigningSecret

MAX_INSTANCES = 1000
"""How many instances may live."""


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The answer to a creation."""

    instance: StoredInstance
    token: str = field(repr=False)
    created: bool

    def body(self) -> bytes:
        """Return the answer's body, the only one that has a credential in it (AAP, instances)."""
        return wire.object_bytes(
            wire.ProvisionedInstance(instance=view(self.instance), credential=wire.Credential(token=self.token))
        )


class Provisioning:
    """Creates instances; submissions of one key at the same time are one creation."""

    def __init__(self, store: StoreThread, sealer: Sealer, verify: Verifier) -> None:
        """Take the store's thread, the key to seal with and what proves a receiver."""
        self._store = store
        self._sealer = sealer
        self._verify = verify
        self._submissions = Submissions[Provisioned](_conflict)

    async def create(self, key: str, submitted: wire.NewInstance) -> Provisioned:
        """Create an instance, or return the one that this key created, with its original credential.

        Args:
            key: the creation's idempotency key.
            submitted: the checked fields.

        Raises:
            Problem: 409 `idempotency_conflict` or `instance_deleted`, 422 `webhook_verification_failed`,
                429 `too_many_instances` or `too_many_creations`.
        """
        return await self._submissions.once(key, submitted, lambda: self._create(key, submitted))

    async def close(self) -> None:
        """Break off the creations that are running; nothing of them is committed."""
        await self._submissions.close()

    async def _create(self, key: str, submitted: wire.NewInstance) -> Provisioned:
        known = await self._store(_replay, self._sealer, key, submitted)
        if known is not None:
            return known
        instance_id = ids.new()
        delivery = submitted.delivery
        if delivery is not None:
            await self._verify(
                url=delivery.url,
                registration_id=delivery.registration_id,
                instance_id=instance_id,
                secret=delivery.signing_secret,
            )
        return await self._store(_insert, self._sealer, instance_id, key, submitted)


def by_credential(store: ProviderStore, token: BearerToken) -> StoredInstance | None:
    """Return the live instance that a bearer token belongs to."""
    row = store.one("instance_by_credential", credential_sha256=_fingerprint(token.reveal()))
    return None if row is None else read_row(StoredInstance, row)


def read(store: ProviderStore, instance_id: str) -> StoredInstance:
    """Return a live instance.

    Raises:
        Problem: 404, also for a deleted one.
    """
    row = store.one("instance_by_id", instance_id=instance_id)
    if row is None or row["deleted_at"] is not None:
        raise missing("instance")
    return read_row(StoredInstance, row)


def delete(store: ProviderStore, instance_id: str, at: int) -> None:
    """Revoke the credential, cancel what is pending without notifications and end delivery, in one step.

    Deleting again changes nothing (AAP, instances).

    Raises:
        Problem: 404 for an instance that never was.
    """
    with store.transaction():
        if store.one("instance_by_id", instance_id=instance_id) is None:
            raise missing("instance")
        if store.run("delete_instance", instance_id=instance_id, deleted_at=at):
            store.run("cancel_pending", instance_id=instance_id, deleted_at=at)
            store.run("end_deliveries", instance_id=instance_id, deleted_at=at)


def view(instance: StoredInstance) -> wire.Instance:
    """Return the instance as the provisioner reads it: never a secret, never a token."""
    delivery = None
    if instance.delivery_url is not None and instance.registration_id is not None:
        delivery = wire.DeliveryView(
            type="webhook", url=instance.delivery_url, registration_id=instance.registration_id
        )
    return wire.Instance(id=instance.instance_id, name=instance.name, delivery=delivery)


def seal_secret(sealer: Sealer, delivery: wire.Delivery) -> bytes:
    """Return a delivery's signing secret, sealed for its registration."""
    return sealer.seal(_secret_purpose(delivery.registration_id), delivery.signing_secret.reveal().encode("ascii"))


def unseal_secret(sealer: Sealer, registration_id: str, sealed: bytes) -> SigningSecret:
    """Return a registration's signing secret.

    Raises:
        CannotUnseal: the key is another one than it was sealed with.
    """
    return SigningSecret.parse(sealer.unseal(_secret_purpose(registration_id), sealed).decode("ascii"))


def first_sealed(store: ProviderStore) -> tuple[str, bytes] | None:
    """Return the id and the sealed credential of any live instance, to try a key on."""
    row = store.one("first_sealed")
    return None if row is None else (row["instance_id"], row["sealed_credential"])


def credential(sealer: Sealer, instance_id: str, sealed: bytes) -> str:
    """Return an instance's credential.

    Raises:
        CannotUnseal: the key is another one than it was sealed with.
    """
    return sealer.unseal(_credential_purpose(instance_id), sealed).decode("ascii")


def _replay(store: ProviderStore, sealer: Sealer, key: str, submitted: wire.NewInstance) -> Provisioned | None:
    """Return what this key created before, if anything."""
    row = store.one("instance_by_key", idempotency_key=key)
    if row is None:
        return None
    instance = read_row(StoredInstance, row)
    if instance.sealed_credential is None:
        raise Problem(
            409,
            "instance_deleted",
            "The instance that this Idempotency-Key created was deleted; use a new key.",
        )
    if not _same(sealer, instance, submitted):
        raise _conflict()
    return Provisioned(instance, credential(sealer, instance.instance_id, instance.sealed_credential), created=False)


def _same(sealer: Sealer, instance: StoredInstance, submitted: wire.NewInstance) -> bool:
    """Tell whether these are the fields that the instance was created with; updates since then do not count."""
    if instance.created_with is not None:
        return instance.created_with == _digest(submitted)
    delivery = submitted.delivery
    url, registration_id = (None, None) if delivery is None else (delivery.url, delivery.registration_id)
    if (instance.given_name, instance.delivery_url, instance.registration_id) != (
        submitted.instance_name,
        url,
        registration_id,
    ):
        return False
    if delivery is None or instance.sealed_secret is None or instance.registration_id is None:
        return True
    return unseal_secret(sealer, instance.registration_id, instance.sealed_secret) == delivery.signing_secret


def _insert(
    store: ProviderStore, sealer: Sealer, instance_id: str, key: str, submitted: wire.NewInstance
) -> Provisioned:
    """Commit a verified instance with a new credential."""
    token = secrets.token_urlsafe(32)
    delivery = submitted.delivery
    instance = StoredInstance(
        instance_id=instance_id,
        idempotency_key=key,
        given_name=submitted.instance_name,
        name=submitted.instance_name or f"instance-{instance_id[:8]}",
        created_at=now(),
        deleted_at=None,
        credential_sha256=_fingerprint(token),
        sealed_credential=sealer.seal(_credential_purpose(instance_id), token.encode("ascii")),
        delivery_url=delivery.url if delivery else None,
        registration_id=delivery.registration_id if delivery else None,
        sealed_secret=seal_secret(sealer, delivery) if delivery else None,
        created_with=_digest(submitted),
    )
    with store.transaction():
        counted = store.one("count_instances")
        if counted is not None and counted["instances"] >= MAX_INSTANCES:
            raise Problem(
                429,
                "too_many_instances",
                f"There may be {MAX_INSTANCES} instances; delete some.",
                retry_after=60,
            )
        store.run("insert_instance", **asdict(instance))
    return Provisioned(instance, token, created=True)


def _secret_purpose(registration_id: str) -> str:
    return json.dumps(["provider-signing-secret", registration_id])


def _credential_purpose(instance_id: str) -> str:
    return json.dumps(["provider-credential", instance_id])


def _digest(submitted: wire.NewInstance) -> bytes:
    """Return what a creation is recognised by; the random secret in it makes that say nothing."""
    return hashlib.sha256(wire.object_bytes(submitted)).digest()


def _fingerprint(token: str) -> bytes:
    """Return what a credential is looked up by; the token has 256 random bits, so one SHA-256 hides it."""
    return hashlib.sha256(token.encode("ascii")).digest()


def _conflict() -> Problem:
    return Problem(
        409,
        "idempotency_conflict",
        "This Idempotency-Key was used for an instance with other fields; use a new key for a new instance.",
    )
