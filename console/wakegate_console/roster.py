"""The roster: every instance with its registrations, and the registrations that have no instance yet."""

from dataclasses import dataclass

from wakegate_console import views
from wakegate_console.lookup import Ambiguous, prefix
from wakegate_schema.records import Instance, Registration
from wakegate_schema.store import NotAllowed, NotFound, Store


@dataclass(frozen=True, slots=True)
class Entry:
    """An instance, or a registration on the way to one."""

    provider: str
    name: str
    instance: Instance | None
    registrations: tuple[Registration, ...]

    @property
    def created_at(self) -> int:
        """When it came here, in µs since the epoch."""
        return self.instance.created_at if self.instance else self.registrations[0].created_at

    def view(self) -> views.View:
        """Return what a listing says of it."""
        if self.instance is None:
            return views.unfinished(self.registrations[0])
        last = self.in_force or (self.registrations[-1] if self.registrations else None)
        return views.instance(self.instance, last.registration_id if last else None)

    @property
    def in_force(self) -> Registration | None:
        """The registration that its provider signs under, as far as is known here."""
        found = [each for each in self.registrations if each.state == "verified" and not each.replacing]
        return found[-1] if found else None

    @property
    def replacement(self) -> Registration | None:
        """The registration of a rotation that is not finished; there is one at most."""
        return next((each for each in self.registrations if each.replacing), None)

    def registration(self, which: str) -> Registration | None:
        """Return the registration whose id is, or begins with, the text; None where that names the instance."""
        start = prefix(which)
        if self.instance is None or self.instance.state == "retired" or start is None or which == self.name:
            return None
        if self.instance.instance_id.startswith(start):
            return None
        return next((each for each in self.registrations if each.registration_id.startswith(start)), None)

    @property
    def instance_id(self) -> str | None:
        """The instance's id, as far as it is known."""
        return self.instance.instance_id if self.instance else self.registrations[0].instance_id

    def is_called(self, which: str) -> bool:
        """Whether this is its id, its name, or the id of one of its registrations."""
        return which == self.name or which.lower() in self._ids()

    def begins_with(self, which: str) -> bool:
        """Whether one of its ids begins so."""
        start = prefix(which)
        return start is not None and any(each.startswith(start) for each in self._ids())

    def _ids(self) -> set[str]:
        ids = {registration.registration_id for registration in self.registrations}
        return ids | ({self.instance_id} if self.instance_id else set())


async def entries(store: Store) -> list[Entry]:
    """Return the whole roster, the latest first."""
    instances = await store.instances()
    registrations = await store.registrations()
    found = [
        Entry(
            instance.provider,
            instance.name,
            instance,
            tuple(registration for registration in registrations if _belongs(registration, instance)),
        )
        for instance in instances
    ]
    taken = {registration.registration_id for entry in found for registration in entry.registrations}
    found += [
        Entry(registration.provider, registration.name, None, (registration,))
        for registration in registrations
        if registration.registration_id not in taken
    ]
    return sorted(found, key=lambda entry: entry.created_at, reverse=True)


async def find(store: Store, which: str, provider: str | None) -> Entry:
    """Return the one entry that is called so; one in use goes before those retired.

    Args:
        store: open for reading.
        which: a name, an instance id, a registration id, or the beginning of one.
        provider: only this provider's; None for any.

    Raises:
        NotFound: none is.
        Ambiguous: several are.
    """
    roster = [entry for entry in await entries(store) if provider in (None, entry.provider)]
    found = [entry for entry in roster if entry.is_called(which)]
    found = found or [entry for entry in roster if entry.begins_with(which)]
    found = [entry for entry in found if entry.view()["state"] != "retired"] or found
    if not found:
        raise NotFound(f"there is no instance {which}; see `wakegate instance list`")
    if len(found) > 1:
        known = ", ".join(f"{entry.name} ({entry.instance_id or 'no id yet'} at {entry.provider})" for entry in found)
        raise Ambiguous(f"{which} names {len(found)} instances; name one by its id and --provider-url: {known}")
    return found[0]


async def give_up(store: Store, registration: Registration, at: int) -> None:
    """Retire a registration alone: one that a rotation has not put in force. The instance is not touched.

    Raises:
        NotAllowed: it is out of use already.
    """
    if not registration.replacing:
        raise NotAllowed(
            f"registration {registration.registration_id} is {registration.state} already; to retire its instance, name"
            f" that: {registration.name}"
        )
    await store.retire_registration(registration.registration_id, at)


async def retire(store: Store, entry: Entry, actor: str, at: int) -> int:
    """Retire an entry with its registrations; return how many executions were abandoned."""
    abandoned = 0
    if entry.instance:
        abandoned = await store.retire_instance(entry.provider, entry.instance.instance_id, actor, at)
    else:
        for registration in entry.registrations:
            await store.retire_registration(registration.registration_id, at)
    return abandoned


def _belongs(registration: Registration, instance: Instance) -> bool:
    return (registration.provider, registration.instance_id) == instance.identity
