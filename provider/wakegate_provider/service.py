"""The provider as a service: one process, loopback only, until it is told to stop."""

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import structlog
from aiohttp import web

from wakegate_provider.app import Api
from wakegate_provider.bell import Bell, watch
from wakegate_provider.deadlines import keep_deadlines
from wakegate_provider.delivery import Courier
from wakegate_provider.instances import Provisioning, credential, first_sealed
from wakegate_provider.outgoing import open_session
from wakegate_provider.policy import load_policy
from wakegate_provider.server import AapServer
from wakegate_provider.store import StoreThread, open_store
from wakegate_provider.updates import Updating
from wakegate_provider.verification import Verifier
from wakegate_provider.waiting import Herald, last_resolution
from wakegate_schema import lock_files
from wakegate_schema.addresses import Address, cannot_listen
from wakegate_schema.errors import WakegateError
from wakegate_schema.keys import ensure_key, load_key
from wakegate_schema.sealing import BearerToken, Sealer
from wakegate_schema.secret_files import create_secret_file, load_bearer_token
from wakegate_schema.settings import Settings
from wakegate_schema.store.sqlite import placement
from wakegate_schema.store.sqlite.doorbell import SqliteDoorbell
from wakegate_schema.urls import is_loopback

STOP_SECONDS = 2.0
"""How long a stop waits for calls in progress (aiohttp waits twice), and then for deliveries in flight."""

log = structlog.get_logger()


class ProviderStartError(WakegateError):
    """The provider cannot start."""

    reason = "provider_start"


async def serve(settings: Settings, *, ready: Callable[[str], None] | None = None) -> None:
    """Run the provider until SIGTERM or SIGINT.

    Args:
        settings: the `provider_*` ones; port 0 in `provider_listen` takes a free one.
        ready: called once with the base URL when calls are answered.

    Raises:
        WakegateError: it cannot start; one line names the setting, file or address at fault.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    try:
        async with running(settings) as url:
            if ready is not None:
                ready(url)
            await stop.wait()
            log.info("stopping", action="stop")
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
    log.info("stopped", action="stopped")


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[str]:
    """Run the provider for as long as the block lasts; gives its base URL.

    A stop takes no more calls, lets long polls answer at once and what is in progress end.

    Raises:
        WakegateError: as `serve`.
    """
    address = _loopback(settings.provider_listen)
    policy = load_policy(settings.provider_policy_file)
    async with AsyncExitStack() as stack:
        thread, sealer, since = _open(settings, stack)
        bell = Bell()
        doorbell = SqliteDoorbell(settings.provider_database_path)
        stack.callback(doorbell.close)
        session = await stack.enter_async_context(open_session())
        herald, courier = Herald(thread, bell), Courier(thread, sealer, session, bell)
        stack.push_async_callback(courier.close, STOP_SECONDS)
        verify = Verifier(session)
        provisioning, updating = Provisioning(thread, sealer, verify), Updating(thread, sealer, verify)
        stack.push_async_callback(provisioning.close)
        stack.push_async_callback(updating.close)
        api = Api(thread, policy, provisioning, updating, herald, courier, _provisioner_token(settings))
        url = await stack.enter_async_context(_listening(api, address))
        async with asyncio.TaskGroup() as group:
            works = (watch(doorbell, bell), herald.run(since), keep_deadlines(thread, bell), courier.run())
            tasks = [group.create_task(work) for work in works]
            log.info("listening", action="listening", url=url)
            yield url
            herald.close()
            for task in tasks:
                task.cancel()


def _open(settings: Settings, stack: AsyncExitStack) -> tuple[StoreThread, Sealer, int]:
    """Open the store for this process alone, with the key that opens what is sealed in it.

    Returns:
        The store's thread, the key, and the number of the last decision.
    """
    path = settings.provider_database_path
    placement.check(path)
    stack.enter_context(_only_one(path))
    store = open_store(path, create=True)
    thread = StoreThread(store)
    stack.callback(thread.close)
    sealed = first_sealed(store)
    if sealed is None and settings.provider_key_file is None:
        sealer = ensure_key(settings.provider_key_path, "provider_key_file")
    else:
        sealer = load_key(settings.provider_key_path, "provider_key_file")
        if sealed is not None:
            credential(sealer, *sealed)
    return thread, sealer, last_resolution(store)


@asynccontextmanager
async def _listening(api: Api, address: Address) -> AsyncIterator[str]:
    runner = web.ServerRunner(AapServer(api), shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    try:
        await _bind(runner, address)
        url = f"http://{Address(address.host, runner.addresses[0][1])}"
        yield url
    finally:
        await runner.cleanup()


async def _bind(runner: web.ServerRunner, address: Address) -> None:
    try:
        await web.TCPSite(runner, address.host, address.port).start()
    except OSError as error:
        raise ProviderStartError(cannot_listen("WAKEGATE_PROVIDER_LISTEN", address, error)) from error


def _loopback(address: Address) -> Address:
    """Refuse any address but loopback; the name is bound as the number it stands for."""
    if not is_loopback(address.host):
        raise ProviderStartError(
            f"the provider listens on loopback only, not on {address}; change WAKEGATE_PROVIDER_LISTEN"
        )
    return Address("127.0.0.1", address.port) if address.host.lower() == "localhost" else address


def _provisioner_token(settings: Settings) -> BearerToken:
    """Read the provisioner token, made on the first start where no file is named."""
    path, what = settings.provider_provisioner_token_path, "the provisioner token"
    if settings.provider_provisioner_token_file is None and not path.exists():
        create_secret_file(path, secrets.token_urlsafe(32), what)
    return load_bearer_token(path, f"{what} of WAKEGATE_PROVIDER_PROVISIONER_TOKEN_FILE")


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Keep a second provider from the same store: it would deliver every event twice."""
    lock = path.with_name(f"{path.name}-lock")
    try:
        descriptor = lock_files.take(lock, 0o600)
    except OSError as error:
        raise ProviderStartError(f"cannot create {lock} beside the provider's store: {error.strerror}") from error
    if descriptor is None:
        raise ProviderStartError(f"another provider is running on the store {path}; stop it first")
    try:
        yield
    finally:
        os.close(descriptor)
