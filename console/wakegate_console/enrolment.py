"""Enrolment: registrations and instances that were made elsewhere, and credentials that come later."""

from dataclasses import dataclass, field

from wakegate_console.provisioning import EXPECTED_FOR, Keys, check_name
from wakegate_console.roster import Entry
from wakegate_schema.records import Instance, Registration
from wakegate_schema.sealing import BearerToken, Sealer, seal_credential, seal_signing_secret
from wakegate_schema.signing import SigningSecret
from wakegate_schema.store import NotAllowed, Store


@dataclass(frozen=True, slots=True)
class Import:
    """What to take over; the registration, the instance, or both."""

    provider: str
    """Canonical base URL."""
    name: str
    registration_id: str | None
    secret: SigningSecret | None = field(repr=False)
    instance_id: str | None
    credential: BearerToken | None = field(repr=False)
    credential_expires_at: int | None


async def enrol(store: Store, keys: Keys, wanted: Import, now: int) -> None:
    """Save what is imported.

    A registration that comes with its instance's credential is taken as verified: whoever holds both has seen
    it verified. Alone, it is expected, and the provider's challenge will verify it.

    Raises:
        NotAllowed: something of it is here already.
    """
    await check_name(store, wanted.name)
    if wanted.registration_id is not None and wanted.secret is not None:
        await store.add_registration(_registration(keys.receiver, wanted, wanted.registration_id, wanted.secret, now))
    if wanted.instance_id is not None and wanted.credential is not None:
        await store.add_instance(
            _instance(keys.worker, wanted, wanted.instance_id, wanted.credential, now), wanted.registration_id
        )


async def replace_credential(
    store: Store,
    key: Sealer,
    entry: Entry,
    instance_id: str,
    token: BearerToken,
    expires_at: int | None,
    now: int,
) -> None:
    """Store a credential: a new one of an instance, or the first one of a verified registration.

    Raises:
        NotAllowed: the instance is retired, or the provider's challenge has not come yet.
    """
    sealed = seal_credential(key, provider=entry.provider, instance_id=instance_id, token=token)
    if entry.instance is not None:
        await store.set_credential(entry.provider, entry.instance.instance_id, sealed, expires_at, now)
        return
    registration = entry.registrations[0]
    if registration.state != "verified":
        raise NotAllowed(
            f"{entry.name} was not verified by its provider's challenge yet; store the credential afterwards"
        )
    instance = Instance(
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
    await store.add_instance(instance, registration.registration_id)


def _registration(key: Sealer, wanted: Import, registration_id: str, secret: SigningSecret, now: int) -> Registration:
    known = wanted.credential is not None
    return Registration(
        registration_id=registration_id,
        provider=wanted.provider,
        name=wanted.name,
        state="verified" if known else "expected",
        sealed_secret=seal_signing_secret(
            key, provider=wanted.provider, registration_id=registration_id, secret=secret
        ),
        url=None,
        idempotency_key=None,
        instance_id=wanted.instance_id,
        created_at=now,
        expected_until=now + EXPECTED_FOR,
        verified_at=now if known else None,
    )


def _instance(key: Sealer, wanted: Import, instance_id: str, token: BearerToken, now: int) -> Instance:
    return Instance(
        provider=wanted.provider,
        instance_id=instance_id,
        name=wanted.name,
        state="active",
        state_reason=None,
        delivery="none" if wanted.registration_id is None else "webhook",
        sealed_credential=seal_credential(key, provider=wanted.provider, instance_id=instance_id, token=token),
        credential_expires_at=wanted.credential_expires_at,
        created_at=now,
    )
