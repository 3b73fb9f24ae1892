"""PgBouncer with transaction pooling in front of a PostgreSQL server."""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import psycopg

from support.ports import lasting_port
from support.servers import binaries
from support.servers.postgresql import USER, PostgresServer
from support.servers.process import ServerProcess
from support.servers.server import Server

_FEW = 4
"""Connections to the server, so that clients really share them."""


class PgBouncer(Server):
    """One pooler; start it as a context manager or with `start`. Every database of the server is to be had through it.

    Args:
        server: in front of which it stands; it reaches it over TCP if that listens and `inside` is given, else by its
            Unix socket.
        listen: the address on which it listens with TCP too; nothing for its Unix socket only.
        port: its own; a free one of loopback unless given.
        pool: so many connections to the server for each database.
        settings: lines for its file, such as {"server_idle_timeout": "1"}.
        tls: a chain and its key (`support.certificates`), to let nobody in over TCP without TLS; a PostgreSQL from a
            wheel has none of its own.
        inside: a command that runs another one on a certain host (`support.hosts.Host.prefix`).
    """

    def __init__(
        self,
        server: PostgresServer,
        *,
        listen: str | None = None,
        port: int | None = None,
        pool: int = _FEW,
        settings: Mapping[str, str] | None = None,
        tls: tuple[Path, Path] | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        self.program = binaries.pgbouncer()
        self.server = server
        self.listen = listen
        self.port = port or lasting_port()
        self._pool = pool
        self._settings = dict(settings or {})
        self._tls = tls
        self._far = bool(inside) and server.listen is not None
        self._process = ServerProcess(ends_by=signal.SIGTERM, inside=inside)

    def url(self, database: str = USER) -> str:
        """The URL of a database through it, by its Unix socket."""
        return f"postgresql://{USER}@/{quote(database)}?host={self.folder}&port={self.port}"

    def tcp_url(self, database: str = USER) -> str:
        """The URL of a database through it, over TCP."""
        assert self.listen is not None, "this pooler does not listen with TCP"
        return f"postgresql://{USER}@{self.listen}:{self.port}/{quote(database)}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        file = self._process.write("pgbouncer.ini", self._lines())
        self._process.start([str(self.program), str(file)], self._answers)

    def _lines(self) -> str:
        host = self.server.listen if self._far else self.server.folder
        password = f" password={self.server.password}" if self.server.password else ""
        settings = (
            {
                "pool_mode": "transaction",
                "auth_type": "any",
                "listen_addr": self.listen or "",
                "listen_port": str(self.port),
                "unix_socket_dir": str(self.folder),
                "unix_socket_mode": "0777",
                "default_pool_size": str(self._pool),
                "max_client_conn": "500",
                "ignore_startup_parameters": "extra_float_digits,options",
            }
            | self._secured()
            | self._settings
        )
        lines = ["[databases]", f"* = host={host} port={self.server.port} user={USER}{password}", "[pgbouncer]"]
        return "\n".join(lines + [f"{name} = {value}" for name, value in settings.items()]) + "\n"

    def _secured(self) -> dict[str, str]:
        if self._tls is None:
            return {}
        chain, key = (self._process.write(file.name, file.read_text()) for file in self._tls)
        return {
            "client_tls_sslmode": "require",
            "client_tls_cert_file": str(chain),
            "client_tls_key_file": str(key),
        }

    def _answers(self) -> bool:
        try:
            # Its own database, so that no connection to the server is made for this.
            with psycopg.connect(self.url("pgbouncer"), autocommit=True, prepare_threshold=None) as connection:
                return connection.info.status == psycopg.pq.ConnStatus.OK
        except psycopg.OperationalError:
            return False
