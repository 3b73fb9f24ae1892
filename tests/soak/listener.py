"""The listener: where wakes arrive. It checks each, notes it outside the program, and only then says so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from soak.journal import Journal

UNWILLING = 0.06
"""The part of wakes that are answered with 503 though they were noted: they have to come again."""
SLOW = 0.04
SLOW_S = 1.0


class Listener:
    """Takes wakes over HTTP."""

    def __init__(self, journal: Journal, random: Random) -> None:
        """Take the journal of wakes and what chooses."""
        self.secret_file = Path("wake.secret")
        """The file of the wakes' secret, which the worker makes."""
        self._journal = journal
        self._random = random
        self.port = 0
        self.count = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listen on a free port for as long as the block lasts."""
        application = web.Application()
        application.router.add_post("/wakes", self._take)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        self.port = int(runner.addresses[0][1])
        try:
            yield
        finally:
            await runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            told = Webhook(self.secret_file.read_text().strip()).verify(body, dict(request.headers))
        except WebhookVerificationError as error:
            self._journal.note(event="bad_wake", error=str(error))
            return web.Response(status=401)
        wake_id, data = request.headers["webhook-id"], told["data"]
        calls = data["resolutions"] if told["type"] == "group.resolved" else [data]
        about = next((one["state"] for one in calls if one["id"] == wake_id), "no call of this wake")
        self._journal.note(event="wake", id=wake_id, type=told["type"], calls=len(calls), state=about)
        self.count += 1
        chance = self._random.random()
        if chance < UNWILLING:
            return web.Response(status=503)
        if chance < UNWILLING + SLOW:
            await asyncio.sleep(SLOW_S)
        return web.Response(status=204)
