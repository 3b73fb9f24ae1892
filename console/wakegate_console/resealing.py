"""Resealing: a new key for what is sealed in the store, while the services go on working (docs/settings.md, "Secrets").

Everything is readable at every moment, whoever is killed when: a key is in the file before anything is sealed under it,
and leaves the file only after nothing is sealed under it any more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.fernet import Fernet

from wakegate_schema.errors import WakegateError
from wakegate_schema.key_changes import HeldKeys, changing
from wakegate_schema.keys import load_key
from wakegate_schema.sealing import Sealer
from wakegate_schema.service_keys import ServiceKey
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store

BATCH = 100
"""Values that are exchanged at the same time at most."""
ROUNDS = 10
"""How often the store is read again to see whether anything is left to do."""


class CannotReseal(WakegateError):
    """The store does not come to rest."""

    reason = "cannot_reseal"


@dataclass(frozen=True, slots=True)
class Value:
    """Something sealed, and how another sealing of it takes its place."""

    name: str
    """What it belongs to."""
    live: bool
    """Whether it is in use."""
    sealed: bytes = field(repr=False)
    put: Callable[[bytes], Awaitable[bool]]
    """Takes the new sealing; False when the value has changed meanwhile."""


@dataclass(frozen=True, slots=True)
class Resealed:
    """What came of it."""

    values: int
    """How many were sealed anew."""
    resumed: bool
    """Whether the new key had been made before."""
    aside: int
    """How many old keys left the key file."""
    kept: int
    """How many old keys are in it still."""
    file: Path
    """Where the keys are that left it."""
    closed: tuple[str, ...]
    """What is in use and does not open under any key; it was left as it is."""
    paused: bool = False
    """Whether only the new key was made: the services must read it before anything is sealed under it."""


Values = Callable[[Store], Awaitable[list[Value]]]


async def reseal(store: Store, key: ServiceKey, values: Values, *, keep_old: bool, copied: bool = False) -> Resealed:
    """Seal every value under a new key, and take the old ones out of use.

    Interrupted or paused before, it goes on with the key that was made then.

    Args:
        store: open for writing.
        key: the service's key file.
        values: reads what is sealed under it.
        keep_old: leave the old keys in the file.
        copied: the services have copies of the file, which only a restart renews: pause once the new key is in it.

    Raises:
        KeyFileError, SecretFileError: the key file cannot be used or replaced, or another command holds it.
        CannotUnseal: the keys open nothing of what is in use: they are another store's.
        CannotReseal: values change all the time.
    """
    with changing(key.path, key.setting) as held:
        sealer, found = _sealer(key, held), await values(store)
        load_key(key.path, key.setting).require_one([each.sealed for each in found if each.live])
        resumed = not _all_newest(sealer, found)
        if not resumed:
            held.replace([Fernet.generate_key(), *held.keys])
            if copied and found:
                return Resealed(0, resumed, 0, len(held.keys) - 1, held.aside, (), paused=True)
            sealer = _sealer(key, held)
        count = await _seal_anew(store, sealer, values)
        aside = [] if keep_old else held.keys[1:]
        if aside:
            held.set_aside(aside)
            held.replace(held.keys[:1])
        closed = tuple(each.name for each in await values(store) if each.live and not sealer.opens(each.sealed))
        return Resealed(count, resumed, len(aside), len(held.keys) - 1, held.aside, closed)


async def secrets(store: Store) -> list[Value]:
    """Return the signing secrets, which the receiver's key seals."""

    def put(registration_id: str, seen: bytes) -> Callable[[bytes], Awaitable[bool]]:
        return lambda sealed: store.reseal_secret(registration_id, seen, sealed)

    return [
        Value(
            f"the signing secret of {each.name} (registration {each.registration_id})",
            each.state != "retired",
            each.sealed_secret,
            put(each.registration_id, each.sealed_secret),
        )
        for each in await store.registrations()
        if each.sealed_secret
    ]


async def credentials(store: Store) -> list[Value]:
    """Return the instance credentials, which the worker's key seals."""

    def put(provider: str, instance_id: str, seen: bytes) -> Callable[[bytes], Awaitable[bool]]:
        return lambda sealed: store.reseal_credential(provider, instance_id, seen, sealed)

    return [
        Value(
            f"the credential of {each.name} (instance {each.instance_id})",
            True,
            each.sealed_credential,
            put(each.provider, each.instance_id, each.sealed_credential),
        )
        for each in await store.instances()
        if each.sealed_credential
    ]


def targets(settings: Settings, which: str) -> Sequence[tuple[str, ServiceKey, Values]]:
    """Return the services whose keys are meant, each with its key file and what is sealed under it.

    Args:
        settings: name the key files.
        which: `receiver`, `worker` or `both`.
    """
    known = (
        ("receiver", ServiceKey.receiver(settings), secrets),
        ("worker", ServiceKey.worker(settings), credentials),
    )
    return [target for target in known if which in (target[0], "both")]


def are_copied(key: ServiceKey, database: Path | None) -> bool:
    """Say whether the services have copies of a key file, as systemd hands them: it is root's, and the store is not.

    A store in PostgreSQL (None) does not tell whose it is. Then any key of root's may have been copied, and at worst
    services that read it themselves are restarted once for nothing.
    """
    return key.path.stat().st_uid == 0 and (database is None or database.stat().st_uid != 0)


def _sealer(key: ServiceKey, held: HeldKeys) -> Sealer:
    return Sealer([Fernet(each) for each in held.keys], source=str(key.path))


def _all_newest(sealer: Sealer, values: list[Value]) -> bool:
    """Whether nothing that opens at all is sealed under another key than the newest."""
    return all(sealer.is_newest(each.sealed) or not sealer.opens(each.sealed) for each in values)


async def _seal_anew(store: Store, sealer: Sealer, values: Values) -> int:
    """Seal under the newest key whatever opens under another one; return how many values that were."""
    count = 0
    for _ in range(ROUNDS):
        left = [each for each in await values(store) if not sealer.is_newest(each.sealed) and sealer.opens(each.sealed)]
        if not left:
            return count
        for first in range(0, len(left), BATCH):
            batch = left[first : first + BATCH]
            count += sum(await asyncio.gather(*(each.put(sealer.reseal(each.sealed)) for each in batch)))
    raise CannotReseal(
        "values in the store are still being sealed under an old key, by an older version of wakegate perhaps; end"
        " whatever does that and run this command again: it goes on where it was"
    )
