"""wakegate as a waker: receiver and worker as processes of their own on one store."""

import asyncio
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Final

from frameworks.support.harness import HARNESSES
from frameworks.support.programs import PATIENCE_S, Programs, end
from frameworks.support.waker import At, Instance
from support import warm
from support.ports import lasting_port
from support.processes import clean_environment
from wakegate_console.keys_in_use import both_keys
from wakegate_console.provisioning import Order, provision
from wakegate_console.waiting import Wait
from wakegate_schema import clock
from wakegate_schema.sealing import unseal_credential
from wakegate_schema.secret_files import load_bearer_token
from wakegate_schema.settings import Settings
from wakegate_schema.store import open_store

MODULE: Final = "agents"
TESTS: Final = Path(__file__).parents[2]
_SOURCE: Final = """\
import sys

sys.path.append({tests!r})

from {module} import resumer
"""


class Wakegate:
    """A waker that keeps what it acknowledges."""

    NAME = "wakegate"

    def __init__(self, programs: Programs, provider: At) -> None:
        self._programs, self._provider = programs, provider
        self._port = lasting_port()
        self._processes: list[Process] = []
        self._instance: Instance | None = None
        source = _SOURCE.format(tests=str(TESTS), module=HARNESSES[programs.framework].module)
        (programs.folder / f"{MODULE}.py").write_text(source)
        self._folder = programs.folder / "wakegate"
        self._folder.mkdir()
        self._settings = Settings.model_validate(
            {"database": f"sqlite:///{self._folder}/wakegate.db", "control": str(self._folder / "c.sock")}
        )

    async def begin(self) -> Instance:
        """Run both; the first time, provision."""
        receiver = await self._start("receiver", stdout=PIPE)
        assert receiver.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            assert await receiver.stdout.readline(), self.log
        if self._instance is None:
            self._instance = await self._provision()
        await self._start("worker")
        return self._instance

    async def kill(self) -> None:
        """Kill both."""
        while self._processes:
            await end(self._processes.pop())

    async def fell(self) -> None:
        """Do nothing: what was killed is a child of the worker's."""

    async def woken(self, request_id: str) -> None:
        """Wait until a run for this request is over."""
        assert self._instance is not None
        async with await open_store(self._settings.store, mode="read") as store, asyncio.timeout(PATIENCE_S):
            while True:
                found = await store.adoption(self._provider.url, self._instance.instance_id, request_id)
                if found is not None and found.last_end is not None:
                    return
                await asyncio.sleep(0.1)

    async def idle(self) -> bool:
        """Whether all that it was told is adopted, and over."""
        assert self._instance is not None
        async with await open_store(self._settings.store, mode="read") as store:
            found = await store.latest_adoptions(None, 100)
        told = self._provider.notified(self._instance.instance_id)
        return len(found) == told and all(adoption.state == "ended" for _, adoption in found)

    @property
    def log(self) -> str:
        """What both have logged."""
        return (self._folder / "log").read_text()

    async def _start(self, program: str, stdout: int | None = None) -> Process:
        environment = clean_environment() | {
            "PYTHONPATH": str(TESTS),
            "WAKEGATE_DATABASE": self._settings.database,
            "WAKEGATE_LISTEN": f"127.0.0.1:{self._port}",
            "WAKEGATE_CONTROL": str(self._settings.control_address),
            "WAKEGATE_RESUMERS": f"{self._programs.framework}={MODULE}:resumer",
            "WAKEGATE_RESUMERS_DIRECTORY": str(self._programs.folder),
        }
        with (self._folder / "log").open("ab") as log:
            process = await warm.start(program, env=environment, cwd=self._folder, stdout=stdout, stderr=log)
        self._processes.append(process)
        return process

    async def _provision(self) -> Instance:
        """Provision an instance as `wakegate instance provision` does, and return it with its credential."""
        order = Order(
            provider=self._provider.url,
            url=f"http://127.0.0.1:{self._port}/aap/events",
            name="desk",
            store=self._settings.store.name,
        )
        token = load_bearer_token(self._provider.token_file, "the provisioner token")
        async with (
            await open_store(self._settings.store, mode="service") as store,
            both_keys(self._settings, store) as keys,
        ):
            made = await provision(store, keys, order, token, clock.now(), Wait(PATIENCE_S, lambda _: None))
            sealed = made.instance.sealed_credential
            assert sealed is not None
            instance_id = made.instance.instance_id
            credential = unseal_credential(keys.worker, sealed, provider=order.provider, instance_id=instance_id)
            return Instance(instance_id, credential.token.reveal())
