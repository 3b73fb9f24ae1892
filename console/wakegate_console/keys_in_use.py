"""The services' keys, as the commands use them that seal something: held until what is sealed is stored."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from wakegate_schema.key_changes import sealing
from wakegate_schema.sealing import Sealer
from wakegate_schema.service_keys import Sealed, ServiceKey
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store


@dataclass(frozen=True, slots=True)
class Keys:
    """Both keys: provisioning is the one act that seals for receiver and worker."""

    receiver: Sealer
    worker: Sealer


@asynccontextmanager
async def both_keys(settings: Settings, store: Store) -> AsyncIterator[Keys]:
    """Give both keys; see `receiver_key` and `worker_key`."""
    async with receiver_key(settings, store) as receiver, worker_key(settings, store) as worker:
        yield Keys(receiver, worker)


@asynccontextmanager
async def receiver_key(settings: Settings, store: Store) -> AsyncIterator[Sealer]:
    """Give the receiver's key, made where no setting names it and no signing secret in use is sealed.

    Raises:
        KeyFileError, SecretFileError, CannotUnseal: as `ServiceKey.open`, or the key is just being changed.
    """
    async with _held(ServiceKey.receiver(settings), Sealed.secrets(await store.registrations())) as sealer:
        yield sealer


@asynccontextmanager
async def worker_key(settings: Settings, store: Store) -> AsyncIterator[Sealer]:
    """Give the worker's key, made where no setting names it and no credential is sealed; raises as `receiver_key`."""
    async with _held(ServiceKey.worker(settings), Sealed.credentials(await store.instances())) as sealer:
        yield sealer


@asynccontextmanager
async def _held(key: ServiceKey, sealed: Sealed) -> AsyncIterator[Sealer]:
    sealer = key.open(sealed)
    with sealing(key.path):
        sealer.renew()
        yield sealer
