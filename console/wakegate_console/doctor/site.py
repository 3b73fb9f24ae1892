"""The site: everything that the checks look at, read once, nothing of it changed by looking."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wakegate_console.doctor.asking import Asked, Health
from wakegate_console.doctor.facts import StoreLook
from wakegate_console.doctor.posting import Delivered
from wakegate_console.doctor.probing import Loaded
from wakegate_console.doctor.redis_look import QueueLook
from wakegate_schema.keys import KeyFileError, load_key
from wakegate_schema.records import Instance, Registration
from wakegate_schema.sealing import Sealer
from wakegate_schema.secret_files import SecretFileError
from wakegate_schema.settings import Settings


@dataclass(slots=True)
class Tasks:
    """What takes longer. Several checks may wait for one, and one that waits no more stops it for nobody else."""

    loading: "asyncio.Task[Loaded] | None" = None
    importing: "asyncio.Task[Mapping[str, str]] | None" = None
    health: "asyncio.Task[Health] | None" = None
    asking: "asyncio.Task[Sequence[Asked]] | None" = None
    """None where nothing is sent over the network."""
    delivering: "asyncio.Task[Sequence[Delivered]] | None" = None
    """None as above."""
    queueing: "asyncio.Task[QueueLook] | None" = None
    """None as above."""

    async def end(self) -> None:
        """Stop what no check waits for any more."""
        every = (self.loading, self.importing, self.health, self.asking, self.delivering, self.queueing)
        begun = [task for task in every if task is not None]
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)


@dataclass(slots=True)
class Site:
    """One installation."""

    settings: Settings
    environ: Mapping[str, str] = field(repr=False)
    now: int
    """When it was looked at, µs."""
    store: StoreLook
    refusals: Sequence[dict[str, Any]] = ()
    """The last refusals that the receiver kept, the oldest first; from before anything was sent."""
    tasks: Tasks = field(default_factory=Tasks)

    @property
    def places(self) -> Mapping[str, str]:
        """Where each setting comes from that has not its default."""
        return self.settings.places

    async def loaded(self) -> Loaded | None:
        """What came of importing the tools modules."""
        return None if self.tasks.loading is None else await asyncio.shield(self.tasks.loading)

    async def imported(self) -> Mapping[str, str]:
        """What is wrong with the resumers, by framework."""
        return {} if self.tasks.importing is None else await asyncio.shield(self.tasks.importing)

    async def health(self) -> Health | None:
        """What the receiver's control listener says."""
        return None if self.tasks.health is None else await asyncio.shield(self.tasks.health)

    async def asked(self) -> Sequence[Asked]:
        """What the providers said."""
        return () if self.tasks.asking is None else await asyncio.shield(self.tasks.asking)

    async def delivered(self) -> Sequence[Delivered]:
        """What became of the messages to the registrations' own URLs."""
        return () if self.tasks.delivering is None else await asyncio.shield(self.tasks.delivering)

    async def queue(self) -> QueueLook | None:
        """What was seen of the queue."""
        return None if self.tasks.queueing is None else await asyncio.shield(self.tasks.queueing)

    @property
    def receiver_key(self) -> Sealer | None:
        """The receiver's key, if this user can use it."""
        return usable_key(self.settings.receiver_key_path)

    @property
    def worker_key(self) -> Sealer | None:
        """The worker's key, if this user can use it."""
        return usable_key(self.settings.worker_key_path)

    @property
    def instances(self) -> Sequence[Instance]:
        """The instances in use; none where the store cannot be read."""
        found = () if self.store.facts is None else self.store.facts.instances
        return [each for each in found if each.state != "retired"]

    @property
    def live(self) -> Sequence[Registration]:
        """The registrations that their providers may deliver under now; none where the store cannot be read."""
        found = () if self.store.facts is None else self.store.facts.registrations
        return [each for each in found if is_live(each, self.now)]


def is_live(registration: Registration, now: int) -> bool:
    """Say whether what a registration signs is taken now (µs)."""
    if registration.state == "superseded":
        return (registration.superseded_until or 0) > now
    return registration.state == "verified"


def usable_key(path: Path) -> Sealer | None:
    """Return the keys of a file, None where this user cannot use it; the checks of keys say why."""
    try:
        return load_key(path)
    except (KeyFileError, SecretFileError):
        return None
