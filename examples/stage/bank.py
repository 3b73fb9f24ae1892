"""A bank that makes refunds over HTTP and keeps a ledger of every request: the only witness of what really happened."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Bank:
    """Listens on loopback. A request with an `Idempotency-Key` that it knows is answered as before."""

    def __init__(self, ledger: Path) -> None:
        """Take where every request is written down, one JSON object a line."""
        self._ledger = ledger
        self._refunds: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        bank = self

        class Counter(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(bank.refund(self.headers["Idempotency-Key"], order)).encode()
                self.send_response(201)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Say nothing; the ledger says it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Counter)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        """Begin to answer."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()

    def refund(self, key: str, order: dict[str, Any]) -> dict[str, Any]:
        """Make a refund, once for each key, and write every request down."""
        with self._lock:
            repeated = key in self._refunds
            made = self._refunds.setdefault(key, {"refund_id": f"rf_{len(self._refunds) + 1}", **order})
            with self._ledger.open("a", encoding="utf-8") as ledger:
                ledger.write(json.dumps({"key": key, "order": order, "repeated": repeated}) + "\n")
        return made

    def ledger(self) -> list[dict[str, Any]]:
        """Return every request, the first first."""
        if not self._ledger.exists():
            return []
        return [json.loads(line) for line in self._ledger.read_text(encoding="utf-8").splitlines()]
