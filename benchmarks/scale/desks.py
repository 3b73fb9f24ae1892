"""An instance at a provider, its secrets sealed with a ground's keys."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from benchmarks.scale.grounds import Ground
from support.deliveries import Sender
from support.desk import Desk
from wakegate_schema import clock
from wakegate_schema.records import Challenge
from wakegate_schema.sealing import seal_credential, seal_signing_secret
from wakegate_schema.signing import SigningSecret
from wakegate_schema.store import Store, open_store


@asynccontextmanager
async def desk_on(ground: Ground, provider: str = "http://127.0.0.1:9") -> AsyncIterator[tuple[Desk, Sender]]:
    """Open the store, as the measuring process's own, and put an instance on record."""
    async with await open_store(ground.location, mode="use") as store:
        yield await _open(store, ground, provider)


async def _open(store: Store, ground: Ground, provider: str) -> tuple[Desk, Sender]:
    desk, secret = Desk(store, provider), SigningSecret.generate()
    sealed = seal_signing_secret(
        ground.receiver_key, provider=provider, registration_id=desk.registration_id, secret=secret
    )
    await store.add_registration(replace(desk.registration(), sealed_secret=sealed))
    await store.bind(Challenge(desk.registration_id, desk.instance_id, clock.now()))
    token = seal_credential(ground.worker_key, provider=provider, instance_id=desk.instance_id, token="a-token")
    await store.add_instance(replace(desk.instance(), sealed_credential=token), desk.registration_id)
    return desk, Sender(secret.reveal(), desk.instance_id)
