"""A PostgreSQL server of a test's own, and standbys that stream from it."""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql

from support.ports import lasting_port
from support.servers import binaries, clusters
from support.servers.process import ServerProcess, runs, until
from support.servers.server import Server

USER = "postgres"
_SETTINGS = {
    "max_connections": "200",
    "dynamic_shared_memory_type": "mmap",  # leaves nothing in /dev/shm behind when it is killed
    "log_timezone": "UTC",
    "timezone": "UTC",
    "jit": "off",
    "wal_keep_size": "256MB",  # what a standby that was cut off comes back to
}
_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
_PATIENCE_S = 1.0
_STEP_S = 0.002
_HASTY = {"fsync": "off", "full_page_writes": "off"}


class PostgresServer(Server):
    """One server; start it as a context manager or with `start`.

    Args:
        durable: whether a commit is on disk; ordinary tests do without.
        listen: the address on which it listens with TCP too; nothing for its Unix socket only.
        port: there; a free one of loopback unless given.
        password: which every connection must give; nothing lets everybody in.
        settings: lines for postgresql.conf.
        bin_folder: of the programs, instead of where `binaries` finds them.
        inside: a command that runs another one on a certain host (`support.hosts.Host.prefix`).
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        listen: str | None = None,
        port: int | None = None,
        password: str | None = None,
        settings: Mapping[str, str] | None = None,
        bin_folder: Path | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        self.bin_folder = bin_folder or binaries.postgresql()
        self.durable = durable
        self.listen = listen
        self.port = port or (lasting_port() if listen else 5432)
        self.password = password
        self.inside = tuple(inside)
        self._settings = _SETTINGS | ({} if durable else _HASTY) | dict(settings or {})
        self._process = ServerProcess(ends_by=signal.SIGQUIT, inside=inside)
        self._primary: PostgresServer | None = None
        self._name = ""

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self.folder / "data"

    def url(self, database: str = USER) -> str:
        """The URL of a database through the Unix socket; never with the password."""
        port = {"port": self.port} if self.port != 5432 else {}
        return f"postgresql://{USER}@/{quote(database)}?{urlencode({'host': self.folder} | port, safe='/')}"

    def tcp_url(self, database: str = USER) -> str:
        """The URL of a database over TCP; never with the password."""
        assert self.listen is not None, "this server does not listen with TCP"
        return f"postgresql://{USER}@{self.listen}:{self.port}/{quote(database)}"

    def connect(self, database: str = USER, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection through the Unix socket in autocommit: from this process, wherever the server's host is."""
        return psycopg.connect(self.url(database), password=self.password, autocommit=True, **options)

    def ask(self, statement: str, *arguments: object, database: str = USER) -> Any:
        """The first value of a statement's first row; nothing where there is none."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement.encode(), arguments)
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """Make a database, empty or as another one that nobody uses at the moment; return its name."""
        like = sql.SQL(" TEMPLATE {}").format(sql.Identifier(template)) if template else sql.SQL("")
        with self.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}{}").format(sql.Identifier(name), like))
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database and end whatever still uses it."""
        with self.connect() as connection:
            end_sessions(connection, name)
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def start(self) -> None:
        """Start it, at first with a new cluster or a copy of its primary's; wait until it answers."""
        if not self.data.exists():
            self._make()
        command = [str(self.bin_folder / "postgres"), "-D", str(self.data)]
        self._process.start(command, lambda: self._status in ("ready", "standby"))

    def stop(self) -> None:
        """End every connection, write a checkpoint and end."""
        self._process.end(signal.SIGINT)

    def kill(self) -> None:
        """End all of its processes by SIGKILL, as a machine that loses its power: what was not written is lost."""
        if not self.alive:
            return
        os.kill(self.pid, signal.SIGSTOP)  # or it would notice that its children die
        children = self._children()
        for each in (*children, self.pid):
            _send(each, signal.SIGKILL)
        self._process.wait()
        until(lambda: not any(runs(each) for each in children), "PostgreSQL's processes do not end")

    def pause(self) -> None:
        """Stop all of its processes as they are: nothing answers, nothing is closed."""
        os.kill(self.pid, signal.SIGSTOP)
        for each in self._children():
            _send(each, signal.SIGSTOP)

    def resume(self) -> None:
        """Let its processes go on."""
        for each in (*self._children(), self.pid):
            _send(each, signal.SIGCONT)

    def configure(self, **settings: str) -> None:
        """Change settings: at once those that can be, the others when it is started the next time."""
        self._settings |= settings
        self._write_settings(settings)
        if self.alive:
            self.ask("SELECT pg_reload_conf()")

    def set_synchronous(self, names: str) -> None:
        """Set `synchronous_standby_names`, such as "one" or "ANY 1 (one, two)", and wait until that holds."""
        self.configure(synchronous_standby_names=names)
        until(lambda: bool(self.ask("SELECT current_setting('synchronous_standby_names') = %s", names)), "not reloaded")

    def standby(
        self, name: str, *, listen: str | None = None, port: int | None = None, inside: Sequence[str] = ()
    ) -> "PostgresServer":
        """A server that streams from this one under an application name; start it while this one runs.

        Args:
            name: its application name, for `set_synchronous`.
            listen: the address on which it listens with TCP too.
            port: there.
            inside: runs it on a certain host; it reaches this server over TCP if that listens, else by the Unix socket.
        """
        made = PostgresServer(
            durable=self.durable, listen=listen, port=port, password=self.password, bin_folder=self.bin_folder,
            inside=inside,
        )  # fmt: skip
        made._primary, made._name = self, name
        return made

    def wait_until_synchronous(self, name: str) -> None:
        """Wait until commits wait for this standby."""
        state = "SELECT sync_state IN ('sync', 'quorum') FROM pg_stat_replication WHERE application_name = %s"
        until(lambda: bool(self.ask(state, name)), f"{name} is no synchronous standby")

    def wait_until_caught_up(self, standby: "PostgresServer") -> None:
        """Wait until a standby shows everything that is committed here now."""
        written = self.ask("SELECT pg_current_wal_lsn()::text")
        replayed = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        until(lambda: bool(standby.ask(replayed, written)), "the standby does not catch up", says=standby._process.tail)

    def promote(self) -> None:
        """Make a standby a primary of its own."""
        assert self.ask("SELECT pg_promote(true, 60)"), f"not promoted:\n{self._process.tail()}"

    def close(self) -> None:
        """End it, and remove all that it had."""
        left = self.data / "postmaster.pid"
        self._process.end()
        clusters.remove_shared_memory(left)
        self._process.close()

    def _make(self) -> None:
        if self._primary is None:
            clusters.make(self.data, self._process, self.bin_folder)
        else:
            self._copy(self._primary)
        self._write_settings(
            self._settings
            | {
                "unix_socket_directories": str(self.folder),
                "listen_addresses": self.listen or "",
                "port": str(self.port),
            }
        )
        if self._primary is None:
            self._let_in()

    def _copy(self, primary: "PostgresServer") -> None:
        source = {"host": primary.listen or str(primary.folder), "port": str(primary.port), "user": USER}
        source |= {"application_name": self._name} | ({"password": self.password} if self.password else {})
        conninfo = " ".join(f"{name}={value}" for name, value in source.items())
        self._process.run(
            [
                str(self.bin_folder / "pg_basebackup"), f"--dbname={conninfo}", f"--pgdata={self.data}",
                "--checkpoint=fast", "--no-sync", "--wal-method=stream",
            ]
        )  # fmt: skip
        self._settings |= {"primary_conninfo": conninfo, "synchronous_standby_names": ""}
        self._process.write("data/standby.signal", "")

    def _let_in(self) -> None:
        how = "scram-sha-256" if self.password else "trust"
        everybody = "".join(
            f"{line} {how}\n"
            for database in ("all", "replication")
            for line in (f"local {database} all", f"host {database} all 0.0.0.0/0", f"host {database} all ::0/0")
        )
        self._process.write("data/pg_hba.conf", everybody)
        if self.password:
            self._set_password(self.password)

    def _set_password(self, password: str) -> None:
        statement = sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(USER), sql.Literal(password))
        file = self._process.write("password.sql", statement.as_string() + "\n")
        single = [str(self.bin_folder / "postgres"), "--single", "-D", str(self.data), USER]
        self._process.run(["sh", "-c", 'input=$1; shift; exec "$@" < "$input"', "sh", str(file), *single])
        file.unlink()

    def _write_settings(self, settings: Mapping[str, str]) -> None:
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            for name, value in settings.items():
                quoted = value.replace("'", "''")
                file.write(f"{name} = '{quoted}'\n")

    @property
    def _status(self) -> str:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return ""
        mine = lines and lines[0] == str(self.pid)
        return lines[7].strip() if mine and len(lines) > 7 else ""

    def _children(self) -> list[int]:
        return [int(each) for each in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]


def _send(pid: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has ended by itself
        os.kill(pid, what)


def end_sessions(connection: psycopg.Connection[tuple[Any, ...]], database: str) -> None:
    """End whoever is in a database and wait until nobody is: the server itself would look every 100 ms only.

    It gives up after a while; what needs the database to be empty says so.
    """
    ends = time.monotonic() + _PATIENCE_S
    while connection.execute(_END, [database]).rowcount > 0 and time.monotonic() < ends:
        time.sleep(_STEP_S)
