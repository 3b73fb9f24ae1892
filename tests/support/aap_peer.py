"""A peer that speaks AAP from memory and does what its test says, also what no provider should do."""

import asyncio
import json
import socket
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.http_servers import Served, http_server
from wakegate_schema import clock, timestamps

Interference = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@dataclass
class Peer:
    """The requests it has, by id, and what it does about them."""

    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    submissions: list[str] = field(default_factory=list)
    """The idempotency key of each submission that came in."""
    reads: list[str] = field(default_factory=list)
    """The id, with its query, of each read."""
    cancels: list[str] = field(default_factory=list)
    at_submission: Callable[["Peer", dict[str, Any]], None] | None = None
    """What becomes of a new request before it is answered."""
    interference: Interference | None = None
    """Answers instead of the peer, unless it returns None."""
    url: str = ""
    consumes: bool = False
    """Whether it knows consumption."""
    consumptions: list[tuple[str, str]] = field(default_factory=list)
    """Request id and key of each consumption that came in."""
    spent_by: dict[str, str] = field(default_factory=dict)
    """The key that has consumed the approval of a request."""
    outcomes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Request id and body of each outcome that came in."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def approve(self, request: dict[str, Any], *, lasting: float = 300, note: str | None = None) -> None:
        """Approve, good for `lasting` seconds."""
        now = clock.now()
        self.decide(
            request,
            "approved",
            expires_at=timestamps.render(now + round(lasting * clock.SECOND)),
            **({"note": note} if note else {}),
        )

    def decide(self, request: dict[str, Any], status: str, **fields: Any) -> None:
        """Decide, just now, whatever it was before."""
        request["status"] = status
        request["decision"] = {"status": status, "decided_at": timestamps.render(clock.now()), **fields}
        self._changed.set()
        self._changed = asyncio.Event()

    def only(self) -> dict[str, Any]:
        """Return the one request there is."""
        (request,) = self.requests.values()
        return request

    async def submitted(self, count: int = 1, seconds: float = 10) -> None:
        """Wait until so many submissions came in."""
        async with asyncio.timeout(seconds):
            while len(self.submissions) < count:
                await asyncio.sleep(0.01)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        known: dict[str, Any] | None
        if request.path.endswith(("/consume", "/outcome")):
            answer = None if self.interference is None else await self.interference(request)
            return answer or await self.spend(request)
        if request.method == "POST":
            known = self.submit(request.headers["Idempotency-Key"], json.loads(await request.read()))
        else:
            name = request.path.rpartition("/")[2]
            known = self.requests.get(name)
            (self.reads if request.method == "GET" else self.cancels).append(request.path_qs.rpartition("/")[2])
        if self.interference is not None:
            answer = await self.interference(request)
            if answer is not None:
                return answer
        if known is None:
            return refusal(404, "not_found", "not_found")
        if request.method == "GET" and "wait" in request.query and known["status"] == "pending":
            await self._decided(float(request.query["wait"].removesuffix("s")))
        if request.method == "DELETE":
            if known["status"] not in ("pending", "cancelled"):
                return refusal(409, "conflict", "already_terminal")
            if known["status"] == "pending":
                self.decide(known, "cancelled")
        return web.json_response(known)

    @asynccontextmanager
    async def serving(
        self, *, bound: socket.socket | None = None, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[Served]:
        """Serve on a free port of loopback, unless said otherwise; see `http_server`."""
        async with http_server(self.answer, bound=bound, tls=tls) as served:
            self.url = served.url
            yield served

    def submit(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        """Make a request, or return what the key made before."""
        self.submissions.append(key)
        if key in self.keys:
            return self.requests[self.keys[key]]
        now = clock.now()
        request_id = str(uuid.uuid4())
        request = {
            "id": request_id,
            **body,
            "status": "pending",
            "created_at": timestamps.render(now),
            "deadline_at": timestamps.render(now + timestamps.duration(body["timeout"])),
        }
        self.keys[key], self.requests[request_id] = request_id, request
        if self.at_submission is not None:
            self.at_submission(self, request)
        return request

    async def spend(self, request: web.Request) -> web.Response:
        """Consume an approval, or take the word of what came of it; not found where this peer knows neither."""
        _, request_id, operation = request.path.rsplit("/", 2)
        known = self.requests.get(request_id)
        if known is None or not self.consumes:
            return refusal(404, "not_found", "not_found")
        if operation == "outcome":
            if "consumption" not in known:
                return refusal(409, "conflict", "not_consumed")
            told = json.loads(await request.read())
            self.outcomes.append((request_id, told))
            first = known["consumption"].setdefault("outcome", {**told, "reported_at": timestamps.render(clock.now())})
            if {name: first.get(name) for name in ("status", "note")} != {"note": None, **told}:
                return refusal(409, "conflict", "outcome_conflict")
            return web.json_response(known)
        key = request.headers["Idempotency-Key"]
        self.consumptions.append((request_id, key))
        if known["status"] != "approved":
            return refusal(409, "conflict", "not_approved")
        if self.spent_by.get(request_id, key) != key:
            return refusal(409, "conflict", "already_consumed")
        if request_id not in self.spent_by:
            if timestamps.parse(known["decision"]["expires_at"]) <= clock.now():
                return refusal(409, "conflict", "approval_expired")
            self.spent_by[request_id] = key
            known["consumption"] = {"consumed_at": timestamps.render(clock.now())}
        return web.json_response(known)

    async def _decided(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return


def refusal(status: int, kind: str, code: str, **headers: str) -> web.Response:
    """Return an error as AAP writes it."""
    body = {"error": {"type": kind, "code": code, "message": "no", "request_id": str(uuid.uuid4())}}
    return web.json_response(body, status=status, headers=headers)
