"""The instances: their credentials and registrations."""

from collections.abc import Iterator, Sequence
from typing import Final

from wakegate_console import advice
from wakegate_console.doctor.check import Check
from wakegate_console.doctor.finding import Said, counted, lasted, note, ok, problem, warning
from wakegate_console.doctor.site import Site, is_live
from wakegate_console.text import printable
from wakegate_schema.clock import DAY, SECOND
from wakegate_schema.records import Instance, Registration

SOON: Final = 7 * DAY
"""A credential that ends sooner is warned of, µs (DESIGN, the start, 2)."""


def credentials(site: Site) -> Iterator[Said]:
    """Look at when each credential ends."""
    if site.store.facts is not None and not site.instances:
        yield note("there is no instance yet", "make one: wakegate instance provision, or import")
    for instance in site.instances:
        yield judge_expiry(instance, site.now)


def judge_expiry(instance: Instance, now: int) -> Said:
    """Say whether an instance's credential is good, and for how long."""
    name, ends = printable(instance.name), instance.credential_expires_at
    new = f"get a new one: wakegate instance credential {name} --credential-file FILE --credential-expires-at TIME"
    if ends is None:
        return note(f"{name}: when its credential ends is not known", "store it again with --credential-expires-at")
    left = ends - now
    if left <= 0:
        return problem(f"{name}: its credential ended {lasted(-left / SECOND)} ago", new)
    if left < SOON:
        return warning(f"{name}: its credential ends in {lasted(left / SECOND)}", new)
    return ok(f"{name}: its credential is good for {lasted(left / SECOND)}")


def parked(site: Site) -> Iterator[Said]:
    """Tell of instances whose provider has refused their credential."""
    found = [each for each in site.instances if each.state == "parked"]
    for instance in found:
        yield problem(
            f"{printable(instance.name)} is parked ({printable(instance.state_reason or 'no reason is known')}): its"
            " calls wait",
            advice.for_instance(instance) or "wakegate instance show says more",
        )
    if site.store.facts is not None and not found:
        yield ok("no instance is parked")


def registrations(site: Site) -> Iterator[Said]:
    """Look for instances that no provider can reach, and for registrations that nobody has verified in time."""
    if site.store.facts is None:
        return
    known = site.store.facts.registrations
    said = [*_unreachable(site), *_expected(known, site.now)]
    live = len(site.live)
    yield from said or [ok(f"{counted(live, 'registration is', 'registrations are')} live")]


def rotation(site: Site) -> Iterator[Said]:
    """Tell of rotations that are not finished, and of overlaps."""
    if site.store.facts is None:
        return
    said = [said for each in site.store.facts.registrations for said in judge_rotation(each, site.now)]
    yield from said or [ok("no rotation is under way")]


def judge_rotation(registration: Registration, now: int) -> Iterator[Said]:
    """Say whether a registration is in the middle of being replaced, or of replacing another."""
    name = printable(registration.name)
    if registration.replacing and registration.state != "retired":
        yield warning(f"{name}: a rotation is not finished", advice.for_rotation(name, registration.registration_id))
    if registration.state == "superseded" and is_live(registration, now):
        left = lasted(((registration.superseded_until or now) - now) / SECOND)
        yield note(
            f"{name}: what its old secret signs is still taken for {left}",
            "if others may know that secret: wakegate instance rotate --now",
        )


CHECKS: Final = (
    Check("instances.credentials", credentials),
    Check("instances.parked", parked),
    Check("instances.registrations", registrations),
    Check("instances.rotation", rotation),
)


def _unreachable(site: Site) -> Iterator[Said]:
    """Find the instances that are to be notified, and whose provider's messages are all refused."""
    live = {(each.provider, each.instance_id) for each in site.live}
    for instance in site.instances:
        if instance.delivery == "webhook" and instance.identity not in live:
            name = printable(instance.name)
            yield problem(
                f"{name} has no live registration: its provider's notifications are refused",
                f"wakegate instance rotate {name} --url URL --provisioner-token-file FILE",
            )


def _expected(known: Sequence[Registration], now: int) -> Iterator[Said]:
    """Find the registrations that wait for their provider's challenge, or did so in vain."""
    for registration in known:
        if registration.state != "expected" or registration.replacing:
            continue
        name, which = printable(registration.name), registration.registration_id
        if registration.expected_until <= now:
            yield warning(
                f"{name}: nobody verified its registration in time, and nobody can any more",
                f"provision or import it again; give this one up: wakegate instance retire {which}",
            )
        else:
            left = lasted((registration.expected_until - now) / SECOND)
            yield note(
                f"{name}: its registration waits for the provider's challenge, for {left} more",
                advice.for_registration("expected", name) or "",
            )
