"""A harness over the control API: by token over TCP, by user, and while the receiver dies and comes back."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support import driving, warm
from support.control import OTHERS, by_token, control_site, short_folder, token_of
from support.desk import Desk
from support.processes import clean_environment
from support.receivers import settings_in
from support.services import PATIENCE_S
from support.ways import seal_secrets
from wakegate_adapter import (
    Adapter,
    Call,
    ControlRefused,
    InstanceUnclear,
    KeyConflict,
    NotFound,
    State,
    StoreUnavailable,
    WaitTimeout,
)
from wakegate_adapter.control_calls import ControlCalls
from wakegate_adapter.location import TOKEN_FILE
from wakegate_schema import clock
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store, open_store


def a_call(**options: Any) -> Call:
    """A refund."""
    return Call("issue_refund", {"amount": 4900}, **options)


class Ours:
    """A store with an instance, and a receiver as a process, which may die and be started again."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.store = store
        self.socket = Path(str(settings.control_address))
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and return once it listens."""
        environment = clean_environment() | {
            "WAKEGATE_DATABASE": self.settings.database,
            "WAKEGATE_LISTEN": "127.0.0.1:0",
            "WAKEGATE_CONTROL": str(self.socket),
        }
        self._process = await warm.start(
            "receiver", env=environment, cwd=self.socket.parent,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            assert (await self._process.stdout.readline()).startswith(b"http")

    async def die(self) -> None:
        """Be killed, if it runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()


@pytest.fixture
async def ours() -> AsyncIterator[Ours]:
    """A running receiver process."""
    with short_folder() as folder:
        settings = settings_in(folder)
        async with await open_store(settings.database, mode="service") as store:
            await Desk(store).open()
            await seal_secrets(settings)
            found = Ours(settings, store)
            try:
                await found.start()
                yield found
            finally:
                await found.die()


@pytest.fixture
async def adapter(ours: Ours) -> AsyncIterator[Adapter]:
    """An adapter over its control socket."""
    async with await Adapter.open(ours.socket) as opened:
        yield opened


# The receiver dies and comes back


async def test_a_wait_outlives_the_receiver(ours: Ours, adapter: Adapter) -> None:
    ticket = await adapter.suspend(a_call())
    waiting = asyncio.create_task(adapter.wait(ticket.execution_id, timeout=PATIENCE_S))
    await asyncio.sleep(0.2)
    await ours.die()
    await driving.run(ours.store, ticket.execution_id)
    await ours.start()
    assert (await waiting).state is State.SUCCEEDED


async def test_without_a_receiver_a_single_request_may_be_made_again(ours: Ours, adapter: Adapter) -> None:
    ticket = await adapter.suspend(a_call(key="k"))
    await ours.die()
    for use in (
        adapter.suspend(a_call(key="k")),
        adapter.get(ticket.execution_id),
        adapter.abandon(ticket.execution_id, "r"),
    ):
        with pytest.raises(StoreUnavailable, match=r"is the receiver running\?"):
            await use
    async with asyncio.timeout(20):  # a wait with a limit insists no longer than that
        with pytest.raises(StoreUnavailable):
            await adapter.wait(ticket.execution_id, timeout=0.5)
    await ours.start()
    again = await adapter.suspend(a_call(key="k"))
    assert (again.execution_id, again.created) == (ticket.execution_id, False)


async def test_a_claim_and_its_lease_outlive_the_receiver(ours: Ours, adapter: Adapter) -> None:
    """Claimed while it is down, and kept while it is killed again."""
    ticket = await adapter.suspend(a_call(), runs="harness")
    await driving.approve(ours.store, ticket.execution_id)
    await ours.die()
    starting = asyncio.create_task(ours.start())
    async with adapter.claim(ticket.execution_id) as attempt:
        assert attempt.permitted
        await starting
        await ours.die()
        attempt.succeed("kept")
        starting = asyncio.create_task(ours.start())
    await starting
    assert (await adapter.get(ticket.execution_id)).result == "kept"


async def test_a_hold_outlives_the_receiver(ours: Ours, adapter: Adapter) -> None:
    ran: list[int] = []
    held = asyncio.create_task(adapter.hold(a_call(), run=lambda amount: ran.append(amount)))
    execution_id = (await driving.next_saved(ours.store, "issue_refund")).execution_id
    await ours.die()
    await driving.approve(ours.store, execution_id)
    await ours.start()
    assert (await held).state is State.SUCCEEDED
    assert ran == [4900]


async def test_a_hold_that_finds_no_receiver_any_more_runs_nothing(ours: Ours) -> None:
    ran: list[int] = []
    async with Adapter(ControlCalls(ours.socket), hold=1.0, patience=1.0) as adapter:
        held = asyncio.create_task(adapter.hold(a_call(), run=lambda amount: ran.append(amount)))
        execution_id = (await driving.next_saved(ours.store, "issue_refund")).execution_id
        await ours.die()
        await driving.approve(ours.store, execution_id)
        with pytest.raises(StoreUnavailable) as lost:
            await held
        assert "denied" not in str(lost.value)
    async with asyncio.timeout(PATIENCE_S):
        while (found := await ours.store.execution(execution_id)).state is not State.ABANDONED:
            await ours.store.sweep(clock.now())
            await asyncio.sleep(0.1)
    assert (found.reason, ran) == ("hold_lost", [])


async def test_the_stream_goes_on_where_it_was_when_the_receiver_was_killed(ours: Ours, adapter: Adapter) -> None:
    told: list[str] = []
    enough = asyncio.Event()

    async def follow() -> None:
        async with aclosing(adapter.resolutions()) as stream:
            async for _, resolution in stream:
                told.append(resolution.execution_id)
                if len(told) >= 4:
                    enough.set()

    async def abandoned() -> str:
        execution = await Desk.save(await desk_of(ours.store))
        await ours.store.abandon(execution.execution_id, "no more", "harness", clock.now())
        return execution.execution_id

    following = asyncio.create_task(follow())
    await asyncio.sleep(0.5)
    expected = [await abandoned(), await abandoned()]
    async with asyncio.timeout(PATIENCE_S):
        while len(told) < 2:
            await asyncio.sleep(0.05)
    await ours.die()
    expected.append(await abandoned())
    await ours.start()
    expected.append(await abandoned())
    async with asyncio.timeout(PATIENCE_S):
        await enough.wait()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert told == expected


async def desk_of(store: Store) -> Desk:
    """The desk that is on record."""
    (found,) = await store.instances()
    return Desk(store, found.provider, found.instance_id, name=found.name)


# Over TCP, by token


@asynccontextmanager
async def harness(
    address: str, name: str, folder: Path, patch: pytest.MonkeyPatch, *, by: str = "environment"
) -> AsyncIterator[Adapter]:
    """An adapter that has this harness's token in a file."""
    file = folder / f"token-of-{name}"
    file.write_text(token_of(name) + "\n")
    file.chmod(0o600)
    patch.setenv(TOKEN_FILE, str(file))
    patch.setenv("WAKEGATE_CONTROL", address)
    patch.setenv("WAKEGATE_DATABASE", "sqlite:////nowhere/wakegate.db")
    async with await (Adapter.open() if by == "environment" else Adapter.open(address)) as opened:
        yield opened


async def test_over_tcp_a_token_lets_a_harness_in_to_its_own_calls_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {"one": by_token("one", "one"), "two": by_token("two", "two")}
    async with control_site(tables, tcp=True) as site:
        await Desk(site.store, name="one").open()
        await Desk(site.store, name="two").open()
        address = str(site.settings.control_address)
        async with (
            harness(address, "one", tmp_path, monkeypatch) as one,
            harness(address, "two", tmp_path, monkeypatch, by="argument") as two,
        ):
            ran: list[int] = []
            held = asyncio.create_task(one.hold(a_call(key="k"), run=lambda amount: ran.append(amount)))
            execution_id = (await driving.next_saved(site.store, "issue_refund")).execution_id
            with pytest.raises(NotFound):
                await two.get(execution_id)
            with pytest.raises(NotFound):
                await two.abandon(execution_id, "mine now")
            with pytest.raises(InstanceUnclear):
                await two.suspend(a_call(instance="one"))
            await driving.approve(site.store, execution_id)
            assert ((await held).state, ran) == (State.SUCCEEDED, [4900])
            assert [found.execution_id async for found in one.list()] == [execution_id]
            assert [found async for found in two.list()] == []
            actors = {change.actor for change in await site.store.transitions(execution_id)}
            assert actors == {"harness:one", "worker"}
            with pytest.raises(KeyConflict):
                await one.suspend(Call("issue_refund", {"amount": 1}, key="k"))


async def test_a_token_that_is_nobodys_is_refused_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with control_site({"one": by_token("one", "one")}, tcp=True) as site:
        with pytest.raises(ControlRefused) as refused:
            async with harness(str(site.settings.control_address), "other", tmp_path, monkeypatch):
                raise AssertionError
    assert refused.value.reason == "unauthenticated"
    assert token_of("other") not in str(refused.value)


async def test_a_harness_whose_right_ends_is_told_so_and_waits_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with control_site({"one": by_token("one", "one")}, tcp=True) as site:
        await Desk(site.store, name="one").open()
        async with harness(str(site.settings.control_address), "one", tmp_path, monkeypatch) as one:
            ticket = await one.suspend(a_call())
            with pytest.raises(WaitTimeout):
                await one.wait(ticket.execution_id, timeout=0.2)
            waiting = asyncio.create_task(one.wait(ticket.execution_id))
            await asyncio.sleep(0.2)
            site.tables({})
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(ControlRefused):
                    await waiting


# Over the socket, by user

AS_ANOTHER = """
import asyncio, os, sys
import wakegate_adapter.adapter, wakegate_adapter.control_calls, aiohttp.connector, yarl, encodings.idna
from wakegate_adapter import Adapter, WakegateError
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))

async def main():
    try:
        async with await Adapter.open(sys.argv[1]):
            print("in")
    except WakegateError as error:
        print(error.reason, error)

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("CI"), reason="only root may become another user")
@pytest.mark.parametrize(("mode", "said"), [(0o660, "control_forbidden "), (0o666, "harness_unknown ")])
async def test_another_user_is_told_what_keeps_them_out(ours: Ours, mode: int, said: str) -> None:
    ours.socket.chmod(mode)
    arguments = [sys.executable, "-c", AS_ANOTHER, str(ours.socket), str(OTHERS[0])]
    done = await asyncio.to_thread(
        subprocess.run, arguments, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env=clean_environment(),
    )  # fmt: skip
    assert done.stdout.startswith(said), done.stderr
