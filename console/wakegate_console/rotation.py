"""Rotation: another registration, with another secret, in the place of the one that an instance has at its provider.

The new registration is saved, for this instance only, before the provider hears of it; the receiver takes what it signs
from the provider's challenge on. One commit then puts it in force and lets the old one end. Whatever is interrupted,
the next run finds the registration and repeats the very same update (AAP, instances).
"""

from collections.abc import Callable
from dataclasses import dataclass

from wakegate_console.provisioner import MAX_ANSWER, OTHERWISE, Call, ask_once_ready, malformed
from wakegate_console.provisioning import EXPECTED_FOR, CannotProvision
from wakegate_console.roster import Entry
from wakegate_console.waiting import Wait
from wakegate_schema import ids, timestamps, wire
from wakegate_schema.records import Instance, Registration
from wakegate_schema.sealing import BearerToken, Sealer, seal_signing_secret, unseal_signing_secret
from wakegate_schema.signing import SigningSecret
from wakegate_schema.store import NotAllowed, Store


class CannotRotate(CannotProvision):
    """The registration cannot be replaced."""

    reason = "cannot_rotate"


@dataclass(frozen=True, slots=True)
class Rotation:
    """What is wanted."""

    url: str | None
    """Where the provider will deliver; None for where it does already."""
    overlap: int
    """How long what the old secret signs is still taken, in µs; 0 for not at all."""
    store: str
    """The store's name (`StoreLocation.name`), for the error that the receiver may use another."""


@dataclass(frozen=True, slots=True)
class Rotated:
    """What came of it."""

    registration_id: str
    resumed: bool
    """Whether it had been begun before."""
    until: int
    """When the last overlap ends, in µs since the epoch."""


async def rotate(
    store: Store,
    key: Sealer,
    entry: Entry,
    wanted: Rotation,
    token: BearerToken,
    now: Callable[[], int],
    wait: Wait,
) -> Rotated:
    """Carry out a rotation, or what is left of it.

    Args:
        store: open for writing.
        key: the receiver's, held until this returns.
        entry: the instance.
        wanted: the new delivery, and how long the old one counts.
        token: the provisioner token for its provider.
        now: tells the time, in µs since the epoch.
        wait: for provider and receiver to listen.

    Raises:
        NotAllowed: there is nothing to be replaced.
        CannotRotate: it stands in the way of itself, or the provider's answer is another than was asked for.
        CallFailed: the provider refused or did not answer; what was in force still is.
    """
    instance, present = _in_force(entry)
    begun = entry.replacement
    if begun is None:
        url = wanted.url or present.url
        if url is None:
            raise NotAllowed(f"{entry.name} was imported, so nobody has said where it is delivered to; give --url")
        replacement = _registration(key, instance, url, now())
        await store.add_registration(replacement)
    else:
        _check_resumable(begun, wanted, now())
        replacement = begun
    await _update(_call(key, instance, replacement, token, wanted.store), replacement, wait)
    until = now() + wanted.overlap
    await store.put_in_force(replacement.registration_id, until)
    return Rotated(replacement.registration_id, begun is not None, until)


def _in_force(entry: Entry) -> tuple[Instance, Registration]:
    """Return the instance and the registration that is to be replaced."""
    if entry.instance is None:
        raise NotAllowed(f"{entry.name} has no credential yet; finish provisioning it first")
    if entry.instance.state == "retired":
        raise NotAllowed(f"{entry.name} is retired; provision a new instance")
    if entry.in_force is None:
        raise NotAllowed(f"{entry.name} has no registration that is in force, so there is none to replace")
    return entry.instance, entry.in_force


def _registration(key: Sealer, instance: Instance, url: str, now: int) -> Registration:
    registration_id = ids.new()
    return Registration(
        registration_id=registration_id,
        provider=instance.provider,
        name=instance.name,
        state="expected",
        sealed_secret=seal_signing_secret(
            key, provider=instance.provider, registration_id=registration_id, secret=SigningSecret.generate()
        ),
        url=url,
        idempotency_key=ids.new(),
        instance_id=instance.instance_id,
        created_at=now,
        expected_until=now + EXPECTED_FOR,
        replacing=True,
    )


def _check_resumable(begun: Registration, wanted: Rotation, now: int) -> None:
    give_up = f"or give it up with `wakegate instance retire {begun.registration_id}` and begin again"
    if wanted.url not in (None, begun.url):
        raise CannotRotate(
            f"{begun.name} is being rotated to {begun.url}; repeat the command with that --url or without, {give_up}",
            reason="other_url",
        )
    if now >= begun.expected_until:
        raise CannotRotate(
            f"the rotation of {begun.name} was not finished before {timestamps.render(begun.expected_until)}, and its"
            f" provider may have forgotten it: run `wakegate instance retire {begun.registration_id}` and begin again",
            reason="registration_expired",
        )


def _call(key: Sealer, instance: Instance, replacement: Registration, token: BearerToken, store: str) -> Call:
    url = replacement.url or ""
    secret = unseal_signing_secret(
        key,
        replacement.sealed_secret,
        provider=replacement.provider,
        registration_id=replacement.registration_id,
    )
    delivery = wire.Delivery(
        type="webhook", url=url, registration_id=replacement.registration_id, signing_secret=secret
    )
    return Call(
        provider=instance.provider,
        token=token,
        method="PATCH",
        path=f"/v1/instances/{instance.instance_id}",
        advice=_advice(replacement),
        idempotency_key=replacement.idempotency_key,
        body=wire.object_bytes(wire.InstanceUpdate(delivery=delivery)),
        url=url,
        store=store,
    )


async def _update(call: Call, replacement: Registration, wait: Wait) -> None:
    """Have the provider deliver under the new registration."""
    answer = await ask_once_ready(call, wait, good=(200,))
    try:
        shown = wire.parse_object(wire.Instance, answer.body, max_bytes=MAX_ANSWER)
    except wire.MalformedObject as error:
        raise malformed(call, error) from None
    delivery = wire.DeliveryView(type="webhook", url=call.url, registration_id=replacement.registration_id)
    if shown.delivery != delivery:
        raise CannotRotate(
            f"the provider answered with another delivery for {replacement.name} than was asked for; what was in force"
            " still is, and what it signs from now on is taken under both registrations",
            reason="delivery_mismatch",
        )


def _advice(replacement: Registration) -> dict[int, str]:
    give_up = f"run `wakegate instance retire {replacement.registration_id}` and rotate again"
    return {
        404: "it does not know this instance, for this token; was it deleted there?",
        409: f"another update has this key; {give_up}",
        OTHERWISE: f"it does not take this delivery; {give_up} with another --url",
    }
