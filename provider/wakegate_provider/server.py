"""The HTTP server: answers in AAP's shape, bodies within bounds, the parser's own errors quiet."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from wakegate_provider.problems import Problem
from wakegate_schema import ids

MAX_BODY = 1_048_576
"""The largest body, in bytes; also what aiohttp reads at most."""

BODY_SECONDS = 30.0
"""How long a body may take to arrive."""

KEEPALIVE_SECONDS = 75.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is no refusal."""

    status: int
    body: bytes = field(default=b"", repr=False)


class AapServer(web.Server):
    """Serves one handler; every answer has X-Request-ID, every refusal the error shape (AAP, conventions)."""

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[Reply]]) -> None:
        """Take the handler; a `Problem` that it raises is answered, anything else is an internal error."""
        self._answer = handler
        super().__init__(self._handle)

    def __call__(self) -> RequestHandler:
        """Make the protocol of one connection."""
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            logger=_SILENT,
            access_log=_SILENT,
            keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=2.0,
            auto_decompress=False,
        )

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        request_id = ids.new()
        try:
            reply = await self._answer(request)
        except Problem as problem:
            return refused(problem, request_id)
        except Exception as error:  # no input may bring this about; if one does, its sender learns nothing
            log.error(
                "unforeseen error",
                action="serve",
                request_id=request_id,
                error=type(error).__name__,
                exc_info=True,
            )
            return refused(unforeseen(), request_id)
        return web.Response(status=reply.status, body=reply.body or None, headers=_headers(request_id, reply.body))


async def read_body(request: web.BaseRequest) -> bytes:
    """Return the bytes of a JSON body.

    Raises:
        Problem: 400, 408, 413, 415 or 417; what is too long by its own word is refused before it is read.
    """
    _check_headers(request)
    if "Expect" in request.headers:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError as error:
        raise Problem(408, "body_timeout", "The body did not arrive in time.") from error
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large() from error
    except (RequestPayloadError, ConnectionError) as error:
        raise Problem(400, "incomplete_body", "The body is incomplete or malformed.") from error


def refused(problem: Problem, request_id: str) -> web.Response:
    """Return a refusal in the error shape."""
    body = problem.body(request_id)
    headers = _headers(request_id, body)
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    headers.update(problem.headers)
    return web.Response(status=problem.status, body=body, headers=headers)


def unforeseen() -> Problem:
    """Return the answer to what must not happen."""
    return Problem(500, "internal_error", "The provider failed; its log says where.")


class _Connection(RequestHandler):
    """One connection; what its parser refuses is answered in the error shape, without an echo."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002 - aiohttp's signature
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """Answer what never reached the handler."""
        log.info("request refused by the parser", action="serve", status=status, error=type(exc).__name__)
        if status >= 500:
            response = refused(unforeseen(), ids.new())
        else:
            response = refused(Problem(400, "malformed_http", "The request is not valid HTTP."), ids.new())
        response.force_close()
        return response


_SILENT = logging.Logger("wakegate_provider.http", level=logging.CRITICAL + 1)
"""What aiohttp logs of malformed input quotes it; `handle_error` logs instead."""


def _headers(request_id: str, body: bytes) -> dict[str, str]:
    headers = {"X-Request-ID": request_id, "Cache-Control": "no-store"}
    if body:
        headers["Content-Type"] = "application/json"
    return headers


def _check_headers(request: web.BaseRequest) -> None:
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Problem(415, "unsupported_encoding", "Send the body without a Content-Encoding.")
    if request.content_type != "application/json" or (request.charset or "utf-8").lower() not in (
        "utf-8",
        "utf8",
    ):
        raise Problem(415, "unsupported_media_type", "Send the body as application/json in UTF-8.")
    if request.content_length is not None and request.content_length > MAX_BODY:
        raise _too_large()
    if request.headers.get("Expect", "100-continue").lower() != "100-continue":
        raise Problem(417, "expectation_failed", "The only expectation that is met is 100-continue.")


def _too_large() -> Problem:
    return Problem(413, "body_too_large", f"A body has at most {MAX_BODY} bytes.")
