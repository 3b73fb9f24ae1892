"""Both units as `wakegate init --system` leaves them for a PostgreSQL and a Redis that are reached over TCP."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.servers import PostgresServer, RedisServer
from support.units import RECEIVER, WORKER, Manager, managed
from wakegate_console import layout

PASSWORD = "planted-password-30fe"


@pytest.fixture
def servers() -> Iterator[tuple[PostgresServer, RedisServer]]:
    """Servers on loopback that ask for a password."""
    with (
        PostgresServer(listen="127.0.0.1", password=PASSWORD) as postgres,
        RedisServer(listen="127.0.0.1", password=PASSWORD) as redis,
    ):
        yield postgres, redis


def set_up(manager: Manager, postgres: PostgresServer, redis: RedisServer) -> None:
    """Edit the settings, put the passwords beside the keys, and run init again, as docs/deployment.md says."""
    machine = manager.machine
    file = machine.outside(layout.SETTINGS)
    files = {name: layout.CREDENTIALS / f"{name}_password" for name in ("database", "queue")}
    for path in files.values():
        machine.outside(path).write_text(f"{PASSWORD}\n")
        machine.outside(path).chmod(0o600)
    named = {"database": postgres.tcp_url(), "queue": redis.tcp_url()} | {
        f"{name}_password_file": str(path) for name, path in files.items()
    }
    kept = [line for line in file.read_text().splitlines() if line.partition(" = ")[0] not in named]
    file.write_text("\n".join([*(f"{name} = {json.dumps(value)}" for name, value in named.items()), *kept]) + "\n")
    for line in (["init", "--system"], ["--config", str(layout.SETTINGS), "db", "migrate"]):
        done = machine.wakegate(*line)
        assert done.returncode == 0, done.stdout + done.stderr


async def test_both_units_reach_them_with_what_they_are_handed(servers: tuple[PostgresServer, RedisServer]) -> None:
    postgres, redis = servers
    with managed() as manager:
        set_up(manager, postgres, redis)
        with manager.sockets():
            async with manager.running(RECEIVER, activated=True) as receiver:
                reader, writer = await asyncio.open_connection(*manager.address)
                await receiver.until("READY=1")
                writer.close()
                networks = Path(f"/proc/{receiver.process.pid}/net/dev").read_text()
                assert len(networks.splitlines()) > 2
                assert await receiver.stop() == 0, manager.log
                assert reader is not None
            async with manager.running(WORKER) as worker:
                await worker.until("READY=1")
                await asyncio.sleep(0.5)
                with redis.client() as client:
                    assert client.smembers("rq:workers:wakegate-default")
                assert await worker.stop() == 0, manager.log
        doctor = manager.machine.wakegate("--config", str(layout.SETTINGS), "doctor", "--json")
        said = {row["check"]: row["verdict"] for row in json.loads(doctor.stdout)}
        assert {said[name] for name in ("postgresql.reach", "queue.reach", "queue.login", "users.layout")} == {"ok"}
        assert PASSWORD not in manager.log + doctor.stdout + doctor.stderr
