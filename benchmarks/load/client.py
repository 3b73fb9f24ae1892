"""The load's own process: `python -m benchmarks.load.client FILE PORT… --warm N` sends every request of a file once.

It is as lean as Python allows, so that it is not what is measured: sockets and epoll, no loop, no parser beyond the
head of the usual answer, no collector. What it computed is in its report, to be held against the time it took.
"""

import argparse
import gc
import json
import re
import select
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.load.files import read

_USUAL: Final = b"HTTP/1.1 204"
_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PATIENCE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it; times are of what was sent after the warm-up."""

    statuses: dict[str, int]
    """All answers, by status; `ended` counts requests whose connection ended without one."""
    rate: float
    """Answers a second."""
    p50_ms: float
    p99_ms: float
    longest_ms: float
    busy: float
    """The share of the time in which this process computed: near 1 it would have measured itself."""


class Load:
    """Connections, each with one request under way."""

    def __init__(self, requests: Iterator[bytes], ports: Sequence[int], connections: int, warm: int) -> None:
        self._requests = requests
        self._warm = warm
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._sent: dict[int, float] = {}
        self._partial: dict[int, bytes] = {}
        self._ports: dict[int, int] = {}
        self._statuses: Counter[str] = Counter()
        self._times: list[float] = []
        self._begun, self._begun_cpu = time.perf_counter(), time.process_time()
        for number in range(connections):
            self._connect(ports[number % len(ports)])

    def run(self) -> Report:
        """Send everything; return when every request has its answer."""
        for name in list(self._sockets):
            self._next(name)
        while self._sent:
            ready = self._poll.poll(_PATIENCE_S)
            if not ready:
                raise TimeoutError(f"{len(self._sent)} requests have had no answer for {_PATIENCE_S:.0f} s")
            for name, _ in ready:
                self._read(name)
        seconds = time.perf_counter() - self._begun
        busy = (time.process_time() - self._begun_cpu) / seconds
        times = sorted(1000 * each for each in self._times)
        middle, high = times[len(times) // 2], times[len(times) * 99 // 100]
        return Report(dict(self._statuses), len(times) / seconds, middle, high, times[-1], busy)

    def _connect(self, port: int) -> int:
        made = socket.create_connection(("127.0.0.1", port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = made.fileno()
        self._sockets[name], self._ports[name] = made, port
        self._poll.register(name, select.EPOLLIN)
        return name

    def _next(self, name: int) -> None:
        request = next(self._requests, None)
        if request is None:
            self._sent.pop(name, None)
            return
        self._sent[name] = time.perf_counter()
        self._sockets[name].sendall(request)

    def _read(self, name: int) -> None:
        data = self._sockets[name].recv(65536)
        now = time.perf_counter()
        if data.startswith(_USUAL) and data.endswith(_END):
            self._answered(name, "204", now)
            return
        if not data:
            self._ended(name)
            return
        whole = self._partial[name] = self._partial.get(name, b"") + data
        head, end, body = whole.partition(_END)
        found = _LENGTH.search(head)
        if end and len(body) >= (int(found[1]) if found else 0):
            del self._partial[name]
            self._answered(name, head[9:12].decode(), now)

    def _answered(self, name: int, status: str, now: float) -> None:
        self._statuses[status] += 1
        if self._warm:
            self._warm -= 1
            if not self._warm:
                self._begun, self._begun_cpu = now, time.process_time()
        else:
            self._times.append(now - self._sent[name])
        self._next(name)

    def _ended(self, name: int) -> None:
        """A connection ended: what was under way is not sent again, for it may have been taken."""
        self._poll.unregister(name)
        self._sockets.pop(name).close()
        self._partial.pop(name, None)
        waited = self._sent.pop(name, None) is not None
        if waited:
            self._statuses["ended"] += 1
            self._next(self._connect(self._ports[name]))


def main() -> None:
    """Send, and write the report as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load.client")
    parser.add_argument("file", type=Path)
    parser.add_argument("ports", type=int, nargs="+")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--warm", type=int, default=0, help="answers before the clock starts")
    chosen = parser.parse_args()
    requests = list(read(chosen.file))
    gc.disable()
    print(json.dumps(asdict(Load(iter(requests), chosen.ports, chosen.connections, chosen.warm).run())))


if __name__ == "__main__":
    main()
