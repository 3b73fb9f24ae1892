"""The receiver as a service: everything opened in order, and closed in the order that keeps its promises."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog
import uvloop

from wakegate_receiver.app import App, Bounds
from wakegate_receiver.binding import bind, connection_limit
from wakegate_receiver.connections import Connections
from wakegate_receiver.control import control_app, serving
from wakegate_receiver.control_socket import control_socket
from wakegate_receiver.keyring import Keyring
from wakegate_receiver.limits import Admission, Failures
from wakegate_receiver.listener import Listener
from wakegate_receiver.protocol import Server
from wakegate_receiver.refusals import Case, Refusals
from wakegate_receiver.stopping import Stop, drain, end, leaving_in_time, stop_signals, tidy_seconds
from wakegate_receiver.tls import server_context
from wakegate_schema import clock, fault_points
from wakegate_schema.service_keys import Sealed, ServiceKey
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store, open_store
from wakegate_schema.store.wal import WalWatch

HANDSHAKE_TIMEOUT_S: Final = 5.0
SWEEP_S: Final = 0.25

_log = structlog.get_logger()


def run(settings: Settings, *, ready: Callable[[str], None] | None = None) -> None:
    """Run the receiver on uvloop until SIGTERM or SIGINT; see `serve`."""
    uvloop.run(serve(settings, ready=ready))


async def serve(settings: Settings, *, ready: Callable[[str], None] | None = None) -> None:
    """Run the receiver until SIGTERM or SIGINT; a second signal stops it without waiting for requests.

    Args:
        settings: checked settings.
        ready: told the URL of the events path once webhooks are taken.

    Raises:
        WakegateError: it cannot start. The message says which setting or file stands in the way.
    """
    with stop_signals() as stop:
        async with (
            leaving_in_time(stop, settings.shutdown_timeout),
            receiving(settings, stop) as receiver,
        ):
            if ready is not None:
                ready(receiver.url)
            await stop.asked.wait()


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver that takes webhooks."""

    url: str
    """The URL of the events path, with the port the system chose."""
    refusals: Refusals
    connections: Connections


@asynccontextmanager
async def receiving(settings: Settings, stop: Stop) -> AsyncIterator[Receiver]:
    """Run a receiver in this loop for the length of the block; leaving it stops gracefully.

    Whatever can be refused is opened first: files, addresses, the key, then the store. Leaving takes at most
    `settings.shutdown_timeout` seconds, less once `stop.hurried` is set.
    """
    fault_points.arm(os.environ, _log.warning)
    clock.warn_if_set_apart(_log.warning)
    tls = server_context(settings.tls_cert_file, settings.tls_key_file)
    async with AsyncExitStack() as stack:
        control = stack.enter_context(control_socket(settings.control_address))
        public = stack.enter_context(bind(settings.listen))
        key = ServiceKey.receiver(settings)
        key.check()
        store = await stack.enter_async_context(await open_store(settings.database, mode="service"))
        sealer = key.open(Sealed.secrets(await store.registrations()))
        refusals = Refusals(settings.refusals_path, clock.now)
        await refusals.load()
        stack.push_async_callback(refusals.close)
        keyring = Keyring(sealer, store.registrations)
        await keyring.renew()
        connections = Connections(
            connection_limit(settings.max_connections),
            lambda reason, connection: refusals.note(reason, Case(connection.remote)),
        )
        app = _app(settings, store, keyring, refusals, connections)
        server = Server(app.handle, connections, refusals.note)
        listener = Listener(
            public,
            server.connection,
            connections,
            refusals.note,
            tls=tls,
            handshake_timeout=min(HANDSHAKE_TIMEOUT_S, settings.request_timeout),
        )
        health = control_app(store.probe, lambda: _obstacle(app, listener), store.wal_bytes, store.doubts)
        await stack.enter_async_context(serving(health, control, tidy_seconds(settings.shutdown_timeout)))
        periodic = (
            refusals.keep(),
            _cut_silent(connections, settings.request_timeout),
            WalWatch(store.take_in_wal).watch(),
        )
        for work in periodic:
            stack.push_async_callback(end, asyncio.create_task(work))
        listener.start()
        stack.push_async_callback(drain, app, listener, server, connections, settings.shutdown_timeout, stop)
        url = f"{'https' if tls else 'http'}://{listener.address}{settings.events_path}"
        _log.info("listening", action="listening", url=url, control=str(settings.control_address))
        yield Receiver(url, refusals, connections)


def _app(settings: Settings, store: Store, keyring: Keyring, refusals: Refusals, connections: Connections) -> App:
    return App(
        Bounds(settings.events_path, settings.max_body_bytes, settings.request_timeout),
        store,
        keyring,
        refusals,
        connections,
        Admission(settings.rate_limit, settings.max_concurrency),
        Failures(settings.refused_rate_limit),
        clock.now,
    )


def _obstacle(app: App, listener: Listener) -> str | None:
    """Return why webhooks are not taken just now, or None."""
    if app.draining:
        return "draining"
    return None if listener.accepting else "not_listening"


async def _cut_silent(connections: Connections, request_timeout: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_S)
        connections.cut_silent(loop.time() - request_timeout)
