"""Hosts of a test: what is cut off gets no word, and databases are replicated and promoted between them."""

import subprocess
import threading
from pathlib import Path

import pytest

from support.hosts import Hosts
from support.servers import PostgresServer, RedisServer
from support.servers.process import until

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


def ping(hosts: Hosts, server: RedisServer) -> str:
    """What a client on the host `client` gets from Redis within a moment, or why it gets nothing."""
    with hosts["client"].socket() as client:
        client.settimeout(0.25)
        try:
            client.connect((hosts["queue"].address, server.port))
            client.sendall(b"PING\r\n")
            return client.recv(100).decode().strip()
        except OSError as error:
            return type(error).__name__ if error.errno is None else str(error.strerror)


def test_a_host_is_cut_off_and_healed() -> None:
    with Hosts("queue", "client", "other") as hosts:
        queue = hosts["queue"]
        with RedisServer(listen=queue.address, port=6379, inside=queue.prefix) as server:
            assert ping(hosts, server) == "+PONG"
            hosts.cut("client")
            assert ping(hosts, server) == "TimeoutError"
            hosts.heal("client")
            hosts.lose("queue", "client")
            assert ping(hosts, server) == "TimeoutError"
            hosts.heal("queue", "client")
            hosts.cut("queue", "other")
            assert ping(hosts, server) == "+PONG"
            hosts.unplug("client")
            assert ping(hosts, server) == "Network is unreachable"
            hosts.plug("client")
            assert ping(hosts, server) == "+PONG"


def test_a_connection_outlasts_a_cut_and_a_host_ends_with_its_test() -> None:
    with Hosts("server", "client") as hosts:
        there, here = hosts["server"].socket(), hosts["client"].socket()
        with there, here:
            there.bind((hosts["server"].address, 0))
            there.listen()
            here.connect(there.getsockname())
            with there.accept()[0] as accepted:
                hosts.cut("server", "client")
                here.sendall(b"late")
                accepted.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    accepted.recv(4)
                hosts.heal("server", "client")
                accepted.settimeout(60)
                assert accepted.recv(4) == b"late"
        held = [part for part in hosts["server"].prefix if "/proc/" in part]
    assert not any(Path(part.partition("=")[2]).exists() for part in held)


def test_a_commit_waits_for_a_synchronous_standby_that_takes_over_when_the_primary_is_cut_off() -> None:
    with Hosts("first", "second", "client") as hosts:
        first, second = hosts["first"], hosts["second"]
        with (
            PostgresServer(listen=first.address, inside=first.prefix, port=5432) as primary,
            primary.standby("second", listen=second.address, inside=second.prefix, port=5432) as standby,
        ):
            primary.ask("CREATE TABLE kept (number int)")
            primary.set_synchronous("second")
            primary.wait_until_synchronous("second")
            hosts.cut("first", "second")
            writer = threading.Thread(target=primary.ask, args=("INSERT INTO kept VALUES (1)",))
            writer.start()
            until(lambda: primary.ask(WAITING) == 1, "the commit does not wait")
            assert standby.ask("SELECT count(*) FROM kept") == 0
            hosts.heal("first", "second")
            writer.join()
            primary.wait_until_caught_up(standby)
            hosts.cut("first")
            standby.promote()
            standby.ask("INSERT INTO kept VALUES (2)")
            asked = [str(standby.bin_folder / "psql"), "-At", standby.tcp_url(), "-c", "SELECT sum(number) FROM kept"]
            said = subprocess.run([*hosts["client"].prefix, *asked], capture_output=True, text=True)
            assert (said.stdout, said.stderr) == ("3\n", "")


def test_where_no_namespace_is_to_be_had_hosts_are_addresses_that_nobody_cuts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # with no `unshare` in it
    monkeypatch.delenv("CI", raising=False)
    with Hosts("server", "client") as hosts:
        assert not hosts.separate
        with hosts["server"].socket() as there, hosts["client"].socket() as here:
            there.bind((hosts["server"].address, 0))
            there.listen()
            here.bind((hosts["client"].address, 0))
            here.connect(there.getsockname())
            there.accept()[0].close()
        with pytest.raises(pytest.skip.Exception, match="network namespace"):
            hosts.cut("client")
