"""Several hosts for a test: network namespaces at one switch, whose cables a test cuts and heals.

    with Hosts("database", "worker") as hosts:
        database, worker = hosts["database"], hosts["worker"]
        with PostgresServer(listen=database.address, inside=database.prefix) as server:
            subprocess.run([*worker.prefix, "psql", server.tcp_url()])
            hosts.cut("worker")
            hosts.heal("worker")

Nothing of the machine's own network is touched: the switch is in a namespace too, none has a name, and all of them end
with the processes that hold them, which end when this process is gone, however it ended. So any number of tests may
have hosts at a time, all with the same addresses. Root makes them; anybody else makes them in a user namespace. Where
that is forbidden the hosts are addresses of loopback, `separate` is false, and a test that cuts one is skipped, or
fails in CI.

Files are shared: a Unix socket reaches a server on any host, cut off or not, and so does the test itself.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from support.servers import binaries

_NETWORK = "10.97.0"
_NOBODY = "02:00:0a:61:00:ff"
"""A hardware address that no host has: what is sent there is lost without a word."""
_HOLDER = """
import socket
with socket.socket(fileno=0) as channel:
    channel.send(b"here")
    while asked := channel.recv(64):
        with socket.socket(*map(int, asked.split())) as made:
            socket.send_fds(channel, [b"made"], [made.fileno()])
"""
"""Keeps a namespace until nobody holds the other end, and makes sockets in it."""


@dataclass(frozen=True)
class Host:
    """One host."""

    name: str
    address: str
    """Of its only interface."""
    prefix: tuple[str, ...]
    """A command that runs the command after it on this host, as the same process."""
    channel: socket.socket | None

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Its namespaces, in the order in which a process enters them (`support.warm`)."""
        return tuple(part.partition("=")[2] for part in self.prefix if part.startswith(("--user=/", "--net=/")))

    def socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
        """A socket of this host in the test's own process, to listen or to connect with."""
        if self.channel is None:
            return socket.socket(family, kind, protocol)
        self.channel.send(f"{int(family)} {int(kind)} {protocol}".encode())
        said, made, *_ = socket.recv_fds(self.channel, 64, 1)
        assert said == b"made", f"the holder of {self.name} is gone"
        return socket.socket(family, kind, protocol, fileno=made[0])


class Hosts:
    """The hosts and the switch between them; a context manager.

    Args:
        names: of the hosts.
    """

    def __init__(self, *names: str) -> None:
        self._names = names
        self._hosts: dict[str, Host] = {}
        self._lost: set[tuple[str, str]] = set()
        self._switch: tuple[str, ...] = ()
        self._end = ExitStack()
        self.separate = False
        """Whether they are hosts of their own, which can be cut off."""

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __enter__(self) -> Self:
        with ExitStack() as failing:
            failing.callback(self._end.close)
            self.separate = _may_make()
            if self.separate:
                self._lay()
            else:
                self._name_loopback()
            failing.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.close()

    def cut(self, one: str, other: str | None = None) -> None:
        """Lose everything between a host and all others, or another one: no answer comes, no connection is closed."""
        if other is None:
            self._ip(self._switch, f"link set {self._port(one)} nomaster")
        else:
            self.lose(one, other)
            self.lose(other, one)

    def heal(self, one: str, other: str | None = None) -> None:
        """Undo `cut`, and `lose`, of the same hosts."""
        if other is None:
            self._ip(self._switch, f"link set {self._port(one)} master switch")
        else:
            self._lost -= {(one, other), (other, one)}
            self._teach(one)
            self._teach(other)

    def lose(self, sender: str, receiver: str) -> None:
        """Lose what one host sends to another; the other way stays as it is."""
        self._lost.add((sender, receiver))
        self._teach(sender)

    def unplug(self, name: str) -> None:
        """Take a host's interface down: its own programs learn at once that nothing can be reached."""
        self._ip(self._hosts[name].prefix, "link set eth0 down")

    def plug(self, name: str) -> None:
        """Undo `unplug`."""
        self._ip(self._hosts[name].prefix, "link set eth0 up")
        self._teach(name)

    def _lay(self) -> None:
        ordinary = os.geteuid() != 0
        unshare = str(binaries.program("unshare"))
        enter = str(binaries.program("nsenter"))
        new = (unshare, "--user", "--map-root-user", "--net") if ordinary else (unshare, "--net")
        switch, _ = self._hold(new)
        user = (f"--user=/proc/{switch}/ns/user", "--preserve-credentials") if ordinary else ()
        self._switch = (enter, *user, f"--net=/proc/{switch}/ns/net")
        self._ip(self._switch, "link add switch type bridge", "link set switch up")
        beside = (enter, *user, unshare, "--net") if ordinary else new
        for number, name in enumerate(self._names, 1):
            pid, channel = self._hold(beside)
            prefix = (enter, *user, f"--net=/proc/{pid}/ns/net")
            self._hosts[name] = Host(name, f"{_NETWORK}.{number}", prefix, channel)
            port = self._port(name)
            self._ip(
                self._switch,
                f"link add {port} type veth peer name eth0 netns {pid}",
                f"link set {port} master switch up",
            )
        for name, host in self._hosts.items():
            self._ip(
                host.prefix, "link set lo up", f"link set eth0 address {self._hardware(name)}",
                f"addr add {host.address}/24 dev eth0", "link set eth0 up",
            )  # fmt: skip
            self._teach(name)

    def _hold(self, command: Sequence[str]) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            holder = subprocess.Popen(
                [*command, sys.executable, "-ISc", _HOLDER], stdin=theirs.fileno(), start_new_session=True
            )
        self._end.callback(holder.wait)
        self._end.callback(ours.close)
        assert ours.recv(64) == b"here", f"no namespace by {command}"
        return holder.pid, ours

    def _name_loopback(self) -> None:
        block = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) + 1
        for number, name in enumerate(self._names, 1):
            self._hosts[name] = Host(name, f"127.0.{block}.{number}", (), None)

    def _teach(self, name: str) -> None:
        """Tell a host the others' hardware addresses, which it never asks for: so a lost one is not noticed."""
        others = [other for other in self._names if other != name]
        self._ip(
            self._hosts[name].prefix,
            *(
                f"neigh replace {self._hosts[other].address} dev eth0 nud permanent"
                f" lladdr {_NOBODY if (name, other) in self._lost else self._hardware(other)}"
                for other in others
            ),
        )

    def _port(self, name: str) -> str:
        return f"port{self._names.index(name) + 1}"

    def _hardware(self, name: str) -> str:
        return f"02:00:0a:61:00:{self._names.index(name) + 1:02x}"

    def _ip(self, where: Sequence[str], *lines: str) -> None:
        if not self.separate:
            binaries.missing("a network namespace", "run the tests as root, or allow user namespaces")
        ip = binaries.program("ip") or binaries.missing("ip", "apt-get install iproute2")
        ended = subprocess.run([*where, str(ip), "-batch", "-"], input="\n".join(lines).encode(), capture_output=True)
        assert ended.returncode == 0, f"{lines}: {ended.stderr.decode()}"


def _may_make() -> bool:
    wanted = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    unshare = binaries.program("unshare")
    return unshare is not None and subprocess.run([unshare, *wanted, "true"], capture_output=True).returncode == 0
