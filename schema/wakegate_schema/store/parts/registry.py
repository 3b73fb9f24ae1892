"""Registrations and instances: under which secrets providers may call, and under which identity calls go out."""

from wakegate_schema.records import (
    Binding,
    Challenge,
    Instance,
    Registration,
)
from wakegate_schema.store.parts.part import Part
from wakegate_schema.store.verbs import (
    instances,
    registrations,
)


class Registry(Part):
    """See the module."""

    async def add_registration(self, registration: Registration) -> None:
        """Save a registration. Raises `NotAllowed` when its id, or its name at this provider, is taken."""
        await self._writer.do(registrations.add, registration)

    async def registrations(self) -> list[Registration]:
        """Return every registration, oldest first."""
        return await self._reader.read(registrations.every)

    async def bind(self, challenge: Challenge) -> Binding:
        """Bind the challenged instance to its registration, or say why not (DESIGN, "The receiver's answers")."""
        return await self._writer.do(registrations.bind, challenge)

    async def put_in_force(self, registration_id: str, until: int) -> int:
        """Let a verified replacement take the place of the registrations of its instance, in one commit.

        They are superseded: what they sign is taken `until` then (µs), or until their own overlap ends if that is
        sooner. Returns how many were; repeats are no-ops. Raises `NotFound`, or `NotAllowed` when it is not verified.
        """
        return await self._writer.do(registrations.put_in_force, (registration_id, until))

    async def reseal_secret(self, registration_id: str, seen: bytes, sealed: bytes) -> bool:
        """Exchange the sealed secret for another sealing of it. False when it is not the one `seen` any more."""
        return await self._writer.do(registrations.reseal, (registration_id, seen, sealed))

    async def retire_registration(self, registration_id: str, at: int) -> None:
        """Give up a registration: nothing it signs from now on is acted on. Repeats are no-ops.

        While its instance lives, what it signs is not acknowledged either.
        """
        await self._writer.do(registrations.retire, (registration_id, at))

    async def add_instance(self, instance: Instance, registration_id: str | None) -> None:
        """Save an instance with its sealed credential.

        With a registration, that must be verified and bound to this very instance. Repeating the same instance
        replaces its credential. Raises `NotAllowed` naming what stands in the way.
        """
        await self._writer.do(instances.add, (instance, registration_id))
        self._ringer.ring()

    async def set_credential(
        self, provider: str, instance_id: str, sealed: bytes, expires_at: int | None, at: int
    ) -> None:
        """Replace the credential and unpark the instance: all that waited for it becomes due.

        Raises `NotFound`, or `NotAllowed` when the instance is retired.
        """
        await self._writer.do(instances.set_credential, (provider, instance_id, sealed, expires_at, at))
        self._ringer.ring()

    async def instances(self) -> list[Instance]:
        """Return every instance, oldest first."""
        return await self._reader.read(instances.every)

    async def instance(self, provider: str, instance_id: str) -> Instance:
        """Return one instance. Raises `NotFound`."""
        return await self._reader.read(instances.one, provider, instance_id)

    async def reseal_credential(self, provider: str, instance_id: str, seen: bytes, sealed: bytes) -> bool:
        """Exchange the sealed credential for another sealing of it; nothing else of the instance changes.

        False when it is not the one that was `seen` any more.
        """
        return await self._writer.do(instances.reseal, (provider, instance_id, seen, sealed))

    async def park_instance(self, provider: str, instance_id: str, reason: str, seen_credential: bytes) -> bool:
        """Stop using a credential that the provider refused.

        False when it is another one now, or sealed anew, and in use: try again with that.
        """
        return await self._writer.do(instances.park, (provider, instance_id, reason, seen_credential))

    async def retire_instance(self, provider: str, instance_id: str, actor: str, at: int) -> int:
        """Abandon what is unfinished and erase the credential, in one commit. Repeats are no-ops.

        Returns how many executions were abandoned. Raises `NotFound`.
        """
        return await self._writer.do(instances.retire, (provider, instance_id, actor, at))
