"""Parties: one store, everybody on it, two approvers, and a clock that stands still until it is moved."""

import asyncio
import functools
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from model.approver import Approver
from model.door import Door
from model.jobs import Job, stop
from model.lines import BlindReader, Writer
from model.reference import Instance, Reference, Signer, Step
from model.snapshot import Observer
from model.workers import LEASE_S, Listener, Parts

from support.deliveries import Sender
from wakegate_adapter.grants import Grants
from wakegate_schema import clock, ids
from wakegate_schema.calls import StoreCalls
from wakegate_schema.calls.outcomes import failed, in_doubt, succeeded
from wakegate_schema.clock import HOUR, SECOND
from wakegate_schema.keys import ensure_key
from wakegate_schema.records import Instance as InstanceRecord
from wakegate_schema.records import Outcome, Registration
from wakegate_schema.sealing import seal_credential, seal_signing_secret
from wakegate_schema.signing import SigningSecret
from wakegate_schema.store import Store, open_store
from wakegate_worker import Attempt, ToolFailed, tool
from wakegate_worker.registry import Tool, tool_of
from wakegate_worker.silence import Silence

START = 1_800_000_000 * SECOND
PROVIDERS = ("https://one.example", "https://two.example")
TOOL_S = 600.0
"""How long a tool may take; then whoever runs it ends it."""


class TooLong(Exception):
    """A call has taken as long as it may; whoever runs it ends it, and does not know what it has done."""


class Parties:
    """Everything there is, for one history."""

    def __init__(self, url: str, directory: Path) -> None:
        """Take an empty store's URL, and a directory that holds the keys."""
        self._url = url
        self._stack = ExitStack()
        self.at = START
        self.approvers = {url: Approver(url, self.now, consumes=url == PROVIDERS[0]) for url in PROVIDERS}
        self.reference = Reference(self.approvers, self.now)
        self.observer = Observer(url)
        self.listener = Listener()
        self.jobs: list[Job] = []
        self.step = Step(self.at)
        self.receiver_key = ensure_key(directory / "receiver.key")
        self.worker_key = ensure_key(directory / "worker.key")
        self.tools = {found.name: found for found in self._make_tools()}

    def now(self) -> int:
        """Every clock of this world, µs."""
        return self.at

    async def open(self) -> None:
        """Start every party."""
        self._stack.enter_context(patch.object(clock, "now", self.now))
        monotonic = SimpleNamespace(monotonic=lambda: self.at / SECOND)
        for module in ("wakegate_schema.calls.claiming", "wakegate_worker.resumption"):
            self._stack.enter_context(patch(f"{module}.time", monotonic))
        silence = functools.partial(Silence, monotonic=monotonic.monotonic)
        self._stack.enter_context(patch("wakegate_worker.probing.Silence", silence))
        self._stack.enter_context(patch("wakegate_receiver.keyring.REFRESH_INTERVAL_S", 0.0))
        for module in ("wakegate_worker.handling", "wakegate_worker.recording"):
            self._stack.enter_context(patch(f"{module}.delay_s", lambda *_, **__: 0.0))  # a store's pauses are real
        self.stores: dict[str, Store] = {}
        self.lines: dict[str, Writer] = {}
        for name in ("receiver", "a", "b", "desk"):
            self.stores[name], self.lines[name] = await self._open_store()
        self.desk = self.stores["desk"]
        self.door = Door(self.stores["receiver"], self.receiver_key, self.now)
        self.workers = {name: self._worker(name, 1) for name in ("a", "b")}
        self._lives = dict.fromkeys(self.workers, 1)

    async def _open_store(self) -> tuple[Store, Writer]:
        """Open the store as a process does, with a line on which commits and answers can be lost."""
        lines: list[Writer] = []

        def line(*args: Any, **options: Any) -> Writer:
            lines.append(Writer(*args, **options))
            return lines[0]

        opening = f"wakegate_schema.store.{self._url.partition(':')[0]}.opening"
        with patch(f"{opening}.GroupCommit", line), patch(f"{opening}.Reader", BlindReader):
            return await open_store(self._url, mode="use"), lines[0]

    async def close(self) -> None:
        """End everything."""
        tasks = [job.task for job in self.jobs if job.task is not None]
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in (*tasks, *others):
            task.cancel()
        await asyncio.gather(*tasks, *others, return_exceptions=True)
        await self.door.close()
        for store in self.stores.values():
            await store.close()
        self.observer.close()
        self._stack.close()

    # Who there is

    def _worker(self, name: str, life: int) -> Parts:
        owner = f"{name}{life}"
        store = self.stores[name]
        return Parts(owner, store, self.tools, self.worker_key, self.approvers, self.listener, self.now)

    def restart(self, name: str) -> None:
        """A worker's process dies, with all it did, and another begins."""
        for job in self.jobs:
            job.dead = job.dead or job.process == self.workers[name].name
        self._lives[name] += 1
        self.workers[name] = self._worker(name, self._lives[name])

    async def open_instance(self, provider: str, instance_id: str) -> bool:
        """Provision an instance as the console does: expect it, be challenged, store the credential."""
        instance = (provider, instance_id)
        signer = await self.expect(instance, promised=False)
        delivery = Sender(signer.secret, instance_id).verification(signer.registration_id, at=self.at / SECOND)
        if await self.door.post(delivery) != 200:
            return False
        record = InstanceRecord(
            provider, instance_id, f"{provider} {instance_id}", "active", None, "webhook",
            self.credential(instance), None, self.at,
        )  # fmt: skip
        await self.desk.add_instance(record, signer.registration_id)
        self.reference.signers.append(signer)
        return True

    async def expect(self, instance: Instance, *, promised: bool) -> Signer:
        """Save a registration that its provider has not verified yet."""
        provider, instance_id = instance
        secret, registration_id = SigningSecret.generate(), ids.new()
        sealed = seal_signing_secret(
            self.receiver_key, provider=provider, registration_id=registration_id, secret=secret
        )
        await self.desk.add_registration(
            Registration(
                registration_id, provider, registration_id, "expected", sealed, None, None,
                instance_id if promised else None, self.at, self.at + HOUR, replacing=promised,
            )
        )  # fmt: skip
        return Signer(registration_id, instance, secret.reveal())

    def credential(self, instance: Instance) -> bytes:
        """A sealed credential, another each time."""
        provider, instance_id = instance
        return seal_credential(self.worker_key, provider=provider, instance_id=instance_id, token=ids.new())

    # What calls do

    def _make_tools(self) -> list[Tool]:
        async def happened(attempt: Attempt) -> bool:
            return self.reference.calls[attempt.execution_id].effects > 0

        @tool(name="refund", timeout=TOOL_S, probe=happened)
        async def refund(attempt: Attempt, amount: int, kind: str) -> None:
            await self.run(attempt.execution_id, attempt.saved_arguments)

        @tool(name="note", timeout=TOOL_S)
        async def note(attempt: Attempt, amount: int, kind: str) -> None:
            await self.run(attempt.execution_id, attempt.saved_arguments)

        return [found for function in (refund, note) if (found := tool_of(function)) is not None]

    async def run(self, execution_id: str, arguments: bytes | None) -> None:
        """Do what a call does: nothing and say so, or something, and perhaps fail afterwards."""
        call = self.reference.calls[execution_id]
        self.reference.begins(execution_id, arguments)
        call.word = "unknown"
        await stop("tool begins")
        if self.at > call.begun[0] + TOOL_S * SECOND:
            raise TooLong
        if call.kind == "fails":
            call.word = "failed"
            raise ToolFailed("declined")
        self.reference.effect(execution_id)
        await stop("tool ends")
        if call.kind == "breaks":
            raise ConnectionResetError
        if self.at > call.begun[0] + TOOL_S * SECOND:
            raise TooLong
        call.word = "returned"

    async def claim(self, execution_id: str, claim_id: str) -> str | None:
        """Claim a call, run it and say how it ended, as a harness does; return why not."""
        grants = Grants(StoreCalls(self.desk, lease=LEASE_S, patience=0.0), 0.0)
        taken = await grants.take(execution_id, claim_id)
        if taken.grant is None:
            return taken.refusal
        outcome = await self._outcome(execution_id, taken.arguments_json)
        await grants.finish(taken.grant, outcome)
        self.reference.calls[execution_id].told = True
        return None

    async def _outcome(self, execution_id: str, arguments: bytes | None) -> Outcome:
        try:
            await self.run(execution_id, arguments)
        except ToolFailed as error:
            return failed(error)
        except (ConnectionResetError, TooLong):
            return in_doubt("it broke off")
        return succeeded(None)
