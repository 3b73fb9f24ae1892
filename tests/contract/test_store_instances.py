"""Which instance a registration speaks for, and whose credential is used."""

from dataclasses import replace

import pytest

from support.desk import Desk, new_id
from wakegate_schema import clock
from wakegate_schema.records import Binding, Challenge
from wakegate_schema.states import State
from wakegate_schema.store import NotAllowed, Store


@pytest.fixture
async def expected(store: Store) -> Desk:
    """A desk whose registration is expected and nothing more."""
    desk = Desk(store)
    await store.add_registration(desk.registration())
    return desk


async def bind(desk: Desk, instance_id: str, at: int | None = None) -> str | None:
    """Challenge the desk's registration."""
    return (await desk.store.bind(Challenge(desk.registration_id, instance_id, at or clock.now()))).refusal


async def test_the_latest_challenge_binds_until_the_credential_is_stored(expected: Desk, store: Store) -> None:
    assert await bind(expected, new_id()) is None
    assert await bind(expected, expected.instance_id) is None
    await store.add_instance(expected.instance(), expected.registration_id)
    assert await bind(expected, new_id()) == "bound_to_other_instance"
    assert await bind(expected, expected.instance_id) is None


async def test_storing_a_credential_requires_the_bound_instance(expected: Desk, store: Store) -> None:
    with pytest.raises(NotAllowed, match="not verified it"):
        await store.add_instance(expected.instance(), expected.registration_id)
    await bind(expected, new_id())
    with pytest.raises(NotAllowed, match="is bound to instance"):
        await store.add_instance(expected.instance(), expected.registration_id)
    with pytest.raises(NotAllowed, match="is not one of"):
        await store.add_instance(expected.instance(), new_id())


async def test_an_unknown_a_retired_and_an_outdated_registration_bind_nothing(expected: Desk, store: Store) -> None:
    assert await store.bind(Challenge(new_id(), new_id(), clock.now())) == Binding("unknown_registration")
    assert await bind(expected, new_id(), clock.now() + clock.DAY) == "registration_expired"
    await store.retire_registration(expected.registration_id, clock.now())
    assert await bind(expected, expected.instance_id) == "registration_retired"


async def test_an_instance_that_is_known_cannot_be_bound_to_a_second_registration(desk: Desk, store: Store) -> None:
    thief = Desk(store, name="thief")
    await store.add_registration(thief.registration())
    assert await bind(thief, desk.instance_id) == "instance_bound_elsewhere"


async def test_an_instance_bound_but_not_stored_cannot_be_bound_to_a_second_registration(store: Store) -> None:
    first, second = Desk(store, name="first"), Desk(store, name="second")
    for desk in (first, second):
        await store.add_registration(desk.registration())
    assert await bind(first, first.instance_id) is None
    assert await bind(second, first.instance_id) == "instance_bound_elsewhere"


async def test_a_replacement_registration_binds_only_the_instance_it_names(desk: Desk, store: Store) -> None:
    replacement = replace(desk.registration(), registration_id=new_id(), instance_id=desk.instance_id)
    await store.add_registration(replacement)
    for instance_id, refusal in ((new_id(), "bound_to_other_instance"), (desk.instance_id, None)):
        assert (await store.bind(Challenge(replacement.registration_id, instance_id, clock.now()))).refusal == refusal


async def test_two_expected_registrations_cannot_share_a_name(expected: Desk, store: Store) -> None:
    with pytest.raises(NotAllowed, match="still expected"):
        await store.add_registration(replace(expected.registration(), registration_id=new_id()))
    with pytest.raises(NotAllowed, match="on record already"):
        await store.add_registration(expected.registration())


async def test_two_instances_in_use_cannot_share_a_name(desk: Desk, store: Store) -> None:
    with pytest.raises(NotAllowed, match="another instance is named"):
        await Desk(store, provider="http://127.0.0.1:10").open()
    await store.retire_instance(desk.provider, desk.instance_id, "operator:mika", clock.now())
    await Desk(store, provider="http://127.0.0.1:10").open()


async def test_retiring_abandons_what_is_unfinished_and_erases_the_credential(desk: Desk, store: Store) -> None:
    unfinished = [await desk.save(), await desk.submitting(), await desk.waiting(), await desk.permitted()]
    started = await desk.started()
    count = await store.retire_instance(desk.provider, desk.instance_id, "operator:mika", clock.now())
    assert count == len(unfinished)
    for execution in unfinished:
        found = await store.execution(execution.execution_id)
        assert (found.state, found.reason, found.cancel_due_at) == (State.ABANDONED, "instance_retired", None)
    assert (await store.execution(started.execution_id)).state is State.STARTED
    instance = await store.instance(desk.provider, desk.instance_id)
    assert (instance.state, instance.sealed_credential) == ("retired", None)
    assert [r.state for r in await store.registrations()] == ["retired"]
    assert await store.retire_instance(desk.provider, desk.instance_id, "operator:mika", clock.now()) == 0
    with pytest.raises(NotAllowed, match="retired"):
        await store.set_credential(desk.provider, desk.instance_id, b"new", None, clock.now())
    with pytest.raises(NotAllowed, match="retired"):
        await store.add_instance(desk.instance(), None)


async def test_a_new_credential_unparks_and_makes_due_what_waited(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    now = clock.now()
    await store.park_instance(desk.provider, desk.instance_id, "http_401", b"sealed token")
    assert (await store.instance(desk.provider, desk.instance_id)).state == "parked"
    await store.release(waiting.lease, now + 30 * clock.DAY, "instance_parked", now)
    await store.set_credential(desk.provider, desk.instance_id, b"new", now + clock.DAY, now)
    found = await store.instance(desk.provider, desk.instance_id)
    assert (found.state, found.state_reason, found.credential_expires_at) == ("active", None, now + clock.DAY)
    (leased,) = await store.lease_due("w", 1, now, now + clock.MINUTE)
    assert (leased.execution_id, leased.problem) == (waiting.execution_id, None)


async def test_a_credential_replaced_meanwhile_is_not_parked(desk: Desk, store: Store) -> None:
    await store.set_credential(desk.provider, desk.instance_id, b"new", None, clock.now())
    await store.park_instance(desk.provider, desk.instance_id, "http_401", b"sealed token")
    assert (await store.instance(desk.provider, desk.instance_id)).state == "active"


async def test_a_retired_registrations_secret_is_erased_after_eight_days(desk: Desk, store: Store) -> None:
    now = clock.now()
    await store.retire_instance(desk.provider, desk.instance_id, "operator:mika", now)
    assert (await store.prune(now + 8 * clock.DAY - 1, now)).secrets == 0
    assert (await store.prune(now + 8 * clock.DAY, now)).secrets == 1
    assert [r.sealed_secret for r in await store.registrations()] == [b""]
