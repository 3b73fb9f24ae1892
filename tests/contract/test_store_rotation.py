"""Rotation and resealing on record: one replacement at a time, one commit in force, overlaps that only end sooner."""

from contextlib import closing
from dataclasses import replace

import pytest

from support.desk import Desk, new_id
from support.raw import open_raw
from support.tables import each_row
from wakegate_schema import clock
from wakegate_schema.clock import DAY, HOUR, MINUTE
from wakegate_schema.records import Challenge, Registration
from wakegate_schema.store import InvariantViolated, NotAllowed, NotFound, Store


def replacement_of(desk: Desk, **changes: object) -> Registration:
    """A registration that is to replace the desk's."""
    plain = replace(
        desk.registration(),
        registration_id=new_id(),
        instance_id=desk.instance_id,
        sealed_secret=b"new secret",
        replacing=True,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


async def begun(desk: Desk) -> Registration:
    """A replacement that nobody has challenged yet."""
    replacement = replacement_of(desk)
    await desk.store.add_registration(replacement)
    return replacement


async def challenge(desk: Desk, registration_id: str, instance_id: str | None = None, at: int | None = None) -> str:
    """Challenge a registration; return the refusal, or `bound`."""
    binding = await desk.store.bind(Challenge(registration_id, instance_id or desk.instance_id, at or clock.now()))
    return binding.refusal or "bound"


async def rotated(desk: Desk, overlap: int = 15 * MINUTE) -> Registration:
    """Rotate the desk's registration."""
    replacement = await begun(desk)
    assert await challenge(desk, replacement.registration_id) == "bound"
    await desk.store.put_in_force(replacement.registration_id, clock.now() + overlap)
    return replacement


async def known(store: Store) -> dict[str, Registration]:
    """The registrations on record, by id."""
    return {each.registration_id: each for each in await store.registrations()}


async def delivered(desk: Desk, registration_id: str, received_at: int | None = None) -> str:
    """Deliver a notification under a registration; return what became of it."""
    at = received_at or clock.now()
    arrival = desk.arrival(new_id(), registration_id=registration_id, created_at=at, received_at=at)
    return (await desk.store.record(arrival)).kind


async def test_one_commit_puts_a_verified_replacement_in_force_and_supersedes_the_rest(
    desk: Desk, store: Store
) -> None:
    replacement = await begun(desk)
    assert await challenge(desk, replacement.registration_id) == "bound"
    until = clock.now() + HOUR
    assert await store.put_in_force(replacement.registration_id, until) == 1
    found = await known(store)
    old, new = found[desk.registration_id], found[replacement.registration_id]
    assert (old.state, old.superseded_until) == ("superseded", until)
    assert (new.state, new.superseded_until, bool(new.replacing)) == ("verified", None, False)
    assert await store.put_in_force(replacement.registration_id, until + HOUR) == 0
    assert (await known(store))[desk.registration_id] == old, "a repeat is a no-op"


async def test_what_nobody_has_verified_is_not_put_in_force(desk: Desk, store: Store) -> None:
    replacement = await begun(desk)
    with pytest.raises(NotAllowed, match="has not verified"):
        await store.put_in_force(replacement.registration_id, clock.now())
    with pytest.raises(NotFound):
        await store.put_in_force(new_id(), clock.now())
    assert (await known(store))[desk.registration_id].state == "verified"


async def test_an_instance_has_one_unfinished_rotation_at_most(desk: Desk, store: Store) -> None:
    first = await begun(desk)
    with pytest.raises(NotAllowed, match="still expected"):
        await begun(desk)
    await challenge(desk, first.registration_id)
    with pytest.raises(NotAllowed, match=first.registration_id):
        await begun(desk)
    await store.retire_registration(first.registration_id, clock.now())
    await begun(desk)


async def test_only_an_instance_in_use_has_its_registration_replaced(desk: Desk, store: Store) -> None:
    with pytest.raises(NotAllowed, match="no instance"):
        await store.add_registration(replacement_of(desk, instance_id=new_id()))
    await store.retire_instance(desk.provider, desk.instance_id, "operator:mika", clock.now())
    with pytest.raises(NotAllowed, match="no instance"):
        await begun(desk)


async def test_a_replacement_is_bound_by_its_own_instance_only_before_and_after_it_is_verified(
    desk: Desk, store: Store
) -> None:
    other = await Desk(store, name="other").open()
    replacement = await begun(desk)
    for thief in (new_id(), other.instance_id):
        assert await challenge(desk, replacement.registration_id, thief) == "bound_to_other_instance"
    for _ in range(2):
        assert await challenge(desk, replacement.registration_id) == "bound"
        assert await challenge(desk, replacement.registration_id, other.instance_id) == "bound_to_other_instance"
    await store.put_in_force(replacement.registration_id, clock.now() + HOUR)
    assert await challenge(desk, replacement.registration_id) == "bound"
    assert await challenge(desk, replacement.registration_id, new_id()) == "bound_to_other_instance"


async def test_a_superseded_registration_answers_its_instance_until_the_overlap_ends(desk: Desk, store: Store) -> None:
    replacement = await rotated(desk, HOUR)
    until = (await known(store))[desk.registration_id].superseded_until or 0
    assert await challenge(desk, desk.registration_id, at=until - 1) == "bound"
    assert await challenge(desk, desk.registration_id, new_id(), at=until - 1) == "bound_to_other_instance"
    assert await challenge(desk, desk.registration_id, at=until) == "registration_superseded"
    found = await known(store)
    assert (found[desk.registration_id].state, found[replacement.registration_id].state) == ("superseded", "verified")


async def test_what_the_old_secret_signs_is_saved_within_the_overlap_and_refused_after_it(
    desk: Desk, store: Store
) -> None:
    replacement = await rotated(desk, HOUR)
    until = (await known(store))[desk.registration_id].superseded_until or 0
    assert await delivered(desk, desk.registration_id, until - 1) == "saved"
    assert await delivered(desk, desk.registration_id, until) == "not_live"
    assert await delivered(desk, replacement.registration_id, until) == "saved"


async def test_before_the_rotation_is_finished_both_secrets_speak(desk: Desk) -> None:
    replacement = await begun(desk)
    assert await delivered(desk, replacement.registration_id) == "not_live"
    await challenge(desk, replacement.registration_id)
    assert await delivered(desk, replacement.registration_id) == "saved"
    assert await delivered(desk, desk.registration_id) == "saved"


async def test_an_overlap_becomes_shorter_and_never_longer(desk: Desk, store: Store) -> None:
    await rotated(desk, HOUR)
    first = (await known(store))[desk.registration_id].superseded_until or 0
    second = await rotated(desk, DAY)
    assert (await known(store))[desk.registration_id].superseded_until == first
    now = clock.now()
    await rotated(desk, 0)
    found = await known(store)
    assert now <= (found[desk.registration_id].superseded_until or 0) < first
    assert await delivered(desk, second.registration_id) == "not_live"


async def test_a_rotation_that_is_given_up_leaves_what_is_in_force_and_acknowledges_nothing(
    desk: Desk, store: Store
) -> None:
    replacement = await begun(desk)
    await challenge(desk, replacement.registration_id)
    await store.retire_registration(replacement.registration_id, clock.now())
    assert await delivered(desk, replacement.registration_id) == "not_live"
    assert await delivered(desk, desk.registration_id) == "saved"
    assert await challenge(desk, replacement.registration_id) == "registration_retired"
    assert await store.notifications()


async def test_retiring_the_instance_retires_all_and_an_overlap_that_ended_stays_ended(
    desk: Desk, store: Store
) -> None:
    in_force = await rotated(desk, 0)
    unfinished = await begun(desk)
    await store.retire_instance(desk.provider, desk.instance_id, "operator:mika", clock.now())
    assert {each.state for each in await store.registrations()} == {"retired"}
    assert not any(each.replacing for each in await store.registrations())
    assert await delivered(desk, in_force.registration_id) == "discarded"
    assert await delivered(desk, desk.registration_id) == "not_live"
    assert await challenge(desk, unfinished.registration_id) == "registration_retired"


async def test_a_superseded_secret_is_erased_eight_days_after_its_overlap(desk: Desk, store: Store) -> None:
    replacement = await rotated(desk, HOUR)
    until = (await known(store))[desk.registration_id].superseded_until or 0
    assert (await store.prune(until + 8 * DAY - 1, 0)).secrets == 0
    assert (await store.prune(until + 8 * DAY, 0)).secrets == 1
    found = await known(store)
    assert (found[desk.registration_id].sealed_secret, found[replacement.registration_id].sealed_secret) == (
        b"",
        b"new secret",
    )


@each_row(
    "change",
    [
        "state = 'verified'",
        "state = 'expected'",
        "superseded_until = superseded_until + 1",
        "superseded_until = NULL",
        "replacing = 1",
    ],
)
async def test_the_database_itself_lets_no_registration_go_back(
    desk: Desk, store: Store, database: str, change: str
) -> None:
    await rotated(desk, HOUR)
    with closing(open_raw(database)) as raw:
        refusal = raw.refusal(f"UPDATE registration SET {change} WHERE state = 'superseded'")
    assert refusal.kind in ("trigger", "check")


async def test_the_database_keeps_a_replacement_to_its_instance(desk: Desk, store: Store, database: str) -> None:
    await begun(desk)
    with closing(open_raw(database)) as raw:
        refusal = raw.refusal("UPDATE registration SET instance_id = 'x' WHERE replacing = 1")
    assert refusal.kind == "trigger"


async def test_a_secret_is_sealed_anew_only_if_it_is_the_one_that_was_seen(desk: Desk, store: Store) -> None:
    assert not await store.reseal_secret(desk.registration_id, b"another", b"new")
    assert await store.reseal_secret(desk.registration_id, b"sealed secret", b"new")
    assert not await store.reseal_secret(desk.registration_id, b"sealed secret", b"newer")
    assert [each.sealed_secret for each in await store.registrations()] == [b"new"]


async def test_an_erased_secret_stays_erased(desk: Desk, store: Store) -> None:
    now = clock.now()
    await store.retire_instance(desk.provider, desk.instance_id, "operator:mika", now)
    await store.prune(now + 8 * DAY, 0)
    assert not await store.reseal_secret(desk.registration_id, b"sealed secret", b"new")
    assert not await store.reseal_secret(desk.registration_id, b"", b"new")
    assert not await store.reseal_credential(desk.provider, desk.instance_id, b"sealed token", b"new")
    assert (await store.instance(desk.provider, desk.instance_id)).sealed_credential is None


async def test_a_parked_instance_stays_parked_when_its_credential_is_sealed_anew(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    assert await store.park_instance(desk.provider, desk.instance_id, "credential_refused", b"sealed token")
    assert await store.reseal_credential(desk.provider, desk.instance_id, b"sealed token", b"anew")
    found = await store.instance(desk.provider, desk.instance_id)
    assert (found.state, found.state_reason, found.sealed_credential) == ("parked", "credential_refused", b"anew")
    assert (await store.execution(waiting.execution_id)).due_at == waiting.due_at


async def test_parking_says_that_the_credential_was_sealed_anew_meanwhile(desk: Desk, store: Store) -> None:
    await store.reseal_credential(desk.provider, desk.instance_id, b"sealed token", b"anew")
    assert not await store.park_instance(desk.provider, desk.instance_id, "credential_refused", b"sealed token")
    assert (await store.instance(desk.provider, desk.instance_id)).state == "active"
    for _ in range(2):
        assert await store.park_instance(desk.provider, desk.instance_id, "credential_refused", b"anew")
    assert await store.park_instance(desk.provider, desk.instance_id, "credential_refused", b"sealed token")


async def test_a_registration_cannot_begin_as_replacing_what_it_may_not(desk: Desk, store: Store) -> None:
    with pytest.raises((InvariantViolated, NotAllowed)):
        await store.add_registration(replacement_of(desk, state="retired", retired_at=1))
