"""Enrolment: registrations and instances that were made elsewhere."""

from dataclasses import dataclass, field

from wakegate_console.credentials import token_of
from wakegate_console.keys_in_use import Keys
from wakegate_console.provisioning import EXPECTED_FOR, check_name
from wakegate_schema import timestamps
from wakegate_schema.records import Instance, Registration
from wakegate_schema.sealing import (
    BearerToken,
    CannotUnseal,
    Sealer,
    seal_credential,
    seal_signing_secret,
    unseal_signing_secret,
)
from wakegate_schema.signing import MalformedSecret, SigningSecret
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


async def enrol(store: Store, keys: Keys, wanted: Import, now: int) -> bool:
    """Save what is imported.

    A registration that comes with its instance's credential is taken as verified: whoever holds both has seen
    it verified. Alone, it is expected, and the provider's challenge will verify it.

    Returns:
        False when all of it was here before, the same.

    Raises:
        NotAllowed: something of it is here with other values, or the secret is another registration's.
    """
    registration, instance = await _known(store, wanted)
    if registration is not None:
        _refuse_other(_registration_differs(keys.receiver, registration, wanted), registration.registration_id)
    if instance is not None:
        _refuse_other(_instance_differs(keys.worker, instance, wanted), instance.instance_id)
    await check_name(store, wanted.name, (wanted.provider, wanted.instance_id))
    if registration is None and wanted.registration_id is not None and wanted.secret is not None:
        await _check_secret(store, keys.receiver, wanted.secret)
        await store.add_registration(_registration(keys.receiver, wanted, wanted.registration_id, wanted.secret, now))
    if instance is None and wanted.instance_id is not None and wanted.credential is not None:
        await store.add_instance(
            _instance(keys.worker, wanted, wanted.instance_id, wanted.credential, now), wanted.registration_id
        )
    return (registration is None and wanted.registration_id is not None) or (
        instance is None and wanted.instance_id is not None
    )


async def _known(store: Store, wanted: Import) -> tuple[Registration | None, Instance | None]:
    """Return what is here of an import."""
    registrations = {record.registration_id: record for record in await store.registrations()}
    instances = {(record.provider, record.instance_id): record for record in await store.instances()}
    registration = registrations.get(wanted.registration_id or "")
    return registration, instances.get((wanted.provider, wanted.instance_id or ""))


def _refuse_other(difference: str | None, which: str) -> None:
    if difference is not None:
        raise NotAllowed(f"{which} is here already, {difference}; nothing was changed", reason="imported_differently")


def _registration_differs(key: Sealer, known: Registration, wanted: Import) -> str | None:
    """Say in what a registration that is here differs from the one to be imported; None when in nothing."""
    if known.state == "retired":
        return "retired; import another registration"
    if known.provider != wanted.provider:
        return f"of the provider {known.provider}"
    if known.name != wanted.name:
        return f"with the name {known.name}, which it keeps"
    if _secret_of(key, known) != wanted.secret:
        return "with another signing secret"
    return None


def _instance_differs(key: Sealer, known: Instance, wanted: Import) -> str | None:
    """Say in what an instance that is here differs from the one to be imported; None when in nothing."""
    replace = f"to replace it: wakegate instance credential {known.name}"
    if known.state == "retired":
        return "retired; import another instance"
    if known.name != wanted.name:
        return f"with the name {known.name}, which it keeps"
    if token_of(key, known) != wanted.credential:
        return f"with another credential ({replace})"
    if wanted.credential_expires_at not in (None, known.credential_expires_at):
        until = (
            "at no known time"
            if known.credential_expires_at is None
            else timestamps.render(known.credential_expires_at)
        )
        return f"with a credential that ends {until} ({replace})"
    return None


async def _check_secret(store: Store, key: Sealer, secret: SigningSecret) -> None:
    """Raise `NotAllowed` when another registration has this secret already (AAP, instances: one each)."""
    for registration in await store.registrations():
        if _secret_of(key, registration) == secret:
            raise NotAllowed(
                f"--secret-file holds the signing secret of {registration.name}"
                f" (registration {registration.registration_id}); every instance needs one of its own"
            )


def _secret_of(key: Sealer, registration: Registration) -> SigningSecret | None:
    """Return a registration's secret; None for one that retention erased or this key does not open."""
    try:
        return unseal_signing_secret(
            key,
            registration.sealed_secret,
            provider=registration.provider,
            registration_id=registration.registration_id,
        )
    except (CannotUnseal, MalformedSecret):
        return None


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
