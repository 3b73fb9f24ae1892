"""Provisioning: an instance at a provider, delivered to our receiver, made once however often it is tried.

The registration is saved, with its secret and the creation's idempotency key, before the provider hears of it.
Whatever is interrupted afterwards, the next run finds it and repeats the very same submission (AAP, instances).
"""

from dataclasses import dataclass

from wakegate_console.creation import Creation, create_once_ready
from wakegate_console.keys_in_use import Keys
from wakegate_console.waiting import Wait
from wakegate_schema import ids, timestamps, wire
from wakegate_schema.clock import DAY
from wakegate_schema.errors import WakegateError
from wakegate_schema.records import Instance, Registration
from wakegate_schema.sealing import (
    BearerToken,
    Sealer,
    seal_credential,
    seal_signing_secret,
    unseal_signing_secret,
)
from wakegate_schema.signing import SigningSecret
from wakegate_schema.store import NotAllowed, Store

EXPECTED_FOR = 7 * DAY
"""How long a registration is expected: as long as a provider must keep the creation's idempotency key (AAP)."""


class CannotProvision(WakegateError):
    """The instance cannot be provisioned."""

    reason = "cannot_provision"


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be provisioned."""

    provider: str
    """Canonical base URL."""
    url: str
    """Where the provider will deliver: our receiver, as the provider reaches it."""
    name: str
    store: str
    """The store's name for messages (`StoreLocation.name`); the receiver must use the same."""


@dataclass(frozen=True, slots=True)
class Provisioned:
    """What came of an order."""

    instance: Instance
    new: bool
    """False when the order had been carried out before."""


async def provision(store: Store, keys: Keys, order: Order, token: BearerToken, now: int, wait: Wait) -> Provisioned:
    """Carry out an order, or what is left of it.

    Args:
        store: open for writing.
        keys: seal the signing secret and the credential.
        order: what is wanted.
        token: the provisioner token for the order's provider.
        now: µs since the epoch.
        wait: for provider and receiver to listen.

    Raises:
        CannotProvision: it stands in the way of itself, or the provider refused; the message says what to do.
    """
    registration = await _registration(store, keys, order, now)
    instance = await _finished(store, registration)
    if instance is not None:
        return Provisioned(instance, new=False)
    created = await create_once_ready(_creation(keys, registration, order, token), wait)
    if created.instance.delivery != wire.DeliveryView(
        type="webhook", url=order.url, registration_id=registration.registration_id
    ):
        raise CannotProvision(
            f"the provider answered with another delivery for {order.name} than was asked for; nothing was kept",
            reason="delivery_mismatch",
        )
    instance = sealed_instance(keys.worker, order, created, now)
    await store.add_instance(instance, registration.registration_id)
    return Provisioned(instance, new=True)


async def provisioned_before(store: Store, order: Order) -> Instance | None:
    """Return the instance of an order that was carried out before; None while it was not."""
    for known in await store.registrations():
        if (known.provider, known.name) == (order.provider, order.name) and _counts(known):
            return await _finished(store, known)
    return None


def sealed_instance(key: Sealer, order: Order, created: wire.ProvisionedInstance, now: int) -> Instance:
    """Return the record of a created instance, its credential sealed with the worker's key."""
    credential = created.credential
    return Instance(
        provider=order.provider,
        instance_id=created.instance.id,
        name=order.name,
        state="active",
        state_reason=None,
        delivery="webhook",
        sealed_credential=seal_credential(
            key, provider=order.provider, instance_id=created.instance.id, token=credential.token
        ),
        credential_expires_at=None if credential.expires_at is None else timestamps.parse(credential.expires_at),
        created_at=now,
    )


async def check_name(store: Store, name: str, besides: tuple[str, str | None] | None = None) -> None:
    """Raise `NotAllowed` when an instance that is in use has this name: its harnesses may go by it.

    Args:
        store: open for reading.
        name: what an instance shall be called.
        besides: the provider and id of the instance that may have the name already.
    """
    for instance in await store.instances():
        itself = instance.identity == besides
        if instance.name == name and instance.state != "retired" and not itself:
            raise NotAllowed(f"another instance is named {name}; choose another name or retire that one")


async def _registration(store: Store, keys: Keys, order: Order, now: int) -> Registration:
    """Return the registration of this order: the one begun before, or a new one, durable from here on."""
    for known in await store.registrations():
        if (known.provider, known.name) == (order.provider, order.name) and _counts(known):
            _check_resumable(known, order, now)
            return known
    await check_name(store, order.name)
    registration_id = ids.new()
    registration = Registration(
        registration_id=registration_id,
        provider=order.provider,
        name=order.name,
        state="expected",
        sealed_secret=seal_signing_secret(
            keys.receiver,
            provider=order.provider,
            registration_id=registration_id,
            secret=SigningSecret.generate(),
        ),
        url=order.url,
        idempotency_key=ids.new(),
        instance_id=None,
        created_at=now,
        expected_until=now + EXPECTED_FOR,
    )
    await store.add_registration(registration)
    return registration


def _counts(known: Registration) -> bool:
    """Whether it is what an order began, and not one of the registrations that a rotation adds or leaves behind."""
    return known.state in ("expected", "verified") and not known.replacing


def _check_resumable(known: Registration, order: Order, now: int) -> None:
    if known.idempotency_key is None:
        raise CannotProvision(
            f"{order.name} was imported, not provisioned here; give it its credential with"
            " `wakegate instance credential`, or choose another name",
            reason="imported",
        )
    if known.url != order.url:
        raise CannotProvision(
            f"{order.name} is being provisioned for {known.url}; repeat the command with that --url, or run"
            f" `wakegate instance retire {known.registration_id}` and begin again",
            reason="other_url",
        )
    if known.state == "expected" and now >= known.expected_until:
        raise CannotProvision(
            f"the registration of {order.name} was not finished before {timestamps.render(known.expected_until)};"
            f" run `wakegate instance retire {known.registration_id}` and begin again",
            reason="registration_expired",
        )


async def _finished(store: Store, registration: Registration) -> Instance | None:
    """Return the instance when the order was carried out before."""
    for instance in await store.instances():
        if instance.identity == (registration.provider, registration.instance_id):
            return instance
    return None


def _creation(keys: Keys, registration: Registration, order: Order, token: BearerToken) -> Creation:
    secret = unseal_signing_secret(
        keys.receiver,
        registration.sealed_secret,
        provider=registration.provider,
        registration_id=registration.registration_id,
    )
    return Creation(
        provider=order.provider,
        token=token,
        idempotency_key=registration.idempotency_key or "",
        body=wire.NewInstance(
            instance_name=order.name,
            delivery=wire.Delivery(
                type="webhook",
                url=order.url,
                registration_id=registration.registration_id,
                signing_secret=secret,
            ),
        ),
        store=order.store,
    )
