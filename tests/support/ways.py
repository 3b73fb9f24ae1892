"""Ways: how a harness comes to its calls, over the store, or over a real receiver's control API."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from support.receivers import settings_in
from wakegate_adapter import Adapter
from wakegate_adapter.control_calls import ControlCalls
from wakegate_receiver.service import receiving
from wakegate_receiver.stopping import Stop
from wakegate_schema import keys
from wakegate_schema.calls import StoreCalls
from wakegate_schema.calls.calls import HOLD_S, LEASE_S
from wakegate_schema.sealing import seal_signing_secret
from wakegate_schema.settings import Settings
from wakegate_schema.signing import SigningSecret
from wakegate_schema.store import open_store

Name = Literal["store", "control"]
NAMES = get_args(Name)


class Way:
    """Opens adapters that all go one way."""

    def __init__(self, name: Name, database: str, patch: pytest.MonkeyPatch) -> None:
        """Take which way, and the URL of a store that is there."""
        self.name = name
        self._database = database
        self._patch = patch
        self._stack = AsyncExitStack()
        self._socket: Path | None = None

    @property
    def short(self) -> float:
        """A short lease, in seconds, in which a claim comes through on a busy machine all the same."""
        return 0.6 if self.name == "store" else 1.8

    async def __aenter__(self) -> "Way":
        """Begin; the receiver is started when it is first needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the receiver."""
        await self._stack.aclose()

    @asynccontextmanager
    async def adapter(self, *, lease: float = LEASE_S, hold: float = HOLD_S, **options: Any) -> AsyncIterator[Adapter]:
        """Give an adapter of its own, as another process would have it; `lease` and `hold` in seconds."""
        async with Adapter(await self.calls(lease), hold=hold, **options) as opened:
            yield opened

    async def calls(self, lease: float = LEASE_S) -> StoreCalls | ControlCalls:
        """Return the verbs, open."""
        if self.name == "store":
            return StoreCalls(await open_store(self._database, mode="use"), lease=lease)
        return ControlCalls(await self.socket(lease))

    async def where(self, lease: float) -> str:
        """Return the store's URL, or the control socket of a receiver that gives leases of so many seconds."""
        return self._database if self.name == "store" else str(await self.socket(lease))

    async def socket(self, lease: float = LEASE_S) -> Path:
        """Return the control socket of a receiver over the store, in this loop."""
        assert StoreCalls.__init__.__kwdefaults__ is not None
        self._patch.setitem(StoreCalls.__init__.__kwdefaults__, "lease", lease)
        if self._socket is None:
            folder = Path(tempfile.mkdtemp(prefix="wg", dir="/tmp"))
            self._stack.callback(shutil.rmtree, folder)
            self._socket = folder / "c.sock"
            settings = settings_in(folder, database=self._database, control=str(self._socket))
            await seal_secrets(settings)
            await self._stack.enter_async_context(receiving(settings, Stop()))
        return self._socket


async def seal_secrets(settings: Settings) -> None:
    """Give every registration a secret that a receiver can unseal; a desk's are made up."""
    key = keys.ensure_key(settings.receiver_key_path)
    async with await open_store(settings.database, mode="use") as store:
        for found in await store.registrations():
            sealed = seal_signing_secret(
                key,
                provider=found.provider,
                registration_id=found.registration_id,
                secret=SigningSecret.generate(),
            )
            await store.reseal_secret(found.registration_id, found.sealed_secret, sealed)
