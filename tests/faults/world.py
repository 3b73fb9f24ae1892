"""A world for one case: a folder with a store, a provider and a wake target, and the processes there."""

import asyncio
import functools
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from faults.grounds import Place
from faults.nursery import LOG, URL
from faults.processes import Nursery, Process
from support.aap_peer import Peer
from support.deliveries import Delivery, Sender, stamp
from support.desk import Desk, new_id
from support.http_servers import http_server
from support.receivers import Client, Reply, request_bytes
from wakegate_schema import clock
from wakegate_schema.fault_points import TEST_FAULT, TEST_FAULT_TRACE
from wakegate_schema.keys import ensure_key
from wakegate_schema.records import Challenge, Execution
from wakegate_schema.sealing import seal_credential, seal_signing_secret
from wakegate_schema.signing import SigningSecret
from wakegate_schema.states import RESOLVED, State
from wakegate_schema.store import Store, StoreUnavailable, open_store

TRACE = "trace"
TOLD = "told"
"""The file in which a wake's program writes the ids of its wakes."""
RESUMED = "resumed"
"""The file in which a resumer writes the ids of the requests it was called for."""
LONG_S = 5.5
"""Seconds that a long run of a framework takes; after five its lease is kept."""
WOKEN = f"""import os
import time


def told(message):
    with open(os.path.join(os.path.dirname(__file__), "told"), "a") as file:
        file.write(os.environ["WAKEGATE_WAKE_ID"] + "\\n")


def resumer():
    return resume


def resume(handle, request):
    time.sleep({LONG_S} if handle["thread_id"] == "long" else 0)
    with open(os.path.join(os.path.dirname(__file__), "{RESUMED}"), "a") as file:
        file.write(request.id + "\\n")
"""
"""A module with a wake's entry point, which does the same, and with a framework's resumer."""
LEASE_S = 2
DELAY_S = 2.5
"""Longer than a lease."""
LATER = "+125000000"
"""What the processes' clocks are set to in order not to wait for a lease of two minutes (cancels have one)."""
PATIENCE_S = 4.0
"""Seconds until something that a fault left under a lease is helped along by `LATER`."""
LATE_WORD_S = 6.0
"""Seconds in which a late word has come, if the process that could say it lives."""
LIMIT_S = 90.0
"""Seconds within which everything has settled; only a machine under heavy load comes near."""
TOKEN = "tok-of-the-refund-desk-1234567890"

Fate = Literal["approved", "denied", "abandoned"]


@dataclass
class Call:
    """One call and what is decided about it."""

    fate: Fate
    probed: bool = False
    held: bool = False
    execution_id: str | None = None


@dataclass
class World:
    """Everything of one case."""

    folder: Path
    place: Place
    nursery: Nursery
    subject: str
    """The program that breaks."""
    fault: str | None
    """Its armed fault, or None."""
    peer: Peer = field(default_factory=Peer)
    calls: dict[str, Call] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    statuses: list[int] = field(default_factory=list)
    """How the subject ended, each time that it did before the end of the case."""
    woken: Counter[str] = field(default_factory=Counter)
    wake_answers: list[int] = field(default_factory=list)
    """The next answers to wakes; 204 when it is empty."""
    delivery: Literal["webhook", "none"] = "webhook"
    instance_id: str = field(default_factory=new_id)
    registration_id: str = field(default_factory=new_id)
    secret: SigningSecret = field(default_factory=SigningSecret.generate)
    url: str = ""
    opened: Store | None = None
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)
    _running: dict[str, Process] = field(default_factory=dict)
    _stopped: list[Process] = field(default_factory=list)
    _closing: bool = False

    # The parties

    @property
    def store(self) -> Store:
        """The test's own way into the store."""
        if self.opened is None:
            raise LookupError("the store is not open yet")
        return self.opened

    @property
    def sender(self) -> Sender:
        """The provider as it notifies."""
        return Sender(self.secret.reveal(), self.instance_id)

    @property
    def desk(self) -> Desk:
        """Makes calls and arrivals."""
        return Desk(self.store, self.url, self.instance_id, self.registration_id)

    async def open(self) -> None:
        """Open the store that a service, or the template, has made."""
        self.opened = await open_store(self.place.url, mode="use")

    async def register(self, *, verified: bool = True) -> None:
        """Expect a registration, and bind the instance."""
        now = clock.now()
        sealed = seal_signing_secret(
            ensure_key(self.folder / "receiver.key"),
            provider=self.url, registration_id=self.registration_id, secret=self.secret,
        )  # fmt: skip
        await self.store.add_registration(replace(self.desk.registration(), sealed_secret=sealed))
        if verified:
            await self.store.bind(Challenge(self.registration_id, self.instance_id, now))

    async def employ(self) -> None:
        """Store the instance's credential."""
        instance = replace(self.desk.instance(), sealed_credential=self.credential(), delivery=self.delivery)
        await self.store.add_instance(instance, self.registration_id if self.delivery == "webhook" else None)

    def credential(self, token: str = TOKEN) -> bytes:
        """A credential, sealed with the worker's key."""
        sealer = ensure_key(self.folder / "worker.key")
        return seal_credential(sealer, provider=self.url, instance_id=self.instance_id, token=token)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer the worker: as the wake target, or as the provider."""
        if request.path != "/wake":
            return await self.peer.answer(request)
        self.woken[request.headers["webhook-id"]] += 1
        return web.Response(status=self.wake_answers.pop(0) if self.wake_answers else 204)

    def heard(self, wake_id: str) -> int:
        """How often somebody was told by this wake, over HTTP or by a program."""
        path = self.folder / TOLD
        return self.woken[wake_id] + (path.read_text().split().count(wake_id) if path.exists() else 0)

    # Processes

    async def start(self, program: str, *arguments: str) -> None:
        """Run a program until the end of the case. The subject is armed once and, when it ends, started unarmed.

        One that was told to stop is not started again.
        """
        begun = asyncio.get_running_loop().create_future()
        self._tasks.append(asyncio.create_task(self._live(program, arguments, begun)))
        await begun

    async def _live(self, program: str, arguments: tuple[str, ...], begun: "asyncio.Future[None]") -> None:
        environment = {
            **self.place.settings,
            "WAKEGATE_CONTROL": f"{self.folder}/control.sock",
            "WAKEGATE_LISTEN": "127.0.0.1:0",
            "WAKEGATE_TOOLS": "faults.tools",
            "WAKEGATE_LEASE_SECONDS": str(LEASE_S),
            "WAKEGATE_SWEEP_SECONDS": "0.3",
            "WAKEGATE_WORKER_CONCURRENCY": "8",
            "WAKEGATE_RESUMERS": "langgraph=woken:resumer",
            "WAKEGATE_RESUMERS_DIRECTORY": str(self.folder.absolute()),
        }
        if program == self.subject:
            environment[TEST_FAULT_TRACE] = TRACE
        armed = {TEST_FAULT: self.fault} if program == self.subject and self.fault and not self.statuses else {}
        while True:
            process = self._running[program] = await self.nursery.start(
                self.folder, program, *arguments, **environment, **armed
            )
            if self._closing:  # it was being started while the others were ended
                self.nursery.kill(process)
            if not begun.done():
                begun.set_result(None)
            status = await process.ended
            if self._closing or (status == 0 and (program in ("harness", "client") or process in self._stopped)):
                return
            if not armed:
                raise AssertionError(f"the unarmed {program} ended with {status}")
            self.statuses.append(status)
            armed = {}
            if program == "worker":
                self.move_clock()
            if process in self._stopped:  # the story has another one take its place
                return

    async def at_end(self, program: str) -> None:
        """Wait until a program has come to its own end."""
        await self.when(lambda: self._running[program].ended.done() and self._running[program].ended.result() == 0)

    async def stop(self, program: str) -> None:
        """Tell a program to stop, and wait until it has ended, however."""
        process = self._running[program]
        self._stopped.append(process)
        self.nursery.kill(process, signal.SIGTERM)
        await self.when(process.ended.done)

    def move_clock(self) -> None:
        """Let the processes' clocks show that two minutes have passed."""
        (self.folder / "clock").write_text(LATER)

    @property
    def reached(self) -> set[str]:
        """The points that the subject has reached."""
        path = self.folder / TRACE
        return set(path.read_text().split("\n")) - {""} if path.exists() else set()

    async def when(self, holds: Callable[[], Awaitable[bool] | bool]) -> None:
        """Wait until something holds, whatever breaks meanwhile."""
        loop = asyncio.get_running_loop()
        begun, helped = loop.time(), False
        while True:
            for task in self._tasks:
                if task.done():
                    task.result()
            try:
                answer = holds()
                if answer if isinstance(answer, bool) else await answer:
                    return
            except StoreUnavailable:
                pass  # the look was in vain, not what was looked for: it looks again, for as long as there is time
            waited = loop.time() - begun
            if waited > PATIENCE_S + DELAY_S and self.fault is not None and not helped:
                helped = True
                self.move_clock()
            assert waited < LIMIT_S, "it does not settle"
            await asyncio.sleep(0.03 if waited < 1 else 0.1)

    # What is done

    async def save(self, fate: Fate, **changes: Any) -> str:
        """Save a call and return its key."""
        key = new_id()
        suspension = {"tool": "refund", "wake": "harness"} | changes
        self.calls[key] = Call(fate, probed=suspension["tool"] == "lose_the_answer")
        await self.desk.save(idempotency_key=key, arguments=json.dumps({"key": key}).encode(), **suspension)
        return key

    def request(self, key: str) -> dict[str, Any]:
        """The provider's request of a call."""
        return self.peer.requests[self.peer.keys[key]]

    async def submitted(self, key: str) -> dict[str, Any]:
        """Wait until the provider has the call's request."""
        await self.when(lambda: key in self.peer.keys)
        return self.request(key)

    async def decided(self, key: str) -> None:
        """Decide as the call's fate says, once it was submitted, and notify."""
        request = await self.submitted(key)
        if self.calls[key].fate == "denied":
            self.peer.decide(request, "denied", note="not this one")
        else:
            self.peer.approve(request, lasting=3600)
        if self.delivery == "webhook":
            await self.notify(request["id"])

    async def gated(self, thread: str) -> str:
        """Let a framework ask at the provider and consume what is approved; nobody saves the request here."""
        handle = {"framework": "langgraph", "thread_id": thread}
        call = {"tool": "refund", "arguments": {}, "timeout": "30m", "context": {"resume": handle}}
        async with aiohttp.ClientSession() as session:
            key = {"Idempotency-Key": new_id()}
            async with session.post(f"{self.url}/v1/requests", json=call, headers=key) as answer:
                request = self.peer.requests[(await answer.json())["id"]]
        self.peer.approve(request, lasting=3600)
        request["consumption"] = {"consumed_at": stamp()}
        before = clock.now() - 6 * clock.SECOND  # a notification may come before its call is saved
        await self.store.record(self.desk.arrival(request["id"], received_at=before))
        await self.when(functools.partial(self._is_adopted, request["id"]))
        return str(request["id"])

    async def _is_adopted(self, request_id: str) -> bool:
        return await self.store.adoption(self.url, self.instance_id, request_id) is not None

    async def notify(self, request_id: str, event_id: str | None = None) -> str:
        """Notify until that is acknowledged, and return the event's id."""
        event_id, created_at = event_id or new_id(), stamp()
        if "receiver" in self._running:
            await self.deliver(lambda: self.sender.notification(request_id, event_id, created_at))
        else:  # as the receiver does, in its stead
            await self.store.record(self.desk.arrival(request_id, event_id=event_id))
        self.acknowledged.add(event_id)
        return event_id

    async def deliver(self, make: Callable[[], Delivery]) -> Reply:
        """Post a message, signed anew each time, until it is answered with a 2xx."""
        found: list[Reply] = []
        await self.when(functools.partial(self._posted, make, found))
        return found[0]

    async def _posted(self, make: Callable[[], Delivery], found: list[Reply]) -> bool:
        reply = await self.post(make())
        if reply is None or reply.status in (429, 500, 503):
            return False
        assert 200 <= reply.status < 300, reply
        found.append(reply)
        return True

    async def post(self, delivery: Delivery) -> Reply | None:
        """Post once; None when no answer comes."""
        try:
            parts = urlsplit((self.folder / URL).read_text())
            async with Client((parts.hostname or "", parts.port or 0)) as client:
                await client.send(request_bytes(delivery, parts.path))
                return await client.reply()
        except (OSError, EOFError, TimeoutError):
            return None

    async def comes_out(self, key: str) -> None:
        """Wait until somebody has said what became of a call in doubt, or long enough for that."""
        until = asyncio.get_running_loop().time() + LATE_WORD_S
        await self.when(lambda: self._is_out(key, until))

    async def _is_out(self, key: str, until: float) -> bool:
        resolved = any(e.resolved for e in await self.executions() if e.idempotency_key == key)
        return resolved or asyncio.get_running_loop().time() > until

    # The end

    async def settle(self) -> None:
        """Wait until nothing goes on or is owed, whatever the fault did to the program is over included."""
        await self.when(self._settled)
        if self.fault is not None and self.fault.endswith("=kill") and self.fault[:-5] in self.reached:
            await self.when(lambda: bool(self.statuses))
            await self.when(self._settled)

    async def _settled(self) -> bool:
        for call in await self.executions():
            resolved = call.state in RESOLVED or (call.state is State.IN_DOUBT and not self._probed(call))
            if not resolved or call.cancel_due_at is not None or call.report_due_at is not None:
                return False
        if any(adoption.state == "owed" for _, adoption in await self.store.latest_adoptions()):
            return False
        wakes = [wake for call in await self.executions() for wake in await self.store.wakes(call.execution_id)]
        return all(wake.state != "owed" for wake in wakes)

    def _probed(self, execution: Execution) -> bool:
        return self.calls[execution.idempotency_key].probed

    async def executions(self) -> list[Execution]:
        """Every call on record."""
        return [execution for _, execution in await self.store.executions()]


@asynccontextmanager
async def world(
    folder: Path, place: Place, nursery: Nursery, subject: str, fault: str | None, *, fresh: bool = False
) -> AsyncIterator[World]:
    """Make a world, open its store unless the subject is to make it, and end everything in it afterwards."""
    found = World(folder, place, nursery, subject, fault)
    async with http_server(found.answer) as served:
        found.url = found.peer.url = served.url
        told = json.dumps(["/bin/sh", "-c", 'echo "$WAKEGATE_WAKE_ID" >> "$1"', "wake", f"{folder.absolute()}/{TOLD}"])
        (folder / "wakegate.toml").write_text(
            f'[wake.harness]\nkind = "http"\nurl = "{served.url}/wake"\n'
            f'[wake.program]\nkind = "command"\nargv = {told}\n'
            f'[wake.entry]\nkind = "python"\nentry_point = "woken:told"\ndirectory = "{folder.absolute()}"\n'
        )
        (folder / "woken.py").write_text(WOKEN)
        if not fresh:
            await found.open()
        try:
            yield found
        finally:
            await _close(found)


async def _close(found: World) -> None:
    found._closing = True
    for process in found._running.values():
        found.nursery.kill(process)
    await asyncio.gather(*found._tasks, return_exceptions=True)
    if found.opened is not None:
        await found.opened.close()


def log_of(folder: Path) -> str:
    """The last lines that the processes of a case have logged."""
    path = folder / LOG
    return "\n".join(path.read_text().splitlines()[-12:]) if path.exists() else ""
