"""Warm starts: programs forked from a process that has imported everything, which takes each a tenth of the time.

What starts here is no test's subject; whether the `wakegate` command starts is shown elsewhere.
"""

import asyncio
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from support.processes import clean_environment

LIMIT = 1 << 16
"""Bytes that a pipe's reader takes before it makes the program wait, as everywhere in asyncio."""


async def start(
    program: str,
    *arguments: str,
    env: Mapping[str, str],
    cwd: Path | str = ".",
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | IO[bytes] | None = None,
    namespaces: Sequence[str] = (),
    server: Sequence[str] = ("support.warm_server",),
) -> Process:
    """Start a program of `warm_server.PROGRAMS` as `asyncio.create_subprocess_exec` would, on a host perhaps.

    Its `namespaces` are of a host (`support.hosts.Host.namespaces`). Another `server` is a module, and its arguments.
    """
    loop = asyncio.get_running_loop()
    protocol = SubprocessStreamProtocol(LIMIT, loop)
    forks = _server(*server)
    transport = _Transport(protocol, forks)
    given = (stdin, stdout, stderr if stderr is None or isinstance(stderr, int) else stderr.fileno())
    order = {
        "program": program,
        "arguments": arguments,
        "directory": str(Path(cwd).absolute()),
        "environment": dict(env),
        "namespaces": namespaces,
    }
    with contextlib.ExitStack() as stack:
        theirs: list[int] = []
        for number, one in enumerate(given):
            if one in (PIPE, DEVNULL):
                theirs.append(await transport.connect(number) if one == PIPE else os.open(os.devnull, os.O_RDWR))
                stack.callback(os.close, theirs[-1])
            else:
                theirs.append(number if one is None else one)
        protocol.connection_made(transport)  # before there is anything to read
        transport.begin(forks.ask(order, theirs))
    return Process(transport, protocol, loop)


class _Server:
    """The process that forks, one for all tests of this one."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno()), *arguments],
                env=clean_environment() | {"PYTHONPATH": str(Path(__file__).parents[1])},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def ask(self, order: Mapping[str, Any], descriptors: list[int] | None = None) -> int:
        """Give an order and return its answer."""
        socket.send_fds(self._ours, [json.dumps(order).encode()], descriptors or [])
        return int(json.loads(self._ours.recv(100)))


_server = functools.cache(_Server)


class _Transport(asyncio.SubprocessTransport):
    """A forked program, as asyncio sees it. It is waited for once its end is known, so its pid stays its own."""

    def __init__(self, protocol: SubprocessStreamProtocol, server: _Server) -> None:
        super().__init__()
        self._protocol = protocol
        self._server = server
        self._pipes: dict[int, asyncio.BaseTransport] = {}
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._pid = self._descriptor = -1

    async def connect(self, number: int) -> int:
        """Make a pipe to what the program is to have under this number, and return the program's end."""
        reading, writing = os.pipe()
        ours, theirs = (writing, reading) if number == 0 else (reading, writing)
        file = os.fdopen(ours, "wb" if number == 0 else "rb", 0)
        make = functools.partial(_Pipe, number, self._protocol)
        connect = self._loop.connect_write_pipe if number == 0 else self._loop.connect_read_pipe
        self._pipes[number], _ = await connect(make, file)
        return theirs

    def begin(self, pid: int) -> None:
        """Watch the program from now on."""
        self._pid = pid
        self._descriptor = os.pidfd_open(pid)
        self._loop.add_reader(self._descriptor, self._end)

    def _end(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._ended.set_result(self._server.ask({"reap": self._pid}))
        self._protocol.process_exited()

    def get_pid(self) -> int:
        """Its number."""
        return self._pid

    def get_returncode(self) -> int | None:
        """How it ended, None before."""
        return self._ended.result() if self._ended.done() else None

    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        """The pipe to what the program has under this number."""
        return self._pipes.get(fd)

    def send_signal(self, signal: int) -> None:
        """Send a signal. Raises ProcessLookupError once it is known to have ended."""
        if self._ended.done():
            raise ProcessLookupError
        os.kill(self._pid, signal)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Close the pipes."""
        for pipe in self._pipes.values():
            pipe.close()

    def is_closing(self) -> bool:
        """Whether it has ended."""
        return self._ended.done()

    async def _wait(self) -> int:
        return await asyncio.shield(self._ended)


class _Pipe(asyncio.Protocol):
    """What comes through one pipe goes to the process's protocol."""

    def __init__(self, number: int, protocol: SubprocessStreamProtocol) -> None:
        self._number = number
        self._protocol = protocol

    def data_received(self, data: bytes) -> None:
        self._protocol.pipe_data_received(self._number, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.pipe_connection_lost(self._number, exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
