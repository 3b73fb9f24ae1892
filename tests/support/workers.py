"""A refund desk with a real credential, and workers on it: in this process, or in others that can be killed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import warm, worker_tools
from support.desk import Desk, new_id
from support.processes import clean_environment
from wakegate_schema import clock
from wakegate_schema.keys import ensure_key
from wakegate_schema.records import Challenge, Delivery, Execution, Instance
from wakegate_schema.sealing import seal_credential
from wakegate_schema.settings import Settings
from wakegate_schema.states import RESOLVED, State
from wakegate_schema.store import Store
from wakegate_worker.service import running

TOKEN = "tok-PLANTED-secret-1234567890"
SETTLED = RESOLVED | {State.IN_DOUBT}


@dataclass
class WorkerDesk:
    """One instance at a provider, its store, and the file in which effects are counted."""

    store: Store
    directory: Path
    provider: str
    instance_id: str = field(default_factory=new_id)
    token: str = TOKEN
    name: str = "refund-desk"
    delivery: Delivery = "webhook"
    credential_expires_at: int | None = None

    def __post_init__(self) -> None:
        self.desk = Desk(self.store, self.provider, self.instance_id)

    async def open(self) -> "WorkerDesk":
        """Put the instance on record with its sealed credential, its registration verified if it has a webhook."""
        if self.delivery == "webhook":
            await self.store.add_registration(self.desk.registration())
            await self.store.bind(Challenge(self.desk.registration_id, self.instance_id, clock.now()))
        await self.store.add_instance(self.instance(), None)
        return self

    def instance(self) -> Instance:
        """The instance, its credential sealed with the worker's key."""
        sealed = self.sealed(self.token)
        now = clock.now()
        return Instance(
            self.provider,
            self.instance_id,
            self.name,
            "active",
            None,
            self.delivery,
            sealed,
            self.credential_expires_at,
            now,
        )

    def sealed(self, token: str) -> bytes:
        """A credential, sealed with the worker's key."""
        sealer = ensure_key(self.settings().worker_key_path)
        return seal_credential(sealer, provider=self.provider, instance_id=self.instance_id, token=token)

    def settings(self, **changes: Any) -> Settings:
        """A worker's settings."""
        values = {
            "database": f"sqlite:///{self.directory}/wakegate.db",
            "tools": ("support.worker_tools",),
            "lease_seconds": 2,
            "sweep_seconds": 0.05,
        }
        return Settings.model_validate(values | changes)

    @property
    def effects(self) -> list[str]:
        """The execution ids of the effects there were."""
        return worker_tools.effects(self.effects_path)

    @property
    def effects_path(self) -> Path:
        """Where effects are counted."""
        return self.directory / "effects"

    async def save(self, **changes: Any) -> Execution:
        """Save a call."""
        return await self.desk.save(**changes)

    async def notify(self, request_id: str, **changes: Any) -> None:
        """Record a verified notification, as the receiver does."""
        receipt = await self.store.record(self.desk.arrival(request_id, **changes))
        if receipt.kind not in ("saved", "discarded"):
            raise LookupError(receipt)

    async def until(self, execution_id: str, *states: State, seconds: float = 15) -> Execution:
        """Wait until the execution is in one of the states."""
        return await self.when(execution_id, lambda execution: execution.state in states, seconds)

    async def settled(self, execution_id: str, seconds: float = 15) -> Execution:
        """Wait until the execution is resolved, or in doubt."""
        return await self.until(execution_id, *SETTLED, seconds=seconds)

    async def when(self, execution_id: str, holds: Callable[[Execution], bool], seconds: float = 15) -> Execution:
        """Wait until something holds of the execution."""
        execution = await self.store.execution(execution_id)
        try:
            async with asyncio.timeout(seconds):
                while not holds(execution):
                    await asyncio.sleep(0.01)
                    execution = await self.store.execution(execution_id)
        except TimeoutError:
            raise AssertionError(f"still {execution}") from None
        return execution

    async def passed(self, execution_id: str) -> list[str]:
        """The states the execution has passed through."""
        return [str(change.to_state) for change in await self.store.transitions(execution_id)]

    @asynccontextmanager
    async def worker(self, **changes: Any) -> AsyncIterator[None]:
        """Run a worker in this loop."""
        os.environ[worker_tools.VARIABLE] = str(self.effects_path)
        async with running(self.settings(**changes)):
            yield

    @asynccontextmanager
    async def process(self, output: int | None = None, /, **changes: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a worker in a process of its own, logging to a file descriptor; killed at the end, if it still runs.

        A change to nothing leaves the variable unset.
        """
        kept = clean_environment()
        environment = kept | {
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "WAKEGATE_DATABASE": f"sqlite:///{self.directory}/wakegate.db",
            "WAKEGATE_TOOLS": "support.worker_tools",
            "WAKEGATE_LEASE_SECONDS": "2",
            "WAKEGATE_SWEEP_SECONDS": "0.05",
            worker_tools.VARIABLE: str(self.effects_path),
            **changes,
        }
        environment = {name: value for name, value in environment.items() if value}
        with (self.directory / f"worker-{new_id()}.log").open("wb") as file:
            to = output or file.fileno()
            process = await warm.start("worker", env=environment, cwd=self.directory, stderr=to, stdout=to)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
            await process.wait()

    @property
    def logs(self) -> str:
        """What all processes logged."""
        return "".join(path.read_text() for path in self.directory.glob("worker-*.log"))


async def eventually(holds: Callable[[], Awaitable[bool] | bool], seconds: float = 15) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while True:
            answer = holds()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.01)
