"""The receiver as a service: everything opened in order, and closed in the order that keeps its promises."""

import asyncio
import gc
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog
import uvloop

from wakegate_receiver.app import App, Bounds
from wakegate_receiver.binding import bind, connection_limits
from wakegate_receiver.connections import Connections, watch_silent
from wakegate_receiver.control.serving import controlling
from wakegate_receiver.control_socket import control_socket
from wakegate_receiver.health import health_routes
from wakegate_receiver.keyring import Keyring
from wakegate_receiver.limits import Admission, Failures
from wakegate_receiver.listener import AT_ONCE, SHARED_AT_ONCE, Listener
from wakegate_receiver.metrics import MeasuredRecords, Measures, metrics_page
from wakegate_receiver.passed import sort_out
from wakegate_receiver.protocol import Server
from wakegate_receiver.refusals import Case, Refusals
from wakegate_receiver.serving import serving
from wakegate_receiver.sharing import Share
from wakegate_receiver.stopping import Stop, drain, end, leaving_in_time, longest_stop, stop_signals, tidy_seconds
from wakegate_receiver.tls import server_context
from wakegate_receiver.webhooks import WebhookConnection
from wakegate_schema import clock, fault_points
from wakegate_schema.harness_tables import Harnesses
from wakegate_schema.passed_sockets import PassedSocket, take_passed_sockets
from wakegate_schema.service_keys import Sealed, ServiceKey
from wakegate_schema.service_manager import ServiceManager
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store, open_store
from wakegate_schema.store.sqlite.wal import WalWatch
from wakegate_schema.watchdog import watched

HANDSHAKE_TIMEOUT_S: Final = 5.0
YOUNG: Final = 10_000
"""Objects after which the collector looks for cycles among the young ones; requests make none, and many objects."""

_log = structlog.get_logger()


def run(settings: Settings, *, ready: Callable[[str], None] | None = None) -> None:
    """Run the receiver on uvloop until SIGTERM or SIGINT; see `serve`."""
    uvloop.run(serve(settings, ready=ready))


async def serve(settings: Settings, *, ready: Callable[[str], None] | None = None, share: Share | None = None) -> None:
    """Run the receiver until SIGTERM or SIGINT; a second signal stops it without waiting for requests.

    Listens on what systemd passed, and tells it when webhooks are taken, how it is, and when it stops.

    Args:
        settings: checked settings.
        ready: told the URL of the events path once webhooks are taken.
        share: this process's part, where it is one of several.

    Raises:
        WakegateError: it cannot start. The message says which setting or file stands in the way.
    """
    manager = ServiceManager.take(os.environ)
    passed = take_passed_sockets(os.environ) if share is None else share.passed()
    with stop_signals() as stop:
        async with (
            leaving_in_time(stop, settings.shutdown_timeout),
            receiving(settings, stop, passed, share) as receiver,
            watched(manager, receiver.probe, f"taking webhooks at {receiver.url}"),
        ):
            _spare_collector()
            if ready is not None:
                ready(receiver.url)
            await stop.asked.wait()
            manager.stopping("stopping: answering what was begun", longest_stop(settings.shutdown_timeout))


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver that takes webhooks."""

    url: str
    """The URL of the events path, with the port the system chose."""
    refusals: Refusals
    connections: Connections
    probe: Callable[[], Awaitable[None]]
    """Makes a real write in the store, or raises why not."""


@asynccontextmanager
async def receiving(
    settings: Settings, stop: Stop, passed: Sequence[PassedSocket] = (), share: Share | None = None
) -> AsyncIterator[Receiver]:
    """Run a receiver in this loop for the length of the block; leaving it stops gracefully.

    What is not among the `passed` sockets it binds itself; as one of several processes only the first one does.
    Whatever can be refused is opened first: files, addresses, the key, then the store. Leaving takes at most
    `settings.shutdown_timeout` seconds, less once `stop.hurried` is set.
    """
    fault_points.arm(os.environ, _log.warning)
    clock.warn_if_set_apart(_log.warning)
    tls = server_context(settings.tls_cert_file, settings.tls_key_file)
    async with AsyncExitStack() as stack:
        public, control, metrics = _sockets(stack, settings, passed, leads=share is None or share.leads)
        key = ServiceKey.receiver(settings)
        key.check()
        store = await stack.enter_async_context(await open_store(settings.store, mode="service"))
        sealer = key.open(Sealed.secrets(await store.registrations()))
        refusals = Refusals(settings.refusals_path, clock.now)
        await refusals.load()
        stack.push_async_callback(refusals.close)
        keyring = Keyring(sealer, store.registrations)
        await keyring.renew()
        most, most_controlling = connection_limits(settings.max_connections)
        connections = Connections(
            most,
            lambda reason, connection: refusals.note(reason, Case(connection.remote)),
        )
        tally = None if share is None else share.tally()
        measures, page = metrics_page(store, refusals.counts, lambda: len(connections), clock.now, tally)
        app = _app(settings, store, keyring, refusals, connections, measures)
        server = Server(app.handle, connections, refusals.note, WebhookConnection)
        listener = Listener(
            public,
            server.connection,
            connections,
            refusals.note,
            tls=tls,
            handshake_timeout=min(HANDSHAKE_TIMEOUT_S, settings.request_timeout),
            at_once=AT_ONCE if share is None else SHARED_AT_ONCE,
        )
        routes = health_routes(store.probe, lambda: _obstacle(app, listener), store.wal_bytes, store.doubts, page.text)
        tidy = tidy_seconds(settings.shutdown_timeout)
        if metrics is not None:
            await stack.enter_async_context(serving(routes, metrics, tidy))
        if control is not None:
            harnesses = Harnesses(settings.config_file, settings.harness)
            controlled = await stack.enter_async_context(
                controlling(control, store, harnesses, routes, most_controlling, tidy)
            )
        periodic = (
            page.tell() if control is None else page.follow(),
            refusals.keep(),
            app.give_up_late(),
            watch_silent(connections, settings.request_timeout),
            *([] if settings.store.is_postgresql else [WalWatch(store.take_in_wal).watch()]),
        )
        for work in periodic:
            stack.push_async_callback(end, asyncio.create_task(work))
        listener.start()
        stack.push_async_callback(drain, app, listener, server, connections, settings.shutdown_timeout, stop)
        if control is not None:
            stack.callback(controlled.drain)
        url = f"{'https' if tls else 'http'}://{listener.address}{settings.events_path}"
        also = {} if metrics is None else {"metrics": str(settings.metrics_listen)}
        also |= {} if control is None else {"control": str(settings.control_address)}
        _log.info("listening", action="listening", url=url, **also)
        yield Receiver(url, refusals, connections, store.probe)


def _sockets(
    stack: AsyncExitStack, settings: Settings, passed: Sequence[PassedSocket], *, leads: bool
) -> tuple[socket.socket, socket.socket | None, socket.socket | None]:
    """Return the sockets for webhooks, for harnesses and, where there is one, for metrics, bound and not served yet.

    Those but the first are None for one of several processes that does not lead them.
    """
    for each in passed:
        stack.enter_context(each.socket)
    given = sort_out(passed, settings)
    control = stack.enter_context(control_socket(settings.control_address, given.control)) if leads else None
    public = stack.enter_context(given.public or bind(settings.listen))
    metrics = given.metrics
    if settings.metrics_listen is not None and metrics is None and leads:
        metrics = stack.enter_context(bind(settings.metrics_listen, "WAKEGATE_METRICS_LISTEN"))
    return public, control, metrics


def _app(
    settings: Settings,
    store: Store,
    keyring: Keyring,
    refusals: Refusals,
    connections: Connections,
    measures: Measures,
) -> App:
    return App(
        Bounds(settings.events_path, settings.max_body_bytes, settings.request_timeout),
        MeasuredRecords(store, measures),
        keyring,
        refusals,
        connections,
        Admission(settings.rate_limit, settings.max_concurrency),
        Failures(settings.refused_rate_limit),
        clock.now,
        measures.genuine,
    )


def _spare_collector() -> None:
    """Have the collector pass over all that a service holds to its end, and look at the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)


def _obstacle(app: App, listener: Listener) -> str | None:
    """Return why webhooks are not taken just now, or None."""
    if app.draining:
        return "draining"
    return None if listener.accepting else "not_listening"
