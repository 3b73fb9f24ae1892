"""The doctor and whole installations: healthy ones give it nothing to remark, and it leaves them as they were."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import web

from support import worker_tools
from support.clinic import Diagnosis, diagnose, listing, plant, read
from support.console import Console, Ran, run
from support.http_servers import http_server
from support.installed import Installed, installed
from support.loaded_site import Loaded, service
from support.machine import WAKEGATE
from support.ports import free_ports
from support.rooms import on_disk
from support.workers import eventually
from wakegate_console import layout
from wakegate_console.doctor.probing import load
from wakegate_schema.keys import load_key
from wakegate_schema.sealing import unseal_credential
from wakegate_schema.store import open_store

PATIENCE_S = 180.0
"""How long the doctor may take on a machine that has other things to do."""
NOTED = {"keys.separate", "clock.synchronised", "instances.credentials"}
"""What docs/doctor.md says may be noted of an installation that is well, for development on one user."""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that the doctor has nothing to say of."""
    with on_disk() as folder:
        yield folder


async def test_a_healthy_installation_gives_nothing_to_remark_and_no_secret_away(tmp_path: Path) -> None:
    receiver, provider = free_ports(2)
    site = Loaded(tmp_path, receiver, provider)
    (tmp_path / "policy.toml").write_text('[[rule]]\ntool = "*"\ndecision = "approve"\n')
    async with AsyncExitStack() as running:
        await running.enter_async_context(service(site, "provider"))
        await running.enter_async_context(service(site, "up"))
        assert await site.provision("desk") == 0, (tmp_path / "commands.log").read_text()
        await eventually(lambda: "ready" in (tmp_path / "up.log").read_text(), 60)
        before = set(listing(tmp_path))
        settings = site.settings | {"PYTHONPATH": str(Path(__file__).parents[1])}
        del settings[worker_tools.VARIABLE]  # which only tests set, and the doctor would say so
        said = read(await asyncio.to_thread(run, tmp_path, "doctor", "--json", settings=settings, timeout=PATIENCE_S))
        assert said.worse_than("note") == []
        assert {check for check, _, _ in said.worse_than("ok")} <= NOTED
        assert said.one("url.delivery").verdict == said.one("provider.credential").verdict == "ok"
        assert said.one("store.receiver").verdict == said.one("store.worker").verdict == "ok"
        table = await asyncio.to_thread(run, tmp_path, "doctor", settings=settings, timeout=PATIENCE_S)
        assert (table.code, table.out.rstrip().rpartition("\n")[2]) == (0, _counted(said))
        assert set(listing(tmp_path)) == before
    secrets = await _secrets(site)
    after = await asyncio.to_thread(run, tmp_path, "doctor", settings=settings, timeout=PATIENCE_S)
    assert after.code == 1
    for ran in (said.ran, table, after):
        assert [secret for secret in secrets if secret in ran.out + ran.err] == []


def _counted(said: Diagnosis) -> str:
    notes = sum(each.verdict == "note" for found in said.found.values() for each in found)
    return f"{notes} note{'' if notes == 1 else 's'}"


async def _secrets(site: Loaded) -> set[str]:
    """Every secret of the installation, as text."""
    files = ("receiver.key", "worker.key", "provider.key", "wake.secret", "provisioner.token")
    found = {line for name in files for line in (site.folder / name).read_text().split()}
    async with await open_store(site.database, mode="read") as store:
        (registration,), (instance,) = await store.registrations(), await store.instances()
    secret = site.secret(registration)
    credential = unseal_credential(
        load_key(site.folder / "worker.key"), instance.sealed_credential or b"", provider=instance.provider,
        instance_id=instance.instance_id,
    )  # fmt: skip
    assert len(found) == len(files)
    return found | {secret.reveal(), secret.reveal()[6:-1], secret.key.hex(), credential.token.reveal()}


async def test_a_provider_and_a_url_that_hang_hold_nothing_else_up(console: Console) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async with http_server(hang) as served:
        await plant(console, provider=served.url, url=f"{served.url}/aap/events")
        began = time.monotonic()
        said = await diagnose(console)
    assert time.monotonic() - began < 45
    assert "no whole answer came in time" in said.of("provider.reach", "problem")
    assert "no whole answer came in time" in said.of("url.delivery", "problem")
    assert said.one("store.integrity").verdict == "ok"


async def test_tools_whose_import_never_ends_are_a_problem_and_their_process_is_ended(tmp_path: Path) -> None:
    noting = f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))"
    (tmp_path / "endless.py").write_text(f"import os, pathlib, time\n{noting}\ntime.sleep(600)\n")
    found = await load(["endless"], folder=tmp_path, limit_s=5.0)
    assert found.problem == "importing them took longer than 5 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.fixture(scope="module")
def site() -> Iterator[Installed]:
    """A deployment, as root has made it, whose two services run as two users."""
    with installed() as made:
        yield made


def examined(site: Installed) -> Diagnosis:
    """Run the doctor there, as root."""
    done = site.machine.run(WAKEGATE, "--config", str(layout.SETTINGS), "doctor", "--json")
    return read(Ran(done.returncode, done.stdout, done.stderr))


def test_a_deployment_of_two_users_gives_root_nothing_to_remark(site: Installed) -> None:
    before = listing(site.machine.outside(layout.ETC))
    said = examined(site)
    assert said.worse_than("note") == []
    assert {check for check, _, _ in said.worse_than("ok")} <= (NOTED | {"users.me"}) - {"keys.separate"}
    assert "is as `wakegate init --system` makes it" in said.of("users.layout", "ok")
    assert "imported as wakegate-worker" in said.of("settings.tools", "ok")
    assert said.one("url.delivery").verdict == "ok"
    assert listing(site.machine.outside(layout.ETC)) == before


@pytest.mark.parametrize("party", ["receiver", "worker", "stranger"])
def test_another_user_hears_what_it_may_not_see_and_no_secret(site: Installed, party: str) -> None:
    who = getattr(site, party)
    done = site.machine.run(WAKEGATE, "--config", str(layout.SETTINGS), "doctor", "--json", who=who)
    assert "Traceback" not in done.stderr
    findings = json.loads(done.stdout)
    assert not any("the check itself failed" in each["what"] for each in findings)
    if party == "stranger":
        assert done.returncode == 2
        assert "cannot be read" in findings[0]["what"]


def test_what_differs_from_the_layout_is_warned_of(site: Installed) -> None:
    folder = site.machine.outside(layout.STATE)
    try:
        folder.chmod(0o770)
        said = examined(site)
    finally:
        folder.chmod(0o2770)
    assert f"{layout.STATE} is wakegate-receiver:wakegate, mode 0770" in said.of("users.layout", "warning")
    assert "chmod g+s" in said.of("users.folder", "warning")
