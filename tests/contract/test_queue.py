"""The queue on a real Redis: hints come through, few for many rings, and whatever Redis does nobody waits for it."""

import asyncio
import pickle
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis
import rq
from rq.command import send_kill_horse_command, send_shutdown_command

from support.certificates import certificate
from support.hints import Line, line
from support.servers import RedisServer, Sentinel
from wakegate_console.doctor.redis_look import look_at_queue
from wakegate_schema.errors import WakegateError
from wakegate_schema.queue import QueueLocation, open_ringer, pools
from wakegate_schema.queue.job import HINT_TTL_S
from wakegate_worker.hints import listener as listening

JOB, QUEUE = "rq:job:wakegate-default", "rq:queue:wakegate-default"


async def heard(at: Line, hints: int = 1) -> None:
    """Wait for so many hints in all."""
    async with asyncio.timeout(30):
        while at.hints < hints:
            await asyncio.sleep(0.01)


def client_of(url: str) -> redis.Redis:
    return redis.Redis.from_url(url)


async def test_a_ring_comes_through_soon_and_leaves_nothing_behind(queue_url: str) -> None:
    async with line(queue_url) as at:
        took = [await at.ring() for _ in range(30)]
        assert sorted(took)[15] < 0.1
        with client_of(queue_url) as client:
            assert {key.decode() for key in client.scan_iter("*wakegate-default*")} == {"rq:workers:wakegate-default"}
            (worker,) = rq.Worker.all(client)
            assert worker.queue_names() == ["wakegate-default"]
    with client_of(queue_url) as client:
        assert rq.Worker.all(client) == []


async def test_many_rings_are_few_hints_and_the_last_one_is_heard(queue_url: str) -> None:
    async with line(queue_url) as at:
        await at.ring()
        began, before = time.monotonic(), at.state
        for _ in range(5000):
            at.ringer.ring()
            await asyncio.sleep(0)
        lasted = time.monotonic() - began
        await at.ring()
        sent = at.state.sent + at.state.merged - before.sent - before.merged
        assert sent <= 4 + lasted / 0.005
        assert sent < 2500


async def test_a_ring_while_a_hint_is_told_makes_a_hint_of_its_own(queue_url: str) -> None:
    """The id is free before anybody looks: nothing that is committed meanwhile is taken for what the hint says."""
    async with line(queue_url) as at:
        await at.ring()
        before = at.state
        tell = at.told

        def told_and_rung() -> None:
            tell()
            at.ringer.ring()

        at.on_hint = told_and_rung
        at.ringer.ring()
        await heard(at, 100)
        assert at.state.merged == before.merged


async def test_hints_that_nobody_takes_are_one_and_stay_bounded(queue_url: str) -> None:
    async with line(queue_url) as at:
        await at.ring()
        at.listener.ask(False)
        await asyncio.sleep(listening.BLOCK_S + 0.2)
        at.hints = 0
        with client_of(queue_url) as client:
            for _ in range(12):
                sent = at.state.sent
                client.delete(JOB)  # as if its time were over
                at.ringer.ring()
                while at.state.sent == sent:
                    await asyncio.sleep(0.005)
            at.ringer.ring()
            while not at.state.merged:
                await asyncio.sleep(0.005)
            assert client.llen(QUEUE) == 8
            assert 0 < client.ttl(QUEUE) <= 60
            assert at.hints == 0
            at.listener.ask(True)
            await heard(at)
            assert client.llen(QUEUE) == 0
        assert at.hints == 1


async def test_a_hint_that_died_with_its_worker_stands_in_the_way_for_five_seconds_at_most(queue_url: str) -> None:
    """Taken from the queue by a worker that was killed before it could give the id free; RQ gave it no end."""
    async with line(queue_url) as at:
        await at.ring()
        with client_of(queue_url) as client:
            client.hset(JOB, mapping=fields(data=b"[]"))
        began = time.monotonic()
        await at.ring_until_heard()
        assert 1 < time.monotonic() - began < HINT_TTL_S + 2


async def test_two_pools_hear_their_own_hints(queue_url: str) -> None:
    async with line(queue_url) as one, line(queue_url, pool="gpu") as two:
        await one.ring()
        assert (one.hints, two.hints) == (1, 0)
        await two.ring()
        assert (one.hints, two.hints) == (1, 1)
        one.ringer.follow(both)
        await one.ring()
        await heard(two, 2)


async def both() -> frozenset[str]:
    return frozenset({"default", "gpu"})


async def test_while_nobody_says_which_pools_live_the_last_known_are_rung(
    queue_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "ASK_EVERY_S", 0.0)

    async def unknown() -> frozenset[str]:
        raise WakegateError

    async def none() -> frozenset[str]:
        return frozenset()

    async with line(queue_url) as one, line(queue_url, pool="gpu") as two:
        for said, heard_by_two in ((unknown, 0), (both, 1), (unknown, 2), (none, 2)):
            one.ringer.follow(said)
            await one.ring()
            await heard(two, heard_by_two)
            assert two.hints == heard_by_two


async def test_whoever_does_not_ask_leaves_hints_to_others(queue_url: str) -> None:
    async with line(queue_url) as full, line(queue_url) as idle:
        full.listener.ask(False)
        await asyncio.sleep(listening.BLOCK_S + 0.2)
        for _ in range(10):
            await idle.ring()
        assert full.hints == 0


async def test_a_ring_before_the_end_still_goes_out(queue_url: str) -> None:
    """As a command does: it commits, rings, closes and is gone."""
    async with line(queue_url) as at:
        ringer = open_ringer(QueueLocation(queue_url))
        ringer.ring()
        await ringer.close()
        await heard(at)


CALLED: list[str] = []


def callback(*_: Any) -> None:
    """What no job may reach."""
    CALLED.append("callback")


class Bomb:
    """A pickle that would call when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return callback, ()


def fields(**more: str | bytes) -> Mapping[Any, str | bytes]:
    return {"status": "queued", "origin": "wakegate-default", "created_at": "2026-11-30T00:00:00.000000Z", **more}


HOSTILE: dict[str, Callable[[redis.Redis], None]] = {
    "pickled with our id": lambda client: plant(client, data=zlib.compress(pickle.dumps(Bomb()))),
    "names a function": lambda client: plant(client, data=b'["test_queue.callback", null, [], {}]'),
    "not JSON": lambda client: plant(client, data=b"\xff\x00{"),
    "huge": lambda client: plant(client, data=b"9" * 5_000_000),
    "callbacks, repeats and retries": lambda client: plant(
        client,
        data=b'["wakegate.look", null, ["default"], {}]',
        success_callback_name="test_queue.callback",
        failure_callback_name="test_queue.callback",
        stopped_callback_name="test_queue.callback",
        repeats_left="9",
        repeat_intervals="[0]",
        retries_left="9",
        dependency_ids='["other"]',
        webhooks='[{"url": "http://127.0.0.1:9/"}]',
        group_id="g",
        rate_limit_key="k",
        result_ttl="-1",
    ),
    "abandoned, with a callback": lambda client: abandon(client),
    "another job": lambda client: enqueue_other(client),
    "an id that is no text": lambda client: push(client, b"\xff\xfe"),
    "an id of another pool": lambda client: push(client, b"wakegate-gpu"),
    "a huge id": lambda client: push(client, b"x" * 5_000_000),
    "an id with a path": lambda client: push(client, b"../../etc/passwd:*"),
}


def plant(client: redis.Redis, **more: str | bytes) -> None:
    client.hset(JOB, mapping=fields(**more))
    client.rpush(QUEUE, "wakegate-default")


def push(client: redis.Redis, what: bytes) -> None:
    client.rpush(QUEUE, what)


def abandon(client: redis.Redis) -> None:
    """What RQ's own maintenance would call."""
    data = b'["wakegate.look", null, [], {}]'
    client.hset("rq:job:dead", mapping=fields(data=data, status="started", failure_callback_name="test_queue.callback"))
    client.zadd("rq:wip:wakegate-default", {"dead:1": 1})
    push(client, b"dead")


def enqueue_other(client: redis.Redis) -> None:
    """With RQ's default serializer, which is pickle."""
    rq.Queue("wakegate-default", connection=client).enqueue(callback, Bomb())


async def test_what_others_put_into_redis_makes_a_worker_look_at_most(queue_url: str) -> None:
    CALLED.clear()
    async with line(queue_url) as at:
        await at.ring()
        with client_of(queue_url) as client:
            for name, do in HOSTILE.items():
                await asyncio.to_thread(do, client)
                await at.ring_until_heard()
                async with asyncio.timeout(10):
                    while client.llen(QUEUE):
                        await asyncio.sleep(0.01)
                assert CALLED == [], name
    assert CALLED == []


async def test_commands_of_rq_are_not_listened_to(queue_url: str) -> None:
    """A shutdown would send this process SIGINT; a suspension would keep hints from every worker."""
    async with line(queue_url) as at:
        await at.ring()
        with client_of(queue_url) as client:
            (worker,) = rq.Worker.all(client)
            send_shutdown_command(client, worker.name)
            send_kill_horse_command(client, worker.name)
            client.publish(f"rq:pubsub:{worker.name}", b"\xff not json")
            client.set("rq:suspended", 1)
        await at.ring()
        await at.ring()


async def test_a_key_of_another_kind_stops_nobody(queue_url: str) -> None:
    async with line(queue_url) as at:
        await at.ring()
        with client_of(queue_url) as client:
            client.set(QUEUE, "not a list")
            at.ringer.ring()
            while not at.state.failures:
                await asyncio.sleep(0.01)
            assert at.state.failures.keys() == {"redis_failed"}
            client.delete(QUEUE)
        await at.ring_until_heard()


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


Act = Callable[[RedisServer], None]
TROUBLES: list[tuple[Act, Act, str]] = [
    (RedisServer.kill, RedisServer.start, "redis_unreachable"),
    (RedisServer.pause, RedisServer.resume, "redis_timeout"),
    (
        lambda server: server.configure(maxmemory="1", maxmemory_policy="noeviction"),
        lambda server: server.configure(maxmemory="0"),
        "redis_full",
    ),
]


@pytest.mark.parametrize(("begin", "end", "reason"), TROUBLES, ids=["killed", "paused", "full"])
async def test_nobody_waits_for_a_redis_in_trouble_and_it_is_found_again(
    own_server: RedisServer, begin: Act, end: Act, reason: str
) -> None:
    async with line(own_server.url()) as at:
        await at.ring()
        begin(own_server)
        longest = 0.0
        async with asyncio.timeout(30):
            while not at.state.failures:
                began = time.monotonic()
                at.ringer.ring()
                longest = max(longest, time.monotonic() - began)
                await asyncio.sleep(0.001)
        assert longest < 0.5
        assert at.state.failures.keys() == {reason}
        assert not at.state.reachable
        end(own_server)
        await at.ring_until_heard()
        async with asyncio.timeout(10):
            while not at.state.reachable:
                await asyncio.sleep(0.01)


async def test_what_redis_forgot_is_made_anew(own_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "ANNOUNCE_S", 0.1)
    async with line(own_server.url()) as at:
        await at.ring()
        own_server.flush()
        await at.ring_until_heard()
        with own_server.client() as client:
            async with asyncio.timeout(10):
                while len(rq.Worker.all(client)) != 1:
                    await asyncio.sleep(0.05)


async def test_both_begin_while_redis_is_down(own_server: RedisServer) -> None:
    own_server.kill()
    async with line(own_server.url()) as at:
        at.ringer.ring()
        async with asyncio.timeout(10):
            while not at.state.failures:
                await asyncio.sleep(0.01)
        own_server.start()
        await heard(at)


async def test_ending_waits_for_no_redis(own_server: RedisServer) -> None:
    async with line(own_server.url()) as at:
        await at.ring()
        own_server.pause()
        at.ringer.ring()
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await at.listener.close()
        await at.ringer.close()
        assert time.monotonic() - began < 5
    own_server.resume()


def secret(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "redis.password"
    path.write_text(text + "\n")
    path.chmod(0o600)
    return path


RULES = (
    "~rq:* &none -@all +ping +info +select +sadd +srem +smembers +llen +evalsha +eval +script|load +exists +hset"
    " +expire +ttl +rpush +ltrim +lrem +del +blpop +multi +exec"
)


async def test_a_user_needs_its_password_and_few_rights(tmp_path: Path) -> None:
    """The rules are those of docs/queue.md."""
    page = (Path(__file__).parents[2] / "docs" / "queue.md").read_text(encoding="utf-8")
    for rule in RULES.split():
        assert rule in page, rule
    users = [f"wakegate on >s3cret {RULES}", f"frugal on >s3cret {RULES.replace('+smembers', '')}"]
    with RedisServer(listen="127.0.0.1", password="admins", users=users) as server:
        url = server.tcp_url().replace("redis://", "redis://wakegate@")
        async with line(url, secret(tmp_path, "s3cret")) as at:
            await at.ring()
            await at.ring()
            assert at.state.failures == {}
            looked = look_at_queue(url, secret(tmp_path, "s3cret"), "default")
            assert (looked.trouble, looked.pools["default"].listeners) == (None, 1)
            frugal = look_at_queue(url.replace("wakegate@", "frugal@"), secret(tmp_path, "s3cret"), "default")
            assert (frugal.trouble, frugal.pools) == (None, {}), "it does its work, and the doctor sees less"
        for user, password in (("wakegate@", "wr0ng"), ("", None)):
            file = None if password is None else secret(tmp_path, password)
            ringer = open_ringer(QueueLocation(server.tcp_url().replace("redis://", f"redis://{user}"), file))
            await failed_with(ringer, "redis_refused")


async def failed_with(ringer: Any, reason: str) -> None:
    ringer.ring()
    async with asyncio.timeout(10):
        while not ringer.state().failures:
            await asyncio.sleep(0.01)
    assert ringer.state().failures.keys() == {reason}
    await ringer.close()


async def test_a_node_of_a_cluster_is_refused_by_name() -> None:
    with RedisServer(settings={"cluster-enabled": "yes"}) as server:
        await failed_with(open_ringer(QueueLocation(server.url())), "redis_cluster")


@asynccontextmanager
async def behind_tls(server: RedisServer, chain: Path, key: Path) -> AsyncIterator[int]:
    """A port of 127.0.0.1 where the server speaks TLS: not every build of it can by itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(server.socket)
        await asyncio.gather(pass_on(reader, back), pass_on(there, writer))

    async with await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context) as listening:
        yield listening.sockets[0].getsockname()[1]


async def test_over_tls_the_server_proves_itself(redis_server: RedisServer, tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    async with behind_tls(redis_server, chain, key) as port:
        url = f"rediss://127.0.0.1:{port}/0"
        async with line(f"{url}?ssl_ca_certs={chain}", pool="tls") as at:
            await at.ring()
            await at.ring()
        await failed_with(open_ringer(QueueLocation(url)), "redis_tls")
        another_name = url.replace("127.0.0.1", "localhost")
        await failed_with(open_ringer(QueueLocation(f"{another_name}?ssl_ca_certs={chain}")), "redis_tls")
        async with line(f"{another_name}?ssl_ca_certs={chain}&ssl_check_hostname=false", pool="tls") as at:
            await at.ring()


async def test_sentinels_say_where_redis_is_before_and_after_a_failover() -> None:
    with RedisServer(listen="127.0.0.1") as first:
        replica = {"replicaof": f"127.0.0.1 {first.port}"}
        with RedisServer(listen="127.0.0.1", settings=replica), Sentinel(first) as sentinel:
            async with line(f"redis+sentinel://127.0.0.1:{sentinel.port}/{sentinel.name}/0") as at:
                await at.ring()
                await is_known(sentinel)
                first.kill()
                async with asyncio.timeout(60):
                    while sentinel.master() == ("127.0.0.1", first.port):
                        await asyncio.sleep(0.1)
                await at.ring_until_heard()
                assert at.state.reachable


async def is_known(sentinel: Sentinel) -> None:
    """Wait until the Sentinel knows the replica."""
    async with asyncio.timeout(60):
        with redis.Redis(port=sentinel.port) as client:
            while not client.sentinel_slaves(sentinel.name):
                await asyncio.sleep(0.1)
