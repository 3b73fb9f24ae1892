"""Credentials of instances: the first one, or another, stored without losing what is known of it."""

from dataclasses import dataclass

from wakegate_console.roster import Entry
from wakegate_schema.records import Instance
from wakegate_schema.sealing import BearerToken, CannotUnseal, Sealer, seal_credential, unseal_credential
from wakegate_schema.store import NotAllowed, Store


@dataclass(frozen=True, slots=True)
class Stored:
    """What came of storing a credential."""

    same: bool
    """Whether it is the one that was there."""
    expires_at: int | None
    """When it ends, in µs since the epoch; None where nobody has said."""
    forgotten: int | None
    """When the credential before it would have ended, if that was known and the end of this one is not."""


async def store_credential(
    store: Store, key: Sealer, entry: Entry, token: BearerToken, expires_at: int | None, now: int
) -> Stored:
    """Store a credential: another one of an instance, or the first one of a verified registration.

    The same credential keeps the end that is known of it, unless another is given.

    Args:
        store: open for writing.
        key: the worker's.
        entry: whose it is.
        token: the credential.
        expires_at: when it ends, in µs since the epoch; None where that is not said.
        now: µs since the epoch.

    Raises:
        NotAllowed: the instance is retired, or the provider's challenge has not come yet.
    """
    instance_id = entry.instance_id
    if instance_id is None or (entry.instance is None and entry.registrations[0].state != "verified"):
        raise NotAllowed(
            f"{entry.name} was not verified by its provider's challenge yet; store the credential afterwards"
        )
    sealed = seal_credential(key, provider=entry.provider, instance_id=instance_id, token=token)
    if entry.instance is None:
        instance = _instance(entry, instance_id, sealed, expires_at, now)
        await store.add_instance(instance, entry.registrations[0].registration_id)
        return Stored(same=False, expires_at=expires_at, forgotten=None)
    known = entry.instance.credential_expires_at
    same = token_of(key, entry.instance) == token
    kept = known if same and expires_at is None else expires_at
    await store.set_credential(entry.provider, instance_id, sealed, kept, now)
    return Stored(same=same, expires_at=kept, forgotten=known if kept is None else None)


def token_of(key: Sealer, instance: Instance) -> BearerToken | None:
    """Return an instance's credential; None for one that was erased, or that this key does not open."""
    if instance.sealed_credential is None:
        return None
    try:
        credential = unseal_credential(
            key, instance.sealed_credential, provider=instance.provider, instance_id=instance.instance_id
        )
    except CannotUnseal:
        return None
    return credential.token


def _instance(entry: Entry, instance_id: str, sealed: bytes, expires_at: int | None, now: int) -> Instance:
    return Instance(
        provider=entry.provider,
        instance_id=instance_id,
        name=entry.name,
        state="active",
        state_reason=None,
        delivery="webhook",
        sealed_credential=sealed,
        credential_expires_at=expires_at,
        created_at=now,
    )
