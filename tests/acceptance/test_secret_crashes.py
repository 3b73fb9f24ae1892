"""Killed by SIGKILL at every step, `db reseal`, `instance rotate` and `instance delete` are finished by the next run.

Meanwhile receiver and worker, processes of their own, refuse no genuine delivery, lose none and fail no call.
"""

from pathlib import Path

from support.loaded_site import Loaded, loaded
from wakegate_schema.keys import load_key, read_keys
from wakegate_schema.store import Store

RESEAL = ("db", "reseal")


async def readable(site: Loaded, store: Store) -> None:
    """Assert that everything sealed opens under the keys in the files, as a service that starts now would find it."""
    receiver, worker = load_key(site.folder / "receiver.key"), load_key(site.folder / "worker.key")
    assert all(receiver.opens(each.sealed_secret) for each in await store.registrations())
    assert all(worker.opens(each.sealed_credential or b"") for each in await store.instances())


async def test_a_reseal_killed_at_any_step_is_finished_by_the_next(tmp_path: Path) -> None:
    async with loaded(tmp_path) as (site, store):
        step = 0
        while (ended := await site.run(*RESEAL, step=(step := step + 1))) == -9:
            await readable(site, store)
            assert await site.run(*RESEAL) == 0
            await readable(site, store)
            for name in ("receiver.key", "worker.key"):
                assert len(read_keys(site.folder / name)) == 1, f"step {step}"
        assert ended == 0
        assert step > 20
        assert not list(tmp_path.glob(".*.new"))


async def test_a_rotation_killed_at_any_step_is_finished_by_the_next(tmp_path: Path) -> None:
    async with loaded(tmp_path) as (site, store):
        rotate = ("instance", "rotate", "desk", *site.token, "--wait", "20", "--overlap", "1h")
        step, unfinished = 0, 0
        while (ended := await site.run(*rotate, step=(step := step + 1))) == -9:
            begun = [each for each in await store.registrations() if each.replacing]
            unfinished += len(begun)
            known = len(await store.registrations())
            assert await site.run(*rotate) == 0, (tmp_path / "commands.log").read_text()[-2000:]
            found = await store.registrations()
            assert [each.registration_id for each in found if each.state == "verified"] == [
                (begun[0] if begun else found[-1]).registration_id
            ], f"step {step}"
            assert len(found) == known + (not begun)
            assert not any(each.replacing for each in found)
        assert ended == 0
        assert step > 8
        assert unfinished >= 4


async def test_a_deletion_killed_at_any_step_is_finished_by_the_next(tmp_path: Path) -> None:
    async with loaded(tmp_path) as (site, store):
        step, ended = 0, -9
        while ended == -9:
            step, name = step + 1, f"other-{step}"
            assert await site.provision(name) == 0
            delete = ("instance", "delete", name, *site.token)
            ended = await site.run(*delete, step=step)
            assert await site.run(*delete) == 0
            (instance,) = [each for each in await store.instances() if each.name == name]
            assert (instance.state, instance.sealed_credential) == ("retired", None)
        assert ended == 0
        assert step > 5
