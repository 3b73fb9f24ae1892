"""Who holds what: the receiver works without the worker's key, the worker without the receiver's, and neither opens
what is sealed for the other.
"""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.console import command, environment, run
from support.ports import free_port
from wakegate_adapter import Adapter, Call
from wakegate_schema.keys import ensure_key, load_key
from wakegate_schema.sealing import CannotUnseal, unseal_credential, unseal_signing_secret
from wakegate_schema.states import State
from wakegate_schema.store import open_store

TOOLS = """
from wakegate_worker import Attempt, tool

@tool(version="1", timeout=5)
async def issue_refund(attempt: Attempt, amount: int) -> int:
    return amount
"""


class Site:
    """A folder with provider, receiver and worker, each with only the key that is its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.receiver_key, self.worker_key = folder / "receiver.key", folder / "worker.key"
        self.nowhere = folder / "nowhere" / "other.key"
        listen, provider = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.url, self.provider_url = f"http://{listen}/aap/events", f"http://{provider}"
        self.common = {"WAKEGATE_LISTEN": listen, "WAKEGATE_PROVIDER_LISTEN": provider, "WAKEGATE_TOOLS": "my_tools"}
        (folder / "my_tools.py").write_text(TOOLS)
        (folder / "policy.toml").write_text('[[rule]]\ntool = "*"\ndecision = "approve"\n')

    def settings(self, receiver_key: Path, worker_key: Path) -> dict[str, str]:
        """Settings with these two keys."""
        keys = {"WAKEGATE_RECEIVER_KEY_FILE": str(receiver_key), "WAKEGATE_WORKER_KEY_FILE": str(worker_key)}
        return self.common | keys | {"WAKEGATE_PROVIDER_POLICY_FILE": str(self.folder / "policy.toml")}

    def start(self, name: str, settings: dict[str, str]) -> "subprocess.Popen[bytes]":
        """Start one service."""
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                command(name), cwd=self.folder, env=environment(self.folder, **settings), stdout=log, stderr=log
            )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """The three services running, and an instance provisioned."""
    site = Site(tmp_path)
    made = run(tmp_path, "db", "migrate")
    assert made.code == 0, made.err
    for path in (site.receiver_key, site.worker_key):
        ensure_key(path)
    with ExitStack() as running:
        for name, settings in {
            "provider": site.settings(site.nowhere, site.nowhere.with_name("another.key")),
            "receiver": site.settings(site.receiver_key, site.nowhere),
            "worker": site.settings(site.nowhere, site.worker_key),
        }.items():
            process = site.start(name, settings)
            running.callback(process.wait, 30)
            running.callback(process.terminate)
        token = str(tmp_path / "provisioner.token")
        where = ("--provider-url", site.provider_url, "--provisioner-token-file", token, "--url", site.url)
        provisioned = run(
            tmp_path, "instance", "provision", *where, "--name", "desk",
            settings=site.settings(site.receiver_key, site.worker_key),
        )  # fmt: skip
        assert provisioned.code == 0, provisioned.err
        yield site


async def test_neither_service_needs_or_opens_what_is_sealed_for_the_other(site: Site) -> None:
    url = f"sqlite:///{site.folder}/wakegate.db"
    async with await Adapter.open(url) as adapter:
        ticket = await adapter.suspend(Call("issue_refund", {"amount": 49}))
        resolution = await adapter.wait(ticket.execution_id, timeout=20)
    assert (resolution.state, resolution.result) == (State.SUCCEEDED, 49)
    assert not site.nowhere.parent.exists(), "somebody made a key that is not its own"
    receivers, workers = load_key(site.receiver_key), load_key(site.worker_key)
    async with await open_store(url, mode="read") as store:
        (registration,), (instance,) = await store.registrations(), await store.instances()
        async with asyncio.timeout(20):  # the receiver's part comes when the provider delivers
            while [notification.state for _, notification in await store.notifications()] != ["handled"]:
                await asyncio.sleep(0.05)
    name = {"provider": registration.provider, "registration_id": registration.registration_id}
    bearer = {"provider": instance.provider, "instance_id": instance.instance_id}
    credential = instance.sealed_credential or b""
    unseal_signing_secret(receivers, registration.sealed_secret, **name)
    unseal_credential(workers, credential, **bearer)
    with pytest.raises(CannotUnseal):
        unseal_signing_secret(workers, registration.sealed_secret, **name)
    with pytest.raises(CannotUnseal):
        unseal_credential(receivers, credential, **bearer)
