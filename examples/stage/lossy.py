"""A wire that loses answers: it stands before the control socket, and breaks once at each place where that would hurt.

The first answer that says yes to a suspension, to a claim and to a finish is thrown away after the receiver has done
what was asked, and a stream of resolutions is cut in the middle. A harness must come through all of it.
"""

import re
import socket
import socketserver
import threading
from pathlib import Path

_ASKED = (
    ("suspend", re.compile(rb"POST /v1/executions HTTP")),
    ("claim", re.compile(rb"POST /v1/executions/[^/ ]+/claim HTTP")),
    ("finish", re.compile(rb"POST /v1/executions/[^/ ]+/finish HTTP")),
    ("stream", re.compile(rb"GET /v1/resolutions[? ]")),
)


class LossySocket(socketserver.ThreadingUnixStreamServer):
    """Listens on a socket of its own and passes everything on to the receiver's."""

    daemon_threads = True

    def __init__(self, path: Path, receiver: Path) -> None:
        """Take its own path and the receiver's."""
        self.receiver = receiver
        self.lost: set[str] = set()
        """What it has lost an answer of."""
        self._lock = threading.Lock()
        super().__init__(str(path), _Wire)

    def start(self) -> None:
        """Begin to pass things on."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop."""
        self.shutdown()
        self.server_close()

    def loses(self, what: str) -> bool:
        """Say whether this is the first of its kind, which is lost."""
        with self._lock:
            first = what not in self.lost
            self.lost.add(what)
        return first


class _Wire(socketserver.BaseRequestHandler):
    """One connection."""

    server: LossySocket

    def handle(self) -> None:
        """Pass bytes on both ways until either side ends or the wire breaks."""
        self.asked = ""
        with socket.socket(socket.AF_UNIX) as receiver:
            receiver.connect(str(self.server.receiver))
            back = threading.Thread(target=self._back, args=(receiver,), daemon=True)
            back.start()
            while data := _received(self.request):
                self.asked = next((what for what, line in _ASKED if line.match(data)), self.asked)
                receiver.sendall(data)
            _end(receiver)
            back.join()

    def _back(self, receiver: socket.socket) -> None:
        while data := _received(receiver):
            if self.asked == "stream":
                self.request.sendall(data)
                if b"event: resolution" in data and self.server.loses("stream"):
                    break
            elif self.asked and data.startswith(b"HTTP/1.1 20") and self.server.loses(self.asked):
                break
            else:
                self.request.sendall(data)
        _end(self.request)


def _received(side: socket.socket) -> bytes:
    try:
        return side.recv(65_536)
    except OSError:
        return b""


def _end(side: socket.socket) -> None:
    try:
        side.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended already
