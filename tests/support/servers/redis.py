"""A Redis server of a test's own, and a Sentinel that watches one."""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from support.ports import lasting_port
from support.servers import binaries
from support.servers.process import ServerProcess
from support.servers.server import Server

DATABASES = 64


class RedisServer(Server):
    """One server; start it as a context manager or with `start`.

    Args:
        listen: the address on which it listens with TCP too; nothing for its Unix socket only.
        port: there; a free one of loopback unless given.
        password: of the default user; nothing lets everybody in.
        append_only: whether it writes what it holds to a file, every write before it answers.
        settings: lines for redis.conf, such as {"maxmemory": "2mb", "maxmemory-policy": "allkeys-lru"}.
        users: lines for further users, such as "worker on >secret ~rq:* +@all".
        program: the server, instead of where `binaries` finds it; it may be a Valkey.
        inside: a command that runs another one on a certain host (`support.hosts.Host.prefix`).
    """

    def __init__(
        self,
        *,
        listen: str | None = None,
        port: int | None = None,
        password: str | None = None,
        append_only: bool = False,
        settings: Mapping[str, str] | None = None,
        users: Sequence[str] = (),
        program: Path | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        self.program = program or binaries.redis()
        self.listen = listen
        self.port = port or (lasting_port() if listen else 0)
        self.password = password
        self._append_only = append_only
        self._settings = dict(settings or {})
        self._users = users
        self._process = ServerProcess(ends_by=signal.SIGTERM, inside=inside)

    @property
    def socket(self) -> Path:
        """Its Unix socket."""
        return self.folder / "redis.sock"

    def url(self, database: int = 0) -> str:
        """The URL of a database through the Unix socket; never with the password."""
        return f"unix://{self.socket}?db={database}"

    def tcp_url(self, database: int = 0) -> str:
        """The URL of a database over TCP; never with the password."""
        assert self.listen is not None, "this server does not listen with TCP"
        return f"redis://{self.listen}:{self.port}/{database}"

    def client(self, database: int = 0) -> redis.Redis:
        """A client through the Unix socket: from this process, wherever the server's host is. Close it."""
        return _client(self.socket, db=database, password=self.password)

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.socket.unlink(missing_ok=True)
        file = self._process.write("redis.conf", self._lines())
        self._process.start([str(self.program), str(file)], self._answers)

    def kill(self) -> None:
        """End it by SIGKILL: what it has not written to a file is lost."""
        self._process.end(signal.SIGKILL)

    def flush(self) -> None:
        """Forget everything, in every database."""
        with self.client() as client:
            client.flushall()

    def configure(self, **settings: str) -> None:
        """Change settings, now and for the next start; an underscore in a name is a hyphen in Redis'."""
        changed = {name.replace("_", "-"): value for name, value in settings.items()}
        self._settings |= changed
        with self.client() as client:
            for name, value in changed.items():
                client.config_set(name, value)

    def _lines(self) -> str:
        settings = {
            "port": str(self.port),
            "bind": self.listen or "127.0.0.1",
            "protected-mode": "no",
            "unixsocket": str(self.socket),
            "unixsocketperm": "777",
            "dir": str(self.folder),
            "databases": str(DATABASES),
            "save": '""',
            "appendonly": "yes" if self._append_only else "no",
            "appendfsync": "always",
        } | self._settings
        lines = [f"{name} {value}" for name, value in settings.items()]
        lines += [f"user {user}" for user in self._users]
        lines += [f"requirepass {self.password}"] if self.password else []
        return "\n".join(lines) + "\n"

    def _answers(self) -> bool:
        return _answers(self.client())


class Sentinel(Server):
    """One Sentinel that watches a server which listens with TCP, and makes a replica the master when that is gone.

    Args:
        master: the server to begin with.
        name: that clients ask for it by.
        inside: runs it on a certain host.
        listen: the address on which it listens.
        port: there; a free one of loopback unless given.
    """

    def __init__(
        self,
        master: RedisServer,
        *,
        name: str = "wakegate",
        listen: str = "127.0.0.1",
        port: int | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.listen = listen
        self.port = port or lasting_port()
        self._master = master
        self._process = ServerProcess(ends_by=signal.SIGTERM, inside=inside)

    def start(self) -> None:
        """Start it and wait until it answers."""
        lines = [
            f"port {self.port}",
            f"bind {self.listen}",
            "protected-mode no",
            f"unixsocket {self._process.folder}/sentinel.sock",
            "unixsocketperm 777",
            f"dir {self._process.folder}",
            f"sentinel monitor {self.name} {self._master.listen} {self._master.port} 1",
            f"sentinel down-after-milliseconds {self.name} 1000",
            f"sentinel failover-timeout {self.name} 5000",
        ]
        if self._master.password:
            lines.append(f"sentinel auth-pass {self.name} {self._master.password}")
        file = self._process.write("sentinel.conf", "\n".join(lines) + "\n")
        self._process.start([str(self._master.program), str(file), "--sentinel"], self._answers)

    def master(self) -> tuple[str, int]:
        """Where it says that the master is."""
        with self._client() as client:
            host, port = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)
            return host.decode(), int(port)

    def _client(self) -> redis.Redis:
        return _client(self._process.folder / "sentinel.sock")

    def _answers(self) -> bool:
        return _answers(self._client())


def _client(socket: Path, **options: Any) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(socket), retry=Retry(NoBackoff(), 0), **options)


def _answers(client: redis.Redis) -> bool:
    with client:
        try:
            return bool(client.ping())
        except redis.exceptions.ConnectionError:  # also while it loads
            return False
