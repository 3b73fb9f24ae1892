"""The example of four receivers and eight workers, as far as it runs without an engine: fewer workers, all else.

Notifications go through the load balancer while a receiver and a worker are killed, and at the end the database. Then
everything is counted: what was acknowledged is on record, what was saved ran once, and in the pool that has its tool.
"""

import asyncio
import json
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import aiohttp
from aiohttp import web

from support.aap_peer import Peer
from support.deliveries import Delivery, Sender, new_id
from support.desk import Desk
from support.hosts import Host
from support.machine import WAKEGATE
from support.scale import PROVIDER, Site, site
from wakegate_schema import clock
from wakegate_schema.keys import load_key
from wakegate_schema.records import Challenge, Execution
from wakegate_schema.sealing import seal_credential, seal_signing_secret
from wakegate_schema.signing import SigningSecret
from wakegate_schema.states import State
from wakegate_schema.store import Store, open_store

CALLS = 40
"""Of each tool."""
STRANGERS = 100
"""Notifications of requests that nobody saved."""
WORKERS = {"refunds": 2, "mail": 1}
"""Fewer than the file says: what is shown is the same."""
PATIENCE_S = 180.0
SETTINGS = "lease_seconds = 10\nworker_concurrency = 16\n"
TOOLS = {
    "refunds": ("issue_refund", "payment_id: str, amount: int"),
    "mail": ("send_letter", "to: str, text: str"),
}
ARGUMENTS = {
    "issue_refund": b'{"payment_id": "p-1", "amount": 49}',
    "send_letter": b'{"to": "a@example.com", "text": "it is paid back"}',
}
TOOL = """
from wakegate_worker import Attempt, tool

@tool(version="1", timeout=30)
async def {name}(attempt: Attempt, {parameters}) -> str:
    with open("/tmp/effects", "a") as file:
        file.write(f"{pool} {{attempt.execution_id}}\\n")
    return "done"
"""


@dataclass
class World:
    """A provider on a host of its own, and every event that it told of."""

    desk: Desk
    peer: Peer
    sender: Sender
    client: aiohttp.ClientSession
    url: str
    """Of the balancer."""
    acknowledged: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)

    async def decide(self) -> None:
        """Approve whatever comes in and tell of it, until every call is decided."""
        telling: set[asyncio.Task[None]] = set()
        while len(telling) < CALLS * len(TOOLS):
            for request in [each for each in self.peer.requests.values() if each["status"] == "pending"]:
                self.peer.approve(request)
                telling.add(asyncio.create_task(self.tell(request["id"])))
            await asyncio.sleep(0.02)
        await asyncio.gather(*telling)

    async def tell(self, request_id: str) -> None:
        """Deliver one event as a provider does: again, with the same id, until it is acknowledged."""
        delivery = self.sender.notification(request_id)
        async with asyncio.timeout(PATIENCE_S):
            while not await self._deliver(delivery):
                await asyncio.sleep(0.3)
        self.acknowledged.add(delivery.headers["webhook-id"])

    async def _deliver(self, delivery: Delivery) -> bool:
        try:
            async with self.client.post(
                self.url, data=delivery.body, headers=delivery.headers, server_hostname=PROVIDER
            ) as answer:
                self.answers[str(answer.status)] += 1
                return answer.status == 204
        except (aiohttp.ClientError, TimeoutError) as error:
            self.answers[type(error).__name__] += 1
            return False


@asynccontextmanager
async def world(at: Site, store: Store) -> AsyncIterator[World]:
    """Serve a provider, and put an instance at it on record, sealed with the deployment's keys."""
    desk = Desk(store, f"https://{PROVIDER}")
    host, peer, secret = at.hosts[PROVIDER], Peer(), SigningSecret.generate()
    receiver, worker = (load_key(at.secret(f"{name}_key")) for name in ("receiver", "worker"))
    sealed = seal_signing_secret(
        receiver, provider=desk.provider, registration_id=desk.registration_id, secret=secret
    )  # fmt: skip
    await store.add_registration(replace(desk.registration(), sealed_secret=sealed))
    await store.bind(Challenge(desk.registration_id, desk.instance_id, clock.now()))
    token = seal_credential(worker, provider=desk.provider, instance_id=desk.instance_id, token="a-token")
    await store.add_instance(replace(desk.instance(), sealed_credential=token), desk.registration_id)
    connector = aiohttp.TCPConnector(
        ssl=ssl.create_default_context(cafile=at.folder / "tls.crt"), socket_factory=lambda info: host.socket(*info[:3])
    )
    async with _serving(peer, host, at), aiohttp.ClientSession(connector=connector) as client:
        url = f"https://{at.hosts['balancer'].address}:8443/aap/events"
        yield World(desk, peer, Sender(secret.reveal(), desk.instance_id), client, url)


@asynccontextmanager
async def _serving(peer: Peer, host: Host, at: Site) -> AsyncIterator[None]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(at.folder / "tls.crt", at.folder / "tls.key")
    listening = host.socket()
    listening.bind((host.address, 443))
    runner = web.ServerRunner(web.Server(peer.answer, access_log=None), shutdown_timeout=0.1)  # type: ignore[arg-type]
    await runner.setup()
    await web.SockSite(runner, listening, ssl_context=context).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def test_what_is_acknowledged_is_on_record_and_each_call_runs_once_in_the_pool_of_its_tool() -> None:
    texts = {pool: TOOL.format(name=name, parameters=given, pool=pool) for pool, (name, given) in TOOLS.items()}
    with site(WORKERS, settings=SETTINGS, tools=texts) as at:
        assert at.store is not None
        _judge_rights(at)
        async with await open_store(at.store, mode="use") as store, world(at, store) as there:
            calls = [
                await there.desk.save(tool=tool, arguments=arguments)
                for tool, arguments in ARGUMENTS.items()
                for _ in range(CALLS)
            ]
            telling = [asyncio.create_task(there.tell(new_id())) for _ in range(STRANGERS)]
            deciding = asyncio.create_task(there.decide())
            await _acknowledged(there, 40)
            at.kill("receiver-2")
            await _acknowledged(there, 80)
            at.kill("worker-refunds-1")
            await asyncio.gather(deciding, *telling)
            ended = [await _ended(at, store, call.execution_id) for call in calls]
            listed = await asyncio.to_thread(at.run, "operator", WAKEGATE, "instance", "list", "--json")
            assert [each["name"] for each in json.loads(listed)] == [there.desk.name]
            at.fail_over()
            await there.tell(new_id())
        async with await open_store(at.store, mode="read") as store:
            known = {each.event_id for _, each in await store.notifications(limit=1000)}
        assert len(there.acknowledged) == CALLS * len(TOOLS) + STRANGERS + 1
        assert there.acknowledged <= known
        broken_off = {"ClientOSError", "ServerDisconnectedError"}  # the balancer lets go of what it was asked
        assert set(there.answers) <= {"204", "502", "503"} | broken_off, there.answers
        _judge(at, ended)
        assert not [host for host in at.running if "redis_refused" in at.log(host)]
        codes = at.end()
        assert {code for host, code in codes.items() if host != "balancer"} == {0}, codes


def _judge_rights(at: Site) -> None:
    """A service changes rows, but neither the tables nor what they are guarded by."""
    assert at.primary is not None
    asked = "SELECT has_table_privilege('wakegate_worker', %s, %s)"
    may = {
        name: at.primary.ask(asked, name, "INSERT", database="wakegate") for name in ("execution", "arrow", "migration")
    }
    assert may == {"execution": True, "arrow": False, "migration": False}
    owners = "SELECT string_agg(DISTINCT tableowner, ' ') FROM pg_tables WHERE schemaname = 'public'"
    assert at.primary.ask(owners, database="wakegate") == "wakegate"


async def _acknowledged(there: World, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(there.acknowledged) < count:
            await asyncio.sleep(0.01)


async def _ended(at: Site, store: Store, execution_id: str) -> Execution:
    ends = time.monotonic() + PATIENCE_S
    while (found := await store.execution(execution_id)).state not in (State.SUCCEEDED, State.IN_DOUBT):
        assert time.monotonic() < ends, f"{found}\n" + "".join(at.log(host)[-1500:] for host in at.running)
        await asyncio.sleep(0.1)
    return found


def _judge(at: Site, ended: list[Execution]) -> None:
    """Count the effects: one for each call that succeeded, at most one for what a killed worker left in doubt."""
    lines = (at.machine.outside(at.volumes["scratch"]) / "effects").read_text().split()
    pools, effects = lines[::2], lines[1::2]
    assert len(effects) == len(set(effects))
    by_id = {each.execution_id: each for each in ended}
    assert {(pool, by_id[one].tool) for pool, one in zip(pools, effects, strict=True)} == {
        (pool, name) for pool, (name, _) in TOOLS.items()
    }
    assert {one for one, each in by_id.items() if each.state is State.SUCCEEDED} <= set(effects) <= set(by_id)
